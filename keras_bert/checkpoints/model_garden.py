"""Checkpoints of TF Model Garden (TensorFlow 2).

Their keys are paths of Python attributes, which differ between encoders and models. The object graph also has the
name of each variable, which is similar in all models. So this reader uses the names.

Reference: tensorflow/models `official/nlp/modeling/` and `official/nlp/tools/tf2_bert_encoder_checkpoint_converter.py`.
"""

import os
import re
from collections.abc import Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints import google
from keras_bert.checkpoints.checkpoint import BertCheckpoint, StoredTensor
from keras_bert.checkpoints.name_table import HEADS_BIAS, HEADS_IN, HEADS_OUT, SAME, NameTable, to_ours
from keras_bert.checkpoints.tensorflow_checkpoint import OBJECT_GRAPH
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.registry import heads


def _dense(ours: str, theirs: str, kernel: str = SAME, bias: str = SAME) -> list[tuple]:
    return [(f"{ours}/kernel", f"{theirs}/kernel", kernel), (f"{ours}/bias", f"{theirs}/bias", bias)]


def _layer_norm(ours: str, theirs: str) -> list[tuple]:
    return [(f"{ours}/{part}", f"{theirs}/{part}", SAME) for part in ("gamma", "beta")]


_LAYER, _THEIR_LAYER = "encoder/layer_*", "transformer/layer_*"
_TABLE = NameTable(
    [
        (form.TOKEN_EMBEDDINGS, "word_embeddings/embeddings", SAME),
        (form.POSITION_EMBEDDINGS, "position_embedding/embeddings", SAME),
        ("encoder/embeddings/segment_embeddings", "type_embeddings/embeddings", SAME),
        *_layer_norm("encoder/embeddings/layer_norm", "embeddings/layer_norm"),
        *_dense(f"{_LAYER}/attention/query", f"{_THEIR_LAYER}/self_attention/query", HEADS_OUT, HEADS_BIAS),
        *_dense(f"{_LAYER}/attention/key", f"{_THEIR_LAYER}/self_attention/key", HEADS_OUT, HEADS_BIAS),
        *_dense(f"{_LAYER}/attention/value", f"{_THEIR_LAYER}/self_attention/value", HEADS_OUT, HEADS_BIAS),
        *_dense(f"{_LAYER}/attention/output_dense", f"{_THEIR_LAYER}/self_attention/attention_output", HEADS_IN),
        *_layer_norm(f"{_LAYER}/attention_layer_norm", f"{_THEIR_LAYER}/self_attention_layer_norm"),
        *_dense(f"{_LAYER}/intermediate_dense", f"{_THEIR_LAYER}/intermediate"),
        *_dense(f"{_LAYER}/output_dense", f"{_THEIR_LAYER}/output"),
        *_layer_norm(f"{_LAYER}/output_layer_norm", f"{_THEIR_LAYER}/output_layer_norm"),
        *_dense("encoder/pooler/dense", "pooler_transform"),
        *_dense("masked_lm_head/dense", "cls/predictions/transform/dense"),
        *_layer_norm("masked_lm_head/layer_norm", "cls/predictions/transform/LayerNorm"),
        (form.OUTPUT_BIAS, "cls/predictions/output_bias/bias", SAME),
        *_dense(form.NEXT_SENTENCE, "next_sentence/logits"),
        *_dense(form.CLASSIFIER, "sentence_prediction/logits"),
    ]
)
# The next-sentence and sentence-prediction heads of BertPretrainerV2 and its successors have their own pooler.
_OWN_POOLER = re.compile(r"(?:.*/)?(?:next_sentence|sentence_prediction)/pooler_dense/(kernel|bias)")
_LAST_LAYER = re.compile(r"(?:.*/)?predictions/transform/logits/(kernel|bias)")
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


def model_garden_checkpoint(prefix: str, variables: Mapping[str, StoredTensor]) -> BertCheckpoint:
    """Returns the checkpoint of TensorFlow 2 variables, with the config in their folder.

    Raises `InputError` if the variables are not those of BERT, or a shape is damaged.
    """
    tensors, ignored, own_pooler = {}, [], {}
    for key, name in _variable_names(prefix, variables).items():
        pooler, last = _OWN_POOLER.fullmatch(name), _LAST_LAYER.fullmatch(name)
        ours = _our_name(name)
        if pooler:
            own_pooler[f"{form.POOLER}/dense/{pooler.group(1)}"] = variables[key]
        elif ours:
            tensors[ours[0]] = to_ours(variables[key], ours[1])
        elif last:
            # BertSpanLabeler nests a network in a network, so the path of its last layer is one object longer.
            is_nested = "layer_with_weights-1/layer_with_weights-0/" in key
            tensors[f"{'span_classifier' if is_nested else 'token_classifier'}/{last.group(1)}"] = variables[key]
        elif not key.startswith(("save_counter", "global_step")):
            ignored.append(name or key.removesuffix(_VALUE))
    if form.TOKEN_EMBEDDINGS not in tensors:
        raise form.no_bert(prefix, "word_embeddings/embeddings", variables, "variables")
    remarks = []
    if own_pooler:
        tensors |= own_pooler
        remarks.append("the pooler is that of the sentence head, which was trained with it")
    folder = os.path.dirname(prefix)
    config, casing = _config(folder, tensors, variables)
    return BertCheckpoint(
        path=prefix,
        kind="TF Model Garden",
        config=config,
        tokenizer=google.read_tokenizer(folder, casing),
        tensors=tensors,
        labels=_labels(prefix, tensors),
        ignored=tuple(_shortened(ignored)),
        remarks=tuple(remarks),
    )


def _variable_names(prefix: str, variables: Mapping[str, StoredTensor]) -> dict[str, str]:
    """Returns key in the checkpoint -> name of the variable, for weights without the optimizer's slots."""
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    try:
        graph.ParseFromString(variables[OBJECT_GRAPH].read())
    except DecodeError:
        raise InputError(f"{prefix}: the object graph is damaged. Copy it again.") from None
    slots = {slot.slot_variable_node_id for node in graph.nodes for slot in node.slot_variables}
    names = {}
    for number, node in enumerate(graph.nodes):
        for attribute in node.attributes:
            key = attribute.checkpoint_key
            if number not in slots and key in variables and not key.startswith(("optimizer/", "_CHECKPOINTABLE")):
                names[key] = attribute.full_name
    return names


def _our_name(name: str) -> tuple[str, str] | None:
    """Looks up a variable name without the prefixes of enclosing models: `bert_encoder/word_embeddings/embeddings`."""
    parts = name.split("/")
    found = (_TABLE.ours("/".join(parts[start:])) for start in range(len(parts)))
    return next(filter(None, found), None)


def _config(folder: str, tensors: Mapping, variables: Mapping) -> tuple[BertConfig, bool | None]:
    """Returns the config of the folder, or one derived from the shapes, and the casing if it is stated."""
    if os.path.isfile(os.path.join(folder, google.CONFIG_FILE)):
        return google.read_config(folder)[:2]
    try:
        return _config_of_shapes(tensors, variables), None
    except (StopIteration, KeyError, IndexError, ValueError) as error:
        raise InputError(
            f"{folder} is not a complete BERT, or its shapes are damaged ({error}). Copy it again."
        ) from None


def _config_of_shapes(tensors: Mapping, variables: Mapping) -> BertConfig:
    # Attention heads have their own axis in these checkpoints, so shapes show everything except rates and activation.
    heads = next(variables[key].shape[1] for key in variables if re.search(r"_query_dense/kernel", key))
    layers = {name.split("/")[1] for name in tensors if name.startswith("encoder/layer_")}
    vocab_size, width = tensors[form.TOKEN_EMBEDDINGS].shape
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=width,
        num_hidden_layers=len(layers),
        num_attention_heads=heads,
        intermediate_size=tensors["encoder/layer_0/intermediate_dense/bias"].shape[0],
        max_position_embeddings=tensors[form.POSITION_EMBEDDINGS].shape[0],
        type_vocab_size=tensors["encoder/embeddings/segment_embeddings"].shape[0],
    )


def _labels(prefix: str, tensors: Mapping[str, StoredTensor]) -> tuple[str, ...] | None:
    counts = (form.num_outputs(prefix, tensors, name) for name, head in heads().items() if head.has_labels)
    count = next((count for count in counts if count is not None), None)
    return None if count is None else tuple(f"LABEL_{number}" for number in range(count))


def _shortened(names: list[str]) -> list[str]:
    return names if len(names) <= 6 else [*names[:5], f"{len(names) - 5} more variables"]
