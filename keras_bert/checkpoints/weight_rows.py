"""`Weight`: the names of a weight in each format. The tables of `encoder_names.py` and `family_names.py` have them."""

from typing import NamedTuple

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.name_table import SAME, TRANSPOSED

# The parts of a block that most families have.
_BLOCK = (
    *("attention/query", "attention/key", "attention/value", "attention/output_dense", "attention_layer_norm"),
    *("intermediate_dense", "output_dense", "output_layer_norm"),
)


class Weight(NamedTuple):
    """The names of a weight in three formats. `*` stands for the number of a layer; "" means that there is no name.

    Attributes:
        ours: our name.
        hugging_face, google: the names in transformers and in TensorFlow 1.
        hugging_face_layout, google_layout: the layouts there, see `name_table`.
    """

    ours: str
    hugging_face: str = ""
    google: str = ""
    hugging_face_layout: str = SAME
    google_layout: str = SAME


def dense(ours: str, hugging_face: str, google: str = "") -> list[Weight]:
    return [
        Weight(f"{ours}/kernel", f"{hugging_face}.weight", google and f"{google}/kernel", TRANSPOSED),
        Weight(f"{ours}/bias", f"{hugging_face}.bias", google and f"{google}/bias"),
    ]


def output(ours: str, hugging_face: str, google: str) -> list[Weight]:
    """Returns the weights of a task's last layer. Google stores its kernel as [classes, inputs]."""
    return [
        Weight(f"{ours}/kernel", f"{hugging_face}.weight", f"{google}output_weights", TRANSPOSED, TRANSPOSED),
        Weight(f"{ours}/bias", f"{hugging_face}.bias", f"{google}output_bias"),
    ]


def layer_norm(ours: str, hugging_face: str, google: str = "") -> list[Weight]:
    return [
        Weight(f"{ours}/gamma", f"{hugging_face}.weight", google and f"{google}/gamma"),
        Weight(f"{ours}/beta", f"{hugging_face}.bias", google and f"{google}/beta"),
    ]


def embeddings(prefix: str, google: str = "") -> list[Weight]:
    def table(ours: str, theirs: str) -> Weight:
        return Weight(ours, f"{prefix}.embeddings.{theirs}.weight", google and f"{google}/embeddings/{theirs}")

    return [
        table(form.TOKEN_EMBEDDINGS, "word_embeddings"),
        table(form.POSITION_EMBEDDINGS, "position_embeddings"),
        table("encoder/embeddings/segment_embeddings", "token_type_embeddings"),
        *layer_norm(
            "encoder/embeddings/layer_norm",
            f"{prefix}.embeddings.LayerNorm",
            google and f"{google}/embeddings/LayerNorm",
        ),
    ]


def block(ours: str, prefix: str, parts: str, google_prefix: str = "", google_parts: str = "") -> list[Weight]:
    """Returns the weights of a block.

    Args:
        ours, prefix, google_prefix: what our names, those in transformers and Google's begin with.
        parts, google_parts: the names of query, key, value, output and LayerNorm of the attention, both dense layers
            and the last LayerNorm, separated by blanks.
    """
    rows = []
    googles = google_parts.split() or [""] * len(_BLOCK)
    for part, theirs, google in zip(_BLOCK, parts.split(), googles, strict=True):
        make = layer_norm if part.endswith("layer_norm") else dense
        rows += make(f"{ours}/{part}", f"{prefix}.{theirs}", google and f"{google_prefix}/{google}")
    return rows
