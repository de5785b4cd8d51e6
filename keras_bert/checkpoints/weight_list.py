"""`Weight`: the shape of a weight, and its name and layout in each format. Entries of families list weights with it.

A list of weights is made from a config alone, without Keras: a file can be checked before a model is built.
"""

import itertools
from collections.abc import Collection, Iterable
from typing import NamedTuple

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.name_table import HEADS_BIAS, HEADS_IN, HEADS_OUT, SAME, TRANSPOSED, Layout
from keras_bert.config import BertConfig
from keras_bert.registry import heads, imported

Shape = tuple[int, ...]
LAYER = "encoder/layer_*"
POOLER = f"{form.POOLER}/dense"
PROJECTION = "encoder/embeddings/projection"
SEGMENTS = "encoder/embeddings/segment_embeddings"
# The parts of a block that most families have -> their names in KerasHub.
_BLOCK = {
    "attention/query": "_self_attention_layer/query_dense",
    "attention/key": "_self_attention_layer/key_dense",
    "attention/value": "_self_attention_layer/value_dense",
    "attention/output_dense": "_self_attention_layer/output_dense",
    "attention_layer_norm": "_self_attention_layer_norm",
    "intermediate_dense": "_feedforward_intermediate_dense",
    "output_dense": "_feedforward_output_dense",
    "output_layer_norm": "_feedforward_layer_norm",
}
_HUB_LAYOUTS = dict.fromkeys(("attention/query", "attention/key", "attention/value"), (HEADS_OUT, HEADS_BIAS))
_HUB_LAYOUTS["attention/output_dense"] = (HEADS_IN, SAME)
# The names of a block's parts in transformers and in Google's files, in the same order.
BERT_PARTS = (
    "attention.self.query attention.self.key attention.self.value attention.output.dense attention.output.LayerNorm "
    "intermediate.dense output.dense output.LayerNorm"
)
GOOGLE_PARTS = BERT_PARTS.replace(".", "/")
# The names of the masked-LM head there: its dense layer, LayerNorm and bias, and in transformers also the decoder.
CLS_PREDICTIONS = (
    "cls.predictions.transform.dense",
    "cls.predictions.transform.LayerNorm",
    "cls.predictions.bias",
    "cls.predictions.decoder",
)
GOOGLE_PREDICTIONS = (
    "cls/predictions/transform/dense",
    "cls/predictions/transform/LayerNorm",
    "cls/predictions/output_bias",
)


class Weight(NamedTuple):
    """A weight and its names. `*` in names stands for the number of a layer; "" means that there is no name.

    Attributes:
        ours: our name.
        shape: the shape of our tensor.
        hugging_face, google, keras_hub: the names in transformers, in TensorFlow 1 and in the backbone of KerasHub.
        hugging_face_layout, google_layout, keras_hub_layout: the layouts there, see `name_table`.
        layers: the layers that have the weight, if its names have a `*`.
        is_needed: whether a model has the weight. Otherwise only files have it.
    """

    ours: str
    shape: Shape
    hugging_face: str = ""
    google: str = ""
    keras_hub: str = ""
    hugging_face_layout: Layout = SAME
    google_layout: Layout = SAME
    keras_hub_layout: Layout = SAME
    layers: Collection[int] = ()
    is_needed: bool = True


def weights_of(config: BertConfig) -> list[Weight]:
    """Returns the weights of the encoder, including the pooler, and of the heads that the family names."""
    return imported(config.family.weights)(config)


def encoder_shapes(config: BertConfig) -> dict[str, Shape]:
    """Returns name -> shape of all weights of the encoder, including the pooler."""
    return _shapes(row for row in weights_of(config) if form.part_of(row.ours) in (form.ENCODER, form.POOLER))


def head_shapes(config: BertConfig, head: str, num_classes: int) -> dict[str, Shape]:
    """Returns name -> shape of the weights of a head, as far as its entry says them; see `registry.Head`."""
    entry = heads().get(head)
    if entry is None:
        return {}
    if entry.weights:
        return _shapes(entry.weights(config))
    num_outputs = num_classes if entry.has_labels else entry.num_outputs
    return {} if num_outputs is None else _shapes(dense(head, config.hidden_size, num_outputs))


def listed_by_family(config: BertConfig, head: str) -> list[Weight]:
    """Returns the weights of a head that the family lists."""
    return [row for row in weights_of(config) if form.part_of(row.ours) == head]


def _shapes(rows: Iterable[Weight]) -> dict[str, Shape]:
    """Returns name -> shape of all needed weights, layer by layer."""
    shapes = {}
    needed = (row for row in rows if row.is_needed)
    for is_in_layers, group in itertools.groupby(needed, key=lambda row: "*" in row.ours):
        found = list(group)
        if not is_in_layers:
            shapes |= {row.ours: row.shape for row in found}
        for number in sorted({number for row in found for number in row.layers}):
            here = (row for row in found if number in row.layers)
            shapes |= {row.ours.replace("*", str(number)): row.shape for row in here}
    return shapes


def dense(
    ours: str, inputs: int, outputs: int, hugging_face: str = "", google: str = "", has_bias: bool = True
) -> list[Weight]:
    """Returns the kernel and the bias of a dense layer with these names in transformers and in TensorFlow 1."""
    theirs = hugging_face and f"{hugging_face}.weight", google and f"{google}/kernel"
    rows = [Weight(f"{ours}/kernel", (inputs, outputs), *theirs, hugging_face_layout=TRANSPOSED)]
    theirs = hugging_face and f"{hugging_face}.bias", google and f"{google}/bias"
    return [*rows, Weight(f"{ours}/bias", (outputs,), *theirs, is_needed=has_bias)]


def layer_norm(ours: str, width: int, hugging_face: str = "", google: str = "", has_bias: bool = True) -> list[Weight]:
    """Returns the weights of a LayerNorm."""
    theirs = hugging_face and f"{hugging_face}.weight", google and f"{google}/gamma"
    rows = [Weight(f"{ours}/gamma", (width,), *theirs)]
    theirs = hugging_face and f"{hugging_face}.bias", google and f"{google}/beta"
    return [*rows, Weight(f"{ours}/beta", (width,), *theirs, is_needed=has_bias)]


def embeddings(
    config: BertConfig, hugging_face: str, google: str = "", one_hub_layer: bool = False, width: int | None = None
) -> list[Weight]:
    """Returns the tables of tokens, positions and segments, and their LayerNorm.

    Args:
        hugging_face, google: what the names begin with there.
        one_hub_layer: whether KerasHub has the tables of tokens and positions in one layer, and none of segments.
        width: width of positions and segments; None: that of the tokens.
    """
    size, width = config.embedding_size, width or config.embedding_size

    def table(ours: str, rows: int, columns: int, theirs: str, hub: str) -> Weight:
        names = f"{hugging_face}.embeddings.{theirs}.weight", google and f"{google}/embeddings/{theirs}"
        return Weight(ours, (rows, columns), *names, hub and f"layers/{hub}/vars/0", is_needed=rows > 0)

    hubs = ("reversible_embedding", "position_embedding", "embedding")
    if one_hub_layer:
        layer = "token_and_position_embedding"
        hubs = (f"{layer}/token_embedding", f"{layer}/position_embedding", "")
    norm = f"{hugging_face}.embeddings.LayerNorm", google and f"{google}/embeddings/LayerNorm"
    return [
        table(form.TOKEN_EMBEDDINGS, config.vocab_size, size, "word_embeddings", hubs[0]),
        table(form.POSITION_EMBEDDINGS, config.max_position_embeddings, width, "position_embeddings", hubs[1]),
        table(SEGMENTS, config.type_vocab_size, width, "token_type_embeddings", hubs[2]),
        *in_hub(layer_norm("encoder/embeddings/layer_norm", width, *norm), "layers/layer_normalization"),
    ]


def projection(config: BertConfig, hugging_face: str = "", google: str = "") -> list[Weight]:
    """Returns the dense layer after the embeddings, which a model may lack."""
    rows = dense(PROJECTION, config.embedding_size, config.hidden_size, hugging_face, google)
    return in_hub(rows, "layers/dense") if config.embedding_projection else only_in_files(rows)


def pooler(config: BertConfig, hugging_face: str = "", google: str = "", in_backbone: bool = True) -> list[Weight]:
    """Returns the pooler. KerasHub may have it in the backbone, where it numbers the dense layers after the first."""
    rows = dense(POOLER, config.hidden_size, config.hidden_size, hugging_face, google)
    return in_hub(rows, "layers/dense_1" if config.embedding_projection else "layers/dense") if in_backbone else rows


def blocks(config: BertConfig, hugging_face: str, parts: str = BERT_PARTS, google: str = "") -> list[Weight]:
    """Returns the weights of all layers of a family whose names differ by the number only; see `block`."""
    google_parts = GOOGLE_PARTS if google else ""
    return in_layers(block(config, LAYER, hugging_face, parts, google, google_parts), config.num_blocks)


def block(
    config: BertConfig, ours: str, hugging_face: str, parts: str, google: str = "", google_parts: str = ""
) -> list[Weight]:
    """Returns the weights of a block.

    Args:
        ours, hugging_face, google: what our names, those in transformers and Google's begin with.
        parts, google_parts: the names of query, key, value, output and LayerNorm of the attention, both dense layers
            and the last LayerNorm, separated by blanks.
    """
    width, inner, rows = config.hidden_size, config.intermediate_size, []
    sizes = {"intermediate_dense": (width, inner), "output_dense": (inner, width)}
    googles = google_parts.split() or [""] * len(_BLOCK)
    for (part, hub), their_part, google_part in zip(_BLOCK.items(), parts.split(), googles, strict=True):
        names = f"{hugging_face}.{their_part}", google_part and f"{google}/{google_part}"
        if part.endswith("layer_norm"):
            found = layer_norm(f"{ours}/{part}", width, *names)
        else:
            found = dense(f"{ours}/{part}", *sizes.get(part, (width, width)), *names)
        prefix = ours.replace("encoder/layer_", "layers/transformer_encoder_")
        rows += in_hub(found, f"{prefix}/{hub}", _HUB_LAYOUTS.get(part, (SAME, SAME)))
    return rows


def masked_lm(
    config: BertConfig, hugging_face: tuple[str, ...] = CLS_PREDICTIONS, google: tuple[str, ...] = ("", "", "")
) -> list[Weight]:
    """Returns the weights of the masked-LM head; see `CLS_PREDICTIONS` for the names."""
    outputs = config.embedding_size + config.extra_output_size
    head, (transform, norm, bias, decoder) = form.MASKED_LM, hugging_face
    table = (config.vocab_size, config.embedding_size)
    first = [
        *dense(f"{head}/dense", config.hidden_size, outputs, transform, google[0], config.classifier_bias),
        *layer_norm(f"{head}/layer_norm", outputs, norm, google[1], config.norm_bias),
    ]
    return [
        *(first if config.masked_lm_transform else []),
        Weight(form.OUTPUT_BIAS, (config.vocab_size,), bias, google[2], is_needed=config.masked_lm_bias),
        Weight(form.OUTPUT_EMBEDDINGS, table, f"{decoder}.weight", is_needed=not config.tie_word_embeddings),
    ]


def next_sentence(config: BertConfig, hugging_face: str) -> list[Weight]:
    """Returns the weights of the next-sentence head. Google stores its kernel as [classes, inputs]."""
    kernel, bias = dense(form.NEXT_SENTENCE, config.hidden_size, 2, hugging_face)
    kernel = kernel._replace(google="cls/seq_relationship/output_weights", google_layout=TRANSPOSED)
    return [kernel, bias._replace(google="cls/seq_relationship/output_bias")]


def only_in_files(rows: Iterable[Weight]) -> list[Weight]:
    """Returns weights that files may have and the model does not have."""
    return [row._replace(is_needed=False) for row in rows]


def in_layers(rows: Iterable[Weight], layers: int | Collection[int]) -> list[Weight]:
    """Returns the weights for the layers with these numbers, or for the first `layers` layers."""
    return [row._replace(layers=range(layers) if isinstance(layers, int) else layers) for row in rows]


def in_hub(rows: Iterable[Weight], name: str, layouts: tuple[str, str] = (SAME, SAME)) -> list[Weight]:
    """Returns the two weights of a layer with their names in KerasHub. Keras numbers the variables of a layer."""
    return [
        row._replace(keras_hub=f"{name}/vars/{number}", keras_hub_layout=layout)
        for number, (row, layout) in enumerate(zip(rows, layouts, strict=True))
    ]
