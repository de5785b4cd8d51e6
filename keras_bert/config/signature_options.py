"""The options of an export that decide its signatures. Nothing here imports TensorFlow, so that `--help` is quick."""

import dataclasses
from typing import TypedDict

from keras_bert.config.bert_config import POOLINGS
from keras_bert.program.options import Options, documented, option


@documented
@dataclasses.dataclass(frozen=True)
class SignatureOptions(Options):
    """The options of an export that decide its signatures; see `BertModel.export_for_serving`."""

    max_seq_length: int | None = option(
        None, "Longer texts are cut to this many tokens. The default is all positions of the model.", at_least=1
    )
    text_pairs: bool = option(False, "Whether a classifier or an encoder takes two texts.")
    top_k: int = option(
        5,
        "How many tokens a pre-trained model proposes for each [MASK], or a sparse encoder returns for each text.",
        at_least=1,
    )
    pooling: str | None = option(
        None, "How an encoder pools token vectors. Default: as its folder says, or the mean.", choices=POOLINGS
    )
    normalize: bool | None = option(
        None, "Whether an encoder divides vectors by their length; the default is to do so."
    )
    prompt: str | None = option(None, "The name of the prompt of a sentence encoder that is put before each text.")
    num_beams: int = option(4, at_least=1)
    max_new_tokens: int = option(64, at_least=1)
    length_penalty: float = 1.0
    num_answers: int = option(1, at_least=1)
    zero_shot: str | None = option(
        None,
        "Adds the signature zero_shot to a classifier for entailment: labels without training, by this sentence about "
        "a label, such as 'This example is {}.'.",
    )

    def given(self) -> list[str]:
        """Returns the names of the options that are not their defaults."""
        return [field.name for field in dataclasses.fields(self) if getattr(self, field.name) != field.default]


class ExportOptions(TypedDict, total=False):
    """The fields of `SignatureOptions`, for the methods that take them as `**options`."""

    max_seq_length: int | None
    text_pairs: bool
    top_k: int
    pooling: str | None
    normalize: bool | None
    prompt: str | None
    num_beams: int
    max_new_tokens: int
    length_penalty: float
    num_answers: int
    zero_shot: str | None
