"""The models that `keras_bert.serving.load` returns: the code of the tasks on the engine of another runtime.

A task reads a few attributes of its model, such as `labels`. These classes have them, without Keras or TensorFlow.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.models.prompts import Prompts
from keras_bert.models.score_activations import SCORE_ACTIVATIONS
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.serving.portable.checked_engine import CheckedEngine
from keras_bert.serving.portable.folder import EXPORT_FILE, SAVED_MODEL, PortableFolder
from keras_bert.tasks import fitting
from keras_bert.tokenization.kinds import python_tokenizer
from keras_bert.tokenization.token_lists import PythonForm
from keras_bert.tokenization.user_inputs import holds_texts

_LARGEST = 2**31 - 1


def _is_count(value, fewest: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and fewest <= value <= _LARGEST


def _is_number(value) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= _LARGEST


def _are_names(value, fewest: int) -> bool:
    is_list = isinstance(value, list) and all(isinstance(name, str) for name in value)
    return is_list and len(value) >= fewest and len(set(value)) == len(value)


def _is_none_or(check: Callable) -> Callable:
    return lambda value: value is None or check(value)


_DOC_STRIDE = (None, _is_none_or(_is_count))


class LoadedModel:
    """A model of an export. Answers are those of the Keras model that was exported.

    Args:
        folder: the content of the export, without its network.
        engine: runs its network.

    Attributes:
        engine: `engine.run(features)` returns the outputs of the network.
        config, vocabulary: as of a Keras model.
        max_seq_length: longer texts are cut to this many tokens, unless `predict` gets another `max_seq_length`.

    Raises:
        InputError: a setting in `export.json` is not valid.
    """

    text_task: str
    feature_axes: Sequence[str] = ("batch", "length")
    has_token_outputs = False
    # Whether the network runs for one small row when it is loaded.
    _is_tried = True
    # Name of a setting -> its default, and a function that says whether a value is valid.
    _settings: Mapping[str, tuple[Any, Callable]] = {}

    def __init__(self, folder: PortableFolder, engine):
        self.config, self.vocabulary = folder.config, folder.vocabulary
        self.tokenizer = PythonForm(python_tokenizer(self.vocabulary, self.config.do_lower_case))
        self.max_seq_length = folder.max_seq_length
        for name, (default, is_valid) in self._settings.items():
            value = folder.settings.get(name, default)
            if not is_valid(value):
                raise InputError(
                    f"{folder.path}/{EXPORT_FILE}: the setting {name} is not valid. Received: {value!r:.100}"
                )
            setattr(self, name, tuple(value) if isinstance(value, list) else value)
        self.engine = CheckedEngine(engine, self.config, len(self.feature_axes), self._outputs())
        self.feature_names = self.engine.feature_names
        known = {features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS}
        known |= {features.MASKED_LM_POSITIONS} if "masked_lm_logits" in self._outputs() else set()
        if not known >= set(self.feature_names):
            raise InputError(
                f"The network of {folder.path} takes {', '.join(self.feature_names)[:300]}, but {EXPORT_FILE} says "
                f"that it is a {folder.model}. Export the model again."
            )
        if self._is_tried:
            self.engine.try_once()

    def _outputs(self) -> Mapping[str, Sequence]:
        """Returns the outputs of the network, see `CheckedEngine`."""
        return {"": ("batch", len(self.labels))}

    def predict(self, x, *args, **options) -> list:
        """Returns an answer for each text; the arguments are those of `predict(texts)` of the Keras model.

        Raises:
            InputError: `x` has no texts, or as the Keras model.
        """
        self._check_texts(x)
        return fitting.predict_texts(self, x, *args, **{"max_seq_length": self.max_seq_length, **options})

    def evaluate(self, x, *args, **options) -> dict[str, float]:
        """Returns the official scores on texts with labels; the arguments are those of the Keras model."""
        self._check_texts(x)
        return fitting.evaluate_texts(self, x, *args, **{"max_seq_length": self.max_seq_length, **options})

    def warn_if_untrained(self, parts: Sequence[str] | None = None) -> None:
        """Does nothing: the export has reported parts that are not trained."""

    def _check_texts(self, x) -> None:
        if not holds_texts(x):
            raise InputError(f"A loaded export takes texts. Received: {type(x).__name__}. Give features to engine.run.")


class LoadedClassifier(LoadedModel):
    """A `SequenceClassifier` or `SentenceClassifier`."""

    text_task = "keras_bert.tasks.classification.task.ClassificationTask"
    _settings = {
        "labels": (["score"], lambda value: _are_names(value, 1)),
        "problem_type": ("classification", ("classification", "multi_label", "regression").__contains__),
        "doc_stride": _DOC_STRIDE,
    }


class LoadedTagger(LoadedModel):
    """A `TokenClassifier`."""

    text_task = "keras_bert.tasks.tagging.task.TaggingTask"
    has_token_outputs = True
    _settings = {"labels": (None, lambda value: _are_names(value, 2)), "doc_stride": _DOC_STRIDE}

    def _outputs(self):
        return {"": ("batch", "length", len(self.labels))}


class LoadedSpanClassifier(LoadedModel):
    """A `SpanClassifier`."""

    text_task = "keras_bert.tasks.question_answering.task.QuestionAnsweringTask"
    has_token_outputs = True
    _settings = {
        "null_threshold": (None, _is_none_or(_is_number)),
        "doc_stride": (128, _is_count),
        "max_query_length": (64, _is_count),
    }

    def _outputs(self):
        return dict.fromkeys(("start_logits", "end_logits"), ("batch", "length"))


class LoadedMultipleChoice(LoadedModel):
    """A `MultipleChoice`."""

    text_task = "keras_bert.tasks.multiple_choice.task.MultipleChoiceTask"
    feature_axes = ("batch", "choices", "length")

    def _outputs(self):
        return {"": ("batch", "choices")}


class LoadedMaskedLM(LoadedModel):
    """A `MaskedLM`, or the masked-LM part of a `BertPretrainer`."""

    text_task = "keras_bert.tasks.masked_lm.task.MaskedLMTask"
    _settings = {"top_k": (None, _is_none_or(_is_count))}

    def _outputs(self):
        return {"masked_lm_logits": ("batch", "predictions", self.config.vocab_size)}

    def predict(self, x, *args, **options) -> list:
        """Returns the most probable tokens for each mask of texts; the options are those of `fill_masks`.

        A SavedModel has the probabilities of its `top_k` tokens only: it takes neither `targets` nor a larger `top_k`.
        """
        from keras_bert.tasks.masked_lm import task

        self._check_texts(x)
        if self.top_k is not None:
            options = {"top_k": self.top_k, **options}
            if "targets" in options or options["top_k"] > self.top_k:
                raise InputError(
                    f"This SavedModel was exported with top_k={self.top_k} and has no probabilities of other tokens. "
                    "Export the model with a larger top_k, or for LiteRT or ONNX."
                )
        return task.predict_texts(self, x, *args, **{"max_seq_length": self.max_seq_length, **options})

    def evaluate(self, x, *args, **options) -> dict[str, float]:
        """Returns loss, masked_lm_accuracy and perplexity on texts that are masked at random."""
        from keras_bert.tasks.masked_lm import task

        self._check_texts(x)
        if self.top_k is not None:
            raise InputError("A SavedModel has the probabilities of few tokens only. Export for LiteRT or ONNX.")
        return task.evaluate_texts(self, x, *args, **{"max_seq_length": self.max_seq_length, **options})


class LoadedSentenceEncoder(Prompts, LoadedModel):
    """A `SentenceEncoder`, or a `BertEncoder` with the pooling that its export got."""

    text_task = "keras_bert.tasks.embedding.task.EmbeddingTask"
    _settings = {
        "pooling": (["mean"], lambda value: _are_names(value, 1)),
        "normalize": (True, lambda value: isinstance(value, bool)),
        "prompts": ({}, lambda value: isinstance(value, dict)),
        "default_prompt": (None, _is_none_or(lambda value: isinstance(value, str))),
        "doc_stride": _DOC_STRIDE,
        "embedding_size": (None, _is_count),
    }

    def __init__(self, folder: PortableFolder, engine):
        super().__init__(folder, engine)
        self.check_prompts()

    def _outputs(self):
        return {"": ("batch", self.embedding_size)}

    def encode(self, texts, **options) -> np.ndarray:
        """Returns the vectors of texts, float32 `[texts, D]`; the options are those of `sentence_embeddings`."""
        from keras_bert.embeddings.text_vectors import sentence_embeddings

        return sentence_embeddings(self, texts, **options)


class LoadedCrossEncoder(Prompts, LoadedModel):
    """A `CrossEncoder`."""

    text_task = "keras_bert.tasks.ranking.task.RankingTask"
    labels = ("score",)
    problem_type = "regression"
    _settings = {
        "activation": ("linear", lambda value: value in SCORE_ACTIVATIONS),
        "prompts": ({}, lambda value: isinstance(value, dict)),
        "default_prompt": (None, _is_none_or(lambda value: isinstance(value, str))),
    }

    def __init__(self, folder: PortableFolder, engine):
        super().__init__(folder, engine)
        self.check_prompts()
        run = self.engine.run
        # As the Keras model: `[B, 1]` for `[B, S]`, and `[B, C]` for `[B, C, S]`.
        self.engine.run = lambda given: _without_last_axis(run(given), np.ndim(given[features.INPUT_IDS]))

    def rank(
        self, query: str, texts, top_k: int | None = None, batch_size: int = 32, prompt: str | None = None
    ) -> list:
        """Returns a `RankedText` for each of the best texts for a query; see `CrossEncoder.rank`."""
        from keras_bert.tasks.ranking.task import rank

        return rank(self, query, texts, top_k, batch_size, prompt)


def _without_last_axis(scores: np.ndarray, num_axes: int) -> np.ndarray:
    return scores if num_axes == 2 else scores[..., 0]


class LoadedTextToText(LoadedModel):
    """A `TextToText`, which writes as its export says: it has the number of beams and the other options."""

    text_task = "keras_bert.tasks.text_to_text.task.TextToTextTask"
    _is_tried = False  # writing takes long

    def __init__(self, folder: PortableFolder, engine):
        if folder.format != SAVED_MODEL:
            raise InputError(f"{folder.path}/{EXPORT_FILE}: the format of a TextToText is {SAVED_MODEL} only.")
        super().__init__(folder, engine)

    def _outputs(self):
        return dict.fromkeys(("texts", "scores"), ("batch", "alternatives"))


# The classes of exported models -> what they are loaded as.
LOADED_MODELS = {
    "SequenceClassifier": LoadedClassifier,
    "SentenceClassifier": LoadedClassifier,
    "CrossEncoder": LoadedCrossEncoder,
    "TokenClassifier": LoadedTagger,
    "SpanClassifier": LoadedSpanClassifier,
    "MultipleChoice": LoadedMultipleChoice,
    "MaskedLM": LoadedMaskedLM,
    "SentenceEncoder": LoadedSentenceEncoder,
    "TextToText": LoadedTextToText,
}
