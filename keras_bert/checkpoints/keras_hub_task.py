"""The task of a preset of KerasHub, `task.json`: a text classifier, a masked LM or a text embedder.

Reference: keras-team/keras-hub, `src/models/bert/bert_text_classifier.py`, `bert_text_embedder.py`.
"""

import dataclasses
import os
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.checkpoints.checkpoint import check_stored_file
from keras_bert.config import POOLINGS, BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member, read_json_object

TASK_FILE = "task.json"
# Settings that change nothing, or only the form of the outputs.
ANY_OBJECT = ("name", "trainable", "dtype", "config_file", "sequence_length")
OBJECT_KEYS = KnownKeys(
    used=("class_name", "config"),
    harmless=("module", "registered_name", "build_config", "compile_config", "assets", "weights"),
)
_KEYS = KnownKeys(
    used=("backbone", "preprocessor", "activation", "pooling_mode", "normalize"),
    harmless=(*ANY_OBJECT, "num_classes", "dropout", "hidden_dim"),  # the shapes of the weights show the sizes
)
# The masked LM's settings are about training.
_PREPROCESSOR_KEYS = KnownKeys(
    used=("tokenizer", "sequence_length"),
    harmless=(*ANY_OBJECT, *("mask_selection_rate", "mask_selection_length", "mask_token_rate", "random_token_rate")),
    fixed={"truncate": ("round_robin",)},
)
# The end of the name of the class of masked language models.
MASKED_LM_TASK = "MaskedLM"
_TASKS = ("Classifier", MASKED_LM_TASK, "TextEmbedder")
# Activation of the outputs of a classifier -> its problem type.
PROBLEM_TYPES = {"linear": "classification", "softmax": "classification", "sigmoid": "multi_label"}


@dataclasses.dataclass(frozen=True)
class HubTask:
    """The task of a preset.

    Attributes:
        name: the class in KerasHub; "" for a backbone alone.
        activation: what makes probabilities from the outputs of a classifier.
        sentence: the arguments of `SentenceEncoder` for a text embedder; else None.
    """

    name: str = ""
    activation: str = "linear"
    sentence: Mapping[str, Any] | None = None

    @property
    def pooling(self) -> str:
        """The pooling of a text embedder."""
        return self.sentence["pooling"][0] if self.sentence else "mean"

    def problem_type(self, labels: Sequence[str] | None, file: str) -> str:
        """Returns the problem type of a classifier. One output without activation is a score."""
        if labels is None or len(labels) > 1 or self.activation == "sigmoid":
            return PROBLEM_TYPES[self.activation]
        if self.activation == "softmax":
            raise InputError(f"{file}: the softmax of one output is always 1. Only linear and sigmoid are supported.")
        return "regression"


def read_task(path: str, config: BertConfig) -> HubTask:
    """Reads `task.json`, which a backbone lacks. Raises `InputError` if it is damaged or has something unknown."""
    file = os.path.join(path, TASK_FILE)
    if not os.path.isfile(file):
        return HubTask()
    values = read_json(file)
    OBJECT_KEYS.check(values, file)
    name = member(values, "class_name", str, file, "")
    if not name.endswith(_TASKS):
        raise InputError(f"{file}: the task {name[:100]!r} is unknown. Known are: ...{', ...'.join(_TASKS)}")
    settings = member(values, "config", dict, file, {})
    _KEYS.check(settings, f"{file}: config")
    preprocessor = member(member(settings, "preprocessor", dict, file, {}), "config", dict, file, {})
    _PREPROCESSOR_KEYS.check(preprocessor, f"{file}: preprocessor")
    if not name.endswith("TextEmbedder"):
        return HubTask(name, _activation(settings.get("activation"), file))
    pooling = member(settings, "pooling_mode", str, file, "mean")
    if pooling not in POOLINGS:
        raise InputError(f"{file}: pooling_mode is {pooling[:100]!r}. Supported: {', '.join(POOLINGS)}")
    longest = member(preprocessor, "sequence_length", int, file)
    sentence = {
        "pooling": [pooling],
        "dense": [],
        "normalize": member(settings, "normalize", bool, file, True),
        "prompts": {},
        "default_prompt": None,
        "max_seq_length": longest and min(longest, config.max_sequence_length),
    }
    return HubTask(name, sentence=sentence)


def _activation(value: Any, file: str) -> str:
    """Returns the name of an activation, which Keras writes as a string or as an object."""
    name = value.get("config") if isinstance(value, dict) else value
    name = "linear" if name is None else name
    if not isinstance(name, str) or name not in PROBLEM_TYPES:
        raise InputError(f"{file}: activation is {reprlib.repr(value)}. Supported: {', '.join(PROBLEM_TYPES)}")
    return name


def read_json(path: str) -> dict:
    """Returns the JSON object of a file of a preset."""
    check_stored_file(path)
    return read_json_object(path)
