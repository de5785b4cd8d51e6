"""The common form of checkpoints: our weight names, and tensors that are read on demand.

Readers convert files to a `BertCheckpoint`, writers convert one to files, and models are loaded from it. Tensors are
read by `StoredTensor.read`, so a conversion holds one tensor in memory at a time.
"""

import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.tokenization.tokenizer import TokenTable

# The parts of a model, which are the prefixes of weight names: `<part>/...`. Heads are named as in the models.
ENCODER = "encoder"
POOLER = "encoder/pooler"
MASKED_LM = "masked_lm_head"
NEXT_SENTENCE = "next_sentence_head"
CLASSIFIER = "classifier"
TOKEN_CLASSIFIER = "token_classifier"
SPAN_CLASSIFIER = "span_classifier"
MULTIPLE_CHOICE = "choice_scorer"
REPLACED_TOKEN = "replaced_token_head"
SENTENCE_HEAD = "sentence_head"  # the dense layers after a pooling
HEADS = (MASKED_LM, NEXT_SENTENCE, CLASSIFIER, TOKEN_CLASSIFIER, SPAN_CLASSIFIER, MULTIPLE_CHOICE, REPLACED_TOKEN)

_WEIGHT_TYPES = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")

TOKEN_EMBEDDINGS = "encoder/embeddings/token_embeddings"
POSITION_EMBEDDINGS = "encoder/embeddings/position_embeddings"
OUTPUT_BIAS = "masked_lm_head/output_bias"
OUTPUT_EMBEDDINGS = "masked_lm_head/output_embeddings"  # for decoders that do not share the encoder's token table


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A tensor that is read on demand.

    Attributes:
        shape: the shape of the tensor.
        dtype: NumPy's name of the dtype, or `bfloat16` of ml_dtypes.
        read: function that returns the tensor as an array, which the caller may keep and change.
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], np.ndarray]

    @classmethod
    def of(cls, array: np.ndarray) -> "StoredTensor":
        """Returns a `StoredTensor` for an array in memory."""
        return cls(tuple(array.shape), array.dtype.name, lambda: array)

    def changed(self, shape: tuple[int, ...], change: Callable[[np.ndarray], np.ndarray]) -> "StoredTensor":
        """Returns a tensor of the given shape that applies `change` when it is read."""
        read = self.read
        return StoredTensor(tuple(shape), self.dtype, lambda: np.ascontiguousarray(change(read())))

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * numpy_dtype(self.dtype).itemsize


@dataclasses.dataclass(frozen=True)
class AdamSlots:
    """The state of Adam, without bias correction.

    Attributes:
        momentums: name of a weight -> running mean of its gradients, in the layout of the weight.
        velocities: name of a weight -> running mean of its squared gradients.
        num_updates: int64 scalar, the number of updates.
    """

    momentums: Mapping[str, StoredTensor]
    velocities: Mapping[str, StoredTensor]
    num_updates: StoredTensor


@dataclasses.dataclass(frozen=True)
class BertCheckpoint:
    """A stored model: config, vocabulary, weights and metadata.

    Attributes:
        path: the path, as the user gave it.
        kind: the format and, if known, the model: "Hugging Face BertForMaskedLM".
        config: the `BertConfig`, including casing and GELU.
        vocabulary: a `TokenTable`, or None.
        tensors: our name, such as `encoder/layer_0/attention/query/kernel` -> tensor in our layout: kernels are
            `[inputs, outputs]`.
        labels: of the classifier or token classifier, or None.
        problem_type: that of the classifier, as `SequenceClassifier` names it.
        sentence: the arguments of `SentenceEncoder`, where the files say how texts get vectors; or None.
        model_class: the model that was saved, where the format says it by our names.
        arguments: what its constructor takes beside the config.
        ignored: what is stored there and has no place here, in its own names.
        remarks: what the user should know.
        says_casing: whether its files say `do_lower_case`.
        adam: what the optimizer remembers, where it is to be written; readers leave it behind.
    """

    path: str
    kind: str
    config: BertConfig
    vocabulary: TokenTable | None
    tensors: Mapping[str, StoredTensor]
    labels: tuple[str, ...] | None = None
    problem_type: str = "classification"
    sentence: Mapping | None = None
    model_class: type | None = None
    arguments: Mapping = dataclasses.field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    says_casing: bool = False
    adam: AdamSlots | None = None

    def replace(self, **changes) -> "BertCheckpoint":
        return dataclasses.replace(self, **changes)

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads with weights, in the order of `HEADS`, followed by heads of the user's own model classes."""
        parts = {part_of(name) for name in self.tensors}
        others = sorted(parts - set(HEADS) - {ENCODER, POOLER})
        return tuple(head for head in HEADS if head in parts) + tuple(others)

    @property
    def num_bytes(self) -> int:
        return sum(tensor.num_bytes for tensor in self.tensors.values())


def part_of(name: str) -> str:
    """Returns the part that a weight belongs to: `masked_lm_head/dense/kernel` -> `masked_lm_head`."""
    return POOLER if name.startswith(f"{POOLER}/") else name.split("/")[0]


def encoder_shapes(config: BertConfig) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of all weights of the encoder, including the pooler."""
    width, inner = config.hidden_size, config.intermediate_size
    if config.is_static:
        return {TOKEN_EMBEDDINGS: (config.vocab_size, width)}
    shapes = {
        TOKEN_EMBEDDINGS: (config.vocab_size, config.embedding_size),
        POSITION_EMBEDDINGS: (config.max_position_embeddings, config.embedding_size),
        **_layer_norm("encoder/embeddings/layer_norm", config.embedding_size),
    }
    if config.type_vocab_size:
        shapes["encoder/embeddings/segment_embeddings"] = (config.type_vocab_size, config.embedding_size)
    if config.embedding_projection:
        shapes |= _dense("encoder/embeddings/projection", config.embedding_size, width)
    for number in range(config.num_blocks):
        layer = f"encoder/layer_{number}"
        for dense in ("query", "key", "value", "output_dense"):
            shapes |= _dense(f"{layer}/attention/{dense}", width, width)
        shapes |= _layer_norm(f"{layer}/attention_layer_norm", width)
        shapes |= _dense(f"{layer}/intermediate_dense", width, inner)
        shapes |= _dense(f"{layer}/output_dense", inner, width)
        shapes |= _layer_norm(f"{layer}/output_layer_norm", width)
    return shapes | _dense(f"{POOLER}/dense", width, width)


def head_shapes(config: BertConfig, head: str, num_classes: int) -> dict[str, tuple[int, ...]]:
    """Returns name -> shape of the weights of a head; only classifiers use `num_classes`."""
    width = config.hidden_size
    if head == MASKED_LM:
        shapes = {
            **_dense(f"{MASKED_LM}/dense", width, config.embedding_size),
            **_layer_norm(f"{MASKED_LM}/layer_norm", config.embedding_size),
            OUTPUT_BIAS: (config.vocab_size,),
        }
        return (
            shapes
            if config.tie_word_embeddings
            else {**shapes, OUTPUT_EMBEDDINGS: (config.vocab_size, config.embedding_size)}
        )
    if head == REPLACED_TOKEN:
        return _dense(f"{head}/dense", width, width) | _dense(f"{head}/output_dense", width, 1)
    outputs = {NEXT_SENTENCE: 2, SPAN_CLASSIFIER: 2, MULTIPLE_CHOICE: 1}.get(head, num_classes)
    return _dense(head, width, outputs)


def num_outputs(path: str, tensors: Mapping[str, StoredTensor], head: str) -> int | None:
    """Returns the number of outputs of a head, or None if there is no such head.

    Raises:
        InputError: the bias of the head does not have one axis.
    """
    bias = tensors.get(f"{head}/bias")
    if bias is None:
        return None
    if len(bias.shape) != 1:
        raise InputError(f"{path}: {head}/bias must have one axis. Received the shape {list(bias.shape)}")
    return bias.shape[0]


def check_tensors(checkpoint: BertCheckpoint) -> None:
    """Raises `InputError` unless the encoder and each stored head are complete and match the config."""
    config, tensors = checkpoint.config, checkpoint.tensors
    expected = encoder_shapes(config)
    if not any(name.startswith(f"{POOLER}/") for name in tensors):
        expected = {name: shape for name, shape in expected.items() if not name.startswith(f"{POOLER}/")}
    for head in checkpoint.heads:
        if head in HEADS:
            kernel = tensors.get(f"{head}/kernel")
            num_classes = kernel.shape[-1] if kernel and kernel.shape else len(checkpoint.labels or ())
            expected |= head_shapes(config, head, num_classes)
            if head == CLASSIFIER and kernel and config.sentence_pooling != "mean":
                # A SentenceClassifier reads the vector of a text, of any width.
                expected[f"{head}/kernel"] = (kernel.shape[0], num_classes)
    missing = [name for name in expected if name not in tensors]
    if missing:
        raise InputError(
            f"{checkpoint.path} ({checkpoint.kind}) is incomplete: {len(missing)} of {len(expected)} tensors are "
            f"missing: {_some(missing)}. Copy it again, or correct its config."
        )
    if checkpoint.model_class is None:  # a user's own class may have additional weights in its encoder
        check_no_surplus(checkpoint, [name for name in tensors if part_of(name) == ENCODER and name not in expected])
    for name, shape in expected.items():
        if tensors[name].shape != shape:
            raise InputError(
                f"{checkpoint.path} ({checkpoint.kind}): {name} has the shape {list(tensors[name].shape)}, but its "
                f"config requires {list(shape)}. The config belongs to another checkpoint, or the file is damaged."
            )
        if tensors[name].dtype not in _WEIGHT_TYPES:
            raise InputError(
                f"{checkpoint.path} ({checkpoint.kind}): {name} has the dtype {tensors[name].dtype}, but weights must "
                f"have one of {', '.join(_WEIGHT_TYPES)}. The file is damaged, or its weights are quantised."
            )
    if checkpoint.vocabulary is not None:
        try:
            config.check_vocabulary(len(checkpoint.vocabulary))
        except InputError as error:
            raise InputError(f"{checkpoint.path}: {error}") from None


def check_no_surplus(checkpoint: BertCheckpoint, names: Sequence[str]) -> None:
    """Raises `InputError` if there are weights that the config does not provide for.

    Otherwise a model with fewer layers than trained would silently compute something else.
    """
    if names:
        raise InputError(
            f"{checkpoint.path} ({checkpoint.kind}) has more weights than a model with num_hidden_layers="
            f"{checkpoint.config.num_hidden_layers}: {_some(names)}. The config belongs to another checkpoint."
        )


def check_stored_file(path: str) -> None:
    """Raises `InputError` if a weights file is missing, empty or a git-lfs pointer."""
    if not os.path.isfile(path):
        raise InputError(f"There is no file {path}.")
    check_no_pointer(path)
    if not os.path.getsize(path):
        raise InputError(f"{path} is damaged or is not a weights file: it is empty. Copy it again.")


def check_no_pointer(path: str, what: str = "the weights") -> None:
    """Raises `InputError` if a file is a git-lfs pointer; `what` names the expected content."""
    with open(path, "rb") as file:
        start = file.read(64)
    if start.startswith(b"version https://git-lfs"):
        raise InputError(
            f"{path} is a git-lfs pointer, not {what}: the repository was cloned without git-lfs. Run "
            "`git lfs install` and `git lfs pull` there, or download the file itself."
        )


def numpy_dtype(name: str) -> np.dtype:
    """Returns the NumPy dtype of that name, including `bfloat16` and the other dtypes of ml_dtypes."""
    import ml_dtypes  # noqa: F401 - registers its dtypes with NumPy

    return np.dtype(name)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _dense(name: str, inputs: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/kernel": (inputs, outputs), f"{name}/bias": (outputs,)}


def _layer_norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    return {f"{name}/gamma": (width,), f"{name}/beta": (width,)}
