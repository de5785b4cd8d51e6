"""A prompt and several choices, of which one is right, for `MultipleChoice`."""

import dataclasses
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import as_list, as_texts
from keras_bert.tasks.base import Answered, ExampleRows, TextTask, text_task
from keras_bert.tasks.explanation.explained_rows import ExplainedRow, number_of, pieces_of_row, pools_all_tokens
from keras_bert.tasks.multiple_choice.answers import ChoiceAnswer, choice_answers, choice_arrays, texts_of
from keras_bert.tasks.multiple_choice.examples import ChoiceExamples, choice_rows
from keras_bert.tasks.report_files import aligned, write_errors, write_numbers, write_table, write_text


class MultipleChoiceTask(TextTask):
    """Prompts and choices -> the numbers of the right choices.

    `x` is a tuple of two columns: N prompts, and N lists of choices, all of the same length. `y` is N numbers of the
    right choices, from 0. The score is the accuracy.
    """

    name = "multiple_choice"
    main_score = "accuracy"

    def text_columns(self, x) -> tuple | None:
        return tuple(x) if isinstance(x, (tuple, list)) and len(x) == 2 and not isinstance(x[1], str) else None

    def examples(self, x, y=None, sample_weight=None) -> ChoiceExamples:
        if self.text_columns(x) is None:
            raise InputError(
                "Prompts and choices must be a tuple of two columns, (prompts, choices), with a list of choices for "
                f"each prompt. Received: {x!r:.100}"
            )
        answers = None if y is None else as_list(y, "the numbers of the right choices")
        choices = [
            as_texts(its_choices, f"choice of example {number}") if isinstance(its_choices, list) else its_choices
            for number, its_choices in enumerate(as_list(x[1], "choices"), start=1)
        ]
        return ChoiceExamples(as_texts(x[0], "prompt"), choices, answers, weights=sample_weight)

    def rows(self, examples: ChoiceExamples, max_seq_length: int | None = None) -> ExampleRows:
        length = self.checked_length(max_seq_length)
        rows, is_cut = choice_rows(examples.prompts, examples.choices, self.tokenizer, length)
        labels = None if examples.answers is None else np.asarray(examples.answers, np.int32)
        rows = self._with_labels(rows, labels, examples.weights)
        return ExampleRows(rows, self._notes_of_cuts(examples, is_cut, length, "examples have a row that was"))

    def answers(self, examples: ChoiceExamples, example_rows: ExampleRows, outputs: np.ndarray) -> list[ChoiceAnswer]:
        arrays = choice_arrays(outputs.astype(np.float64), np.ones_like(outputs, bool))
        text = texts_of(arrays["choice"], examples.choices)
        return choice_answers({**arrays, "text": text}, {"choices": examples.choices})

    def logits_and_labels(self, examples: ChoiceExamples, example_rows: ExampleRows, outputs) -> tuple:
        return outputs, None if examples.answers is None else np.asarray(examples.answers)

    def explained_rows(
        self, examples: ChoiceExamples, example_rows: ExampleRows, outputs, targets: Sequence
    ) -> list[ExplainedRow]:
        """Explains the logit of a choice, by default of the most probable one. The texts are prompt and choice."""
        rows = []
        for number, (prompt, choices) in enumerate(zip(examples.prompts, examples.choices, strict=True)):
            target = targets[number]
            choice = (
                int(outputs[number].argmax()) if target is None else number_of(target, range(len(choices)), "choice")
            )
            row, texts = number * examples.num_choices + choice, (prompt, choices[choice])
            pieces = pieces_of_row(self.row_ids(example_rows, row), texts, self.tokenizer)
            columns = () if pools_all_tokens(self.model) else (0,)
            rows.append(ExplainedRow(number, row, choices[choice], (0,), columns, texts, pieces))
        return rows

    def scores(
        self, examples: ChoiceExamples, answers: Sequence[ChoiceAnswer], is_worst: bool = False
    ) -> dict[str, float]:
        """Returns the accuracy and the loss. Of choices with equal probabilities, each is taken equally often."""
        shares = []
        for answer, right in zip(answers, examples.answers, strict=True):
            num_best = answer.probabilities.count(answer.probability)
            is_best = answer.probabilities[right] == answer.probability
            shares.append(is_best * (num_best == 1 if is_worst else 1 / num_best))
        return {"accuracy": float(np.mean(shares)), "loss": float(np.mean(self.losses(examples, answers)))}

    def losses(self, examples: ChoiceExamples, answers: Sequence[ChoiceAnswer]) -> np.ndarray:
        """Returns the loss of each example, (N,)."""
        of_right = [answer.probabilities[right] for answer, right in zip(answers, examples.answers, strict=True)]
        # A probability that underflows to 0 is replaced by the smallest normal float.
        return -np.log(np.maximum(of_right, np.finfo(np.float64).tiny))

    def without_labels(self, examples: ChoiceExamples) -> ChoiceExamples:
        return dataclasses.replace(examples, answers=None)

    def scores_of_guessing(self, examples: ChoiceExamples) -> dict[str, float]:
        """Returns `chance`, the accuracy of random guesses."""
        return {"chance": 1 / examples.num_choices}

    def write_report(self, folder: str | os.PathLike, answered: Answered, scores: Mapping[str, float]) -> None:
        examples, answers = answered.examples, answered.answers
        predicted = [answer.choice for answer in answers]
        write_choice_report(folder, examples, predicted, self.losses(examples, answers), scores)

    def write_predictions(self, folder: str | os.PathLike, answered: Answered, name: str) -> None:
        """Writes NAME_results.tsv, a line per example with a probability per choice, and NAME_predictions.tsv with the
        prompts, and the numbers, texts and probabilities of the predicted choices."""
        examples, answers = answered.examples, answered.answers
        path = os.path.join(folder, f"{name}_results.tsv")
        write_numbers(path, (answer.probabilities for answer in answers))
        print(f"{path}: a probability for each of the {examples.num_choices} choices")
        pairs = zip(examples.prompts, answers, strict=True)
        rows = ([prompt, answer.choice, answer.text, answer.probability] for prompt, answer in pairs)
        header = ["prompt", "choice", "text", "probability"]
        write_table(os.path.join(folder, f"{name}_predictions.tsv"), header, rows)


def write_choice_report(
    folder: str | os.PathLike,
    examples: ChoiceExamples,
    predicted: Sequence[int],
    losses: Sequence[float],
    scores: Mapping[str, float],
) -> None:
    """Writes the report on N examples with answers, N numbers of choices, and their losses.

    report.txt     scores, accuracy by chance, and how often each position is right and was chosen: a model that ignores
                   the texts prefers some positions
    errors.tsv     the prompts with a wrong choice, the highest loss first
    """
    num_choices, right = examples.num_choices, examples.answers
    is_right, is_taken = Counter(right), Counter(predicted)
    both = Counter(one for one, other in zip(right, predicted, strict=True) if one == other)
    table = [[str(place), is_right[place], is_taken[place], both[place]] for place in range(num_choices)]
    pairs = list(zip(examples.choices, right, predicted, strict=True))
    columns = {
        "prompt": examples.prompts,
        "right": [texts[one] for texts, one, _ in pairs],
        "predicted": [texts[other] for texts, _, other in pairs],
        "loss": losses,
    }
    num_wrong = write_errors(folder, "example", columns, [one != other for _, one, other in pairs])
    shown = [["examples", len(examples)], *([name, float(value)] for name, value in scores.items())]
    text = aligned(["", "value"], [*shown, ["accuracy by chance", 1 / num_choices]])
    text += "\n" + aligned(["choice", "is right", "was taken", "rightly"], table)
    write_text(os.path.join(folder, "report.txt"), text + f"\n{num_wrong} of {len(examples)} are wrong: errors.tsv\n")


class LoadedMultipleChoice:
    """Methods of loaded exports of a `MultipleChoice`."""

    served_inputs: ClassVar = {"prompt": (), "choices": (None,)}
    served_outputs: ClassVar = {"choice": (-1,), "text": ("",), "probability": (0.0,), "probabilities": (0.0, None)}

    def serve(self, prompt: list[str], choices: list[list[str]]) -> dict[str, Any]:
        """See `AnswerSignature`. As in a SavedModel, "" and repetitions of the first choice at the end do not count."""
        task, counts = text_task(self), np.array(list(map(_count, choices)))
        rows, _ = choice_rows(prompt, choices, task.tokenizer, self.max_seq_length)
        logits = task.outputs(rows, verbose=0).astype(np.float64)
        arrays = choice_arrays(logits, np.arange(len(choices[0])) < counts[:, None])
        return {**arrays, "text": texts_of(arrays["choice"], choices)}


def _count(choices: list[str]) -> int:
    counted = (number for number, text in enumerate(choices, 1) if text and (number == 1 or text != choices[0]))
    return max(counted, default=0)
