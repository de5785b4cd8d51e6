"""What a loaded export of a `TokenClassifier` can do beside answering texts."""

from typing import Any, ClassVar

from keras_bert.tasks.fitting import text_task
from keras_bert.tasks.served_values import byte_places, padded
from keras_bert.tasks.tagging.tag_schemes import TagLabels
from keras_bert.tokenization.text_words import words_of_text


class LoadedTokenClassifier:
    """Methods of loaded exports of a `TokenClassifier`."""

    served_inputs: ClassVar = {"text": ()}

    @property
    def served_outputs(self) -> dict[str, tuple]:
        names = ("words", "tags") if TagLabels.of(self.labels).scheme is None else ("entities", "types")
        places = {"starts": (-1, None), "ends": (-1, None), "probabilities": (0.0, None)}
        return {**dict.fromkeys(names, ("", None)), **places}

    def serve(self, text: list[str]) -> dict[str, Any]:
        """See `AnswerSignature`. A text without words has no entities."""
        specs, parts = self.served_outputs, [[] for _ in text]
        numbers = [number for number, one in enumerate(text) if words_of_text(one)]
        if numbers:
            task = text_task(self)
            examples = task.examples([text[number] for number in numbers])
            for number, answer in zip(numbers, task.answers(examples, *self.computed(examples)), strict=True):
                found = answer.entities if "entities" in specs else answer.tagged_words(text[number])
                places = byte_places(text[number])
                parts[number] = [
                    (one.text, one.type, places[one.start], places[one.end], one.probability) for one in found
                ]
        return padded(parts, specs)
