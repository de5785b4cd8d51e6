"""The common form of checkpoints: our weight names, and tensors that are read on demand.

Readers convert files to a `BertCheckpoint`, writers convert one to files, and models are loaded from it. Tensors are
read by `StoredTensor.read`, so a conversion holds one tensor in memory at a time.
"""

import dataclasses
import math
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import check_no_pointer
from keras_bert.registry import heads, task
from keras_bert.tokenization.tokenizer import TokenTable

# The parts of a model, which are the prefixes of weight names: `<part>/...`. Here are those that checkpoints of other
# projects treat in a special way; the entries of the tasks have all heads.
ENCODER = "encoder"
POOLER = "encoder/pooler"
MASKED_LM = "masked_lm_head"
NEXT_SENTENCE = "next_sentence_head"
CLASSIFIER = "classifier"
REPLACED_TOKEN = "replaced_token_head"
DECODER = "decoder"
CROSS_ATTENTION = "cross_attention"
SPAN_BOUNDARY = "span_boundary_head"  # of SpanBERT's pre-training
GENERATOR = "generator"  # the masked LM that replaces tokens in pre-training
SENTENCE_HEAD = "sentence_head"  # the dense layers after a pooling, or of each token
QUERY_WEIGHTS = "query_weights"  # of the tokens of static queries
TOKEN_SCORES, TOKEN_VECTORS = "token_scores", "token_vectors"  # bge-m3: dense layers of each token

# The kind of a checkpoint that is a model in memory.
MODEL = "model"
WEIGHT_TYPES = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")

TOKEN_EMBEDDINGS = "encoder/embeddings/token_embeddings"
# What a discriminator in pre-training adds to the table of tokens, which is that of the generator (DeBERTa).
TOKEN_DIFFERENCE = f"{TOKEN_EMBEDDINGS}_difference"
POSITION_EMBEDDINGS = "encoder/embeddings/position_embeddings"
OUTPUT_BIAS = "masked_lm_head/output_bias"
MASK_EMBEDDING = "masked_lm_head/mask_embedding"  # with which a second stream begins
OUTPUT_EMBEDDINGS = "masked_lm_head/output_embeddings"  # for decoders that do not share the encoder's token table
EXTRA_OUTPUT_EMBEDDINGS = "masked_lm_head/extra_output_embeddings"  # MobileBERT's table that continues the token table


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A tensor that is read on demand.

    Attributes:
        dtype: NumPy's name of the dtype, or `bfloat16` of ml_dtypes.
        read: returns the tensor as an array, which the caller may keep and change.
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
    """A stored model: config, tokenizer, weights and metadata.

    Attributes:
        path: the path, as the user gave it.
        kind: the format and, if known, the model: "Hugging Face BertForMaskedLM".
        config: the `BertConfig`. It states the casing of the tokenizer, if that is known.
        tokenizer: a `Tokenizer` or `StreamVocabulary`, or None. Readers give a `Vocabulary` if its files do not say
            whether texts are lower-cased; `read_checkpoint` makes a tokenizer of it.
        tensors: our name, such as `encoder/layer_0/attention/query/kernel` -> tensor in our layout: kernels are
            `[inputs, outputs]`.
        labels: of the classifier or token classifier, or None.
        problem_type: that of the classifier, as `SequenceClassifier` names it.
        model_class: the model that was saved, where the format says it by our names.
        arguments: kind of model, a key of `registry.TASKS` -> what the files say about such a model: the arguments of
            its constructor beside the config. The kind of a class without an entry is None.
        ignored: what is stored there and has no place here, in its own names.
        remarks: what the user should know.
        adam: what the optimizer remembers, where it is to be written; readers leave it behind.
    """

    path: str
    kind: str
    config: BertConfig
    tokenizer: Any
    tensors: Mapping[str, StoredTensor]
    labels: tuple[str, ...] | None = None
    problem_type: str = "classification"
    model_class: type | None = None
    arguments: Mapping[str | None, Mapping] = dataclasses.field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    adam: AdamSlots | None = None

    def __post_init__(self):
        object.__setattr__(self, "config", self.config.with_casing_of(self.tokenizer))

    @property
    def vocabulary(self) -> TokenTable | None:
        """The tokens, or None."""
        return None if self.tokenizer is None else self.tokenizer.vocabulary

    def replace(self, **changes) -> "BertCheckpoint":
        return dataclasses.replace(self, **changes)

    def telling(self, kind: str, arguments: Mapping, tensors: Mapping[str, StoredTensor] = {}) -> "BertCheckpoint":
        """Returns the checkpoint with the arguments of a kind of model, and with more tensors."""
        return self.replace(arguments={**self.arguments, kind: arguments}, tensors={**self.tensors, **tensors})

    def tells(self, kind: str) -> bool:
        """Returns whether the files say that this is a model of that kind, see `Task.told_by`."""
        argument = task(kind).told_by
        return argument is not None and self.arguments.get(kind, {}).get(argument) is not None

    def without_parts(self, parts: Collection[str]) -> "BertCheckpoint":
        """Returns the checkpoint without the weights of some parts."""
        kept = {name: tensor for name, tensor in self.tensors.items() if part_of(name) not in parts}
        return self.replace(tensors=kept)

    def with_whole_table(self) -> "BertCheckpoint":
        """Returns the checkpoint with the sum of the two tables of a discriminator in pre-training, if it has two."""
        tensors = dict(self.tensors)
        difference, table = tensors.pop(TOKEN_DIFFERENCE, None), tensors.get(TOKEN_EMBEDDINGS)
        if difference is None or table is None:
            return self
        tensors[TOKEN_EMBEDDINGS] = table.changed(table.shape, lambda rows: rows + difference.read())
        return self.replace(tensors=tensors)

    def with_pooler_of_masked_lm(self) -> "BertCheckpoint":
        """Returns the checkpoint with the masked-LM head as its pooler, if tasks of the family start so (ModernBERT).

        A pooler beside a masked-LM head is replaced: pre-training does not train it.
        """
        if not (self.config.family.pooler_is_masked_lm_head and MASKED_LM in self.heads):
            return self
        copied = {
            f"{POOLER}{name.removeprefix(MASKED_LM)}": tensor
            for name, tensor in self.tensors.items()
            if name.startswith((f"{MASKED_LM}/dense/", f"{MASKED_LM}/layer_norm/"))
        }
        return self.replace(tensors={**self.tensors, **copied})

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads with weights, in the order of the tasks, followed by those that no entry of a task has."""
        parts, known = {part_of(name) for name in self.tensors}, heads()
        others = sorted(parts - set(known) - {ENCODER, POOLER})
        return tuple(head for head in known if head in parts) + tuple(others)

    @property
    def num_bytes(self) -> int:
        return sum(tensor.num_bytes for tensor in self.tensors.values())


def part_of(name: str) -> str:
    """Returns the part that a weight belongs to: `masked_lm_head/dense/kernel` -> `masked_lm_head`."""
    return POOLER if name.startswith(f"{POOLER}/") else name.split("/")[0]


def without_unused_embedding(tensors: dict[str, StoredTensor], ignored: list[str]) -> None:
    """Leaves out the vector with which a second stream begins if there is no head that predicts tokens."""
    if OUTPUT_BIAS not in tensors and tensors.pop(MASK_EMBEDDING, None) is not None:
        ignored.append("mask_emb")


def num_outputs(path: str, tensors: Mapping[str, StoredTensor], head: str) -> int | None:
    """Returns the number of outputs of a head, None without one. Raises `InputError` if its bias has several axes."""
    bias = tensors.get(f"{head}/bias")
    if bias is None:
        return None
    if len(bias.shape) != 1:
        raise InputError(f"{path}: {head}/bias must have one axis. Received the shape {list(bias.shape)}")
    return bias.shape[0]


def check_stored_once(path: str, tensors: Mapping[str, StoredTensor], stored_bytes: int, copies: int = 1) -> None:
    """Raises `InputError` if tensors have more bytes than their files, each counted `copies` times.

    Tensors that lie over each other would make a small file fill the memory.
    """
    num_bytes = sum(tensor.num_bytes for tensor in tensors.values())
    if num_bytes > copies * stored_bytes:
        raise InputError(
            f"{path} is damaged: its tensors have {num_bytes:,} bytes in all, but only {stored_bytes:,} are stored, so "
            "they lie over each other. Copy it again."
        )


def check_stored_file(path: str) -> None:
    """Raises `InputError` if a weights file is missing, empty or a git-lfs pointer."""
    if not os.path.isfile(path):
        raise InputError(f"There is no file {path}.")
    with open(path, "rb") as file:
        start = file.read(64)
    check_no_pointer(path, start, "the weights")
    if not start:
        raise InputError(f"{path} is damaged or is not a weights file: it is empty. Copy it again.")


def no_bert(path: str, missing: str, names: Mapping[str, StoredTensor], what: str) -> InputError:
    """Returns the error for a file without the token embeddings `missing`. The format calls its tensors `what`."""
    found = ", ".join(list(names)[:3])
    return InputError(f"{path} holds no BERT: {missing} is missing. Its {what} are called {found}, ...")


def numpy_dtype(name: str) -> np.dtype:
    """Returns the NumPy dtype of that name, including `bfloat16` and the other dtypes of ml_dtypes."""
    import ml_dtypes  # noqa: F401 - registers its dtypes with NumPy

    return np.dtype(name)
