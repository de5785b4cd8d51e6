"""Preset folders of KerasHub: `config.json`, `model.weights.h5`, and for tasks `task.json` and `task.weights.h5`.

Reference: keras-team/keras-hub, `src/models/bert/`, `src/utils/preset_utils.py`.
"""

import os
import reprlib
from collections.abc import Mapping

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint, StoredTensor, check_stored_file
from keras_bert.checkpoints.keras_weights_file import read_keras_weights
from keras_bert.checkpoints.name_table import HEADS_BIAS, HEADS_IN, HEADS_OUT, SAME, NameTable, to_ours
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.json_files import member, read_json_object
from keras_bert.tokenization.vocabulary import Vocabulary

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.weights.h5"
TASK_FILE = "task.json"
TASK_WEIGHTS_FILE = "task.weights.h5"
TOKENIZER_FILE = "tokenizer.json"
VOCABULARY_FILES = ("assets/tokenizer/vocabulary.txt", "vocabulary.txt")

# Keras keeps no names: a layer is called by its class and number, and its variables are numbered.
_LAYER, _THEIR_LAYER = "encoder/layer_*", "layers/transformer_encoder_*"


def _dense(ours: str, theirs: str, kernel: str = SAME, bias: str = SAME) -> list[tuple]:
    return [(f"{ours}/kernel", f"{theirs}/vars/0", kernel), (f"{ours}/bias", f"{theirs}/vars/1", bias)]


def _layer_norm(ours: str, theirs: str) -> list[tuple]:
    return [(f"{ours}/gamma", f"{theirs}/vars/0", SAME), (f"{ours}/beta", f"{theirs}/vars/1", SAME)]


_BACKBONE = NameTable(
    [
        (form.TOKEN_EMBEDDINGS, "layers/reversible_embedding/vars/0", SAME),
        (form.POSITION_EMBEDDINGS, "layers/position_embedding/vars/0", SAME),
        ("encoder/embeddings/segment_embeddings", "layers/embedding/vars/0", SAME),
        *_layer_norm("encoder/embeddings/layer_norm", "layers/layer_normalization"),
        *_dense(
            f"{_LAYER}/attention/query", f"{_THEIR_LAYER}/_self_attention_layer/query_dense", HEADS_OUT, HEADS_BIAS
        ),
        *_dense(f"{_LAYER}/attention/key", f"{_THEIR_LAYER}/_self_attention_layer/key_dense", HEADS_OUT, HEADS_BIAS),
        *_dense(
            f"{_LAYER}/attention/value", f"{_THEIR_LAYER}/_self_attention_layer/value_dense", HEADS_OUT, HEADS_BIAS
        ),
        *_dense(f"{_LAYER}/attention/output_dense", f"{_THEIR_LAYER}/_self_attention_layer/output_dense", HEADS_IN),
        *_layer_norm(f"{_LAYER}/attention_layer_norm", f"{_THEIR_LAYER}/_self_attention_layer_norm"),
        *_dense(f"{_LAYER}/intermediate_dense", f"{_THEIR_LAYER}/_feedforward_intermediate_dense"),
        *_dense(f"{_LAYER}/output_dense", f"{_THEIR_LAYER}/_feedforward_output_dense"),
        *_layer_norm(f"{_LAYER}/output_layer_norm", f"{_THEIR_LAYER}/_feedforward_layer_norm"),
        *_dense("encoder/pooler/dense", "layers/dense"),
    ]
)
_TASKS = {
    "BertMaskedLM": NameTable(
        [
            *_dense("masked_lm_head/dense", "layers/masked_lm_head/_intermediate_dense"),
            *_layer_norm("masked_lm_head/layer_norm", "layers/masked_lm_head/_intermediate_layer_norm"),
            (form.OUTPUT_BIAS, "layers/masked_lm_head/vars/0", SAME),
        ]
    ),
    "BertTextClassifier": NameTable(_dense(form.CLASSIFIER, "layers/dense")),
    "BertClassifier": NameTable(_dense(form.CLASSIFIER, "layers/dense")),
}


def is_keras_hub(path: str) -> bool:
    """Returns whether a folder is a preset: it has a Hugging Face name for the config and Keras' for the weights."""
    return os.path.isfile(os.path.join(path, CONFIG_FILE)) and os.path.isfile(os.path.join(path, WEIGHTS_FILE))


def read_keras_hub(path: str) -> BertCheckpoint:
    """Reads a preset as `save_to_preset` of a backbone or a task writes it.

    Raises:
        InputError: a file is missing or damaged, or the model is no BERT.
    """
    file = os.path.join(path, CONFIG_FILE)
    settings = _read_json(file)
    if settings.get("class_name") != "BertBackbone":
        raise InputError(
            f"{file}: the preset is a {reprlib.repr(settings.get('class_name'))}, and only a 'BertBackbone' can be "
            "read."
        )
    tensors, ignored = _named(read_keras_weights(os.path.join(path, WEIGHTS_FILE)), _BACKBONE)
    remarks, labels, task = [], None, ""
    if os.path.isfile(os.path.join(path, TASK_FILE)) and os.path.isfile(os.path.join(path, TASK_WEIGHTS_FILE)):
        task_file = os.path.join(path, TASK_FILE)
        task = member(_read_json(task_file), "class_name", str, task_file, "")
        stored = read_keras_weights(os.path.join(path, TASK_WEIGHTS_FILE))
        stored = {name: tensor for name, tensor in stored.items() if not name.startswith("optimizer/")}
        heads, more = _named(stored, _TASKS.get(task, NameTable([])))
        tensors, ignored = {**tensors, **heads}, ignored + more
        if f"{form.CLASSIFIER}/bias" in heads:
            count = form.num_outputs(os.path.join(path, TASK_WEIGHTS_FILE), heads, form.CLASSIFIER)
            labels = tuple(f"LABEL_{number}" for number in range(count))
        if task == "BertMaskedLM":
            remarks.append(
                "KerasHub computes this masked-LM head with the exact GELU, ours with the encoder's tanh one"
            )
    lower_case, vocabulary = _tokenizer(path)
    return BertCheckpoint(
        path=path,
        kind=f"KerasHub {task or 'BertBackbone'}",
        config=_config(member(settings, "config", dict, file, {}), lower_case),
        vocabulary=vocabulary,
        tensors=tensors,
        labels=labels,
        ignored=tuple(ignored),
        remarks=tuple(remarks),
        says_casing=lower_case is not None,
    )


def _config(values: Mapping, lower_case: bool | None) -> BertConfig:
    dropout = values.get("dropout", 0.1)
    return BertConfig(
        vocab_size=values.get("vocabulary_size"),
        hidden_size=values.get("hidden_dim"),
        num_hidden_layers=values.get("num_layers"),
        num_attention_heads=values.get("num_heads"),
        intermediate_size=values.get("intermediate_dim"),
        hidden_act="gelu",  # KerasHub has the tanh approximation only, whatever the weights were trained with
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        max_position_embeddings=values.get("max_sequence_length"),
        type_vocab_size=values.get("num_segments", 2),
        do_lower_case=bool(lower_case),
    )


def _tokenizer(path: str) -> tuple[bool | None, Vocabulary | None]:
    lower_case, vocabulary = None, None
    if os.path.isfile(os.path.join(path, TOKENIZER_FILE)):
        file = os.path.join(path, TOKENIZER_FILE)
        lower_case = member(member(_read_json(file), "config", dict, file, {}), "lowercase", bool, file)
    for name in VOCABULARY_FILES:
        if os.path.isfile(os.path.join(path, name)):
            vocabulary = Vocabulary.from_file(os.path.join(path, name))
            break
    return lower_case, vocabulary


def _named(stored: Mapping[str, StoredTensor], table: NameTable) -> tuple[dict[str, StoredTensor], list[str]]:
    tensors, ignored = {}, []
    for key, tensor in stored.items():
        # Keras gives the first layer of a class no number.
        ours = table.ours(key.replace("layers/transformer_encoder/", "layers/transformer_encoder_0/"))
        if ours:
            tensors[ours[0]] = to_ours(tensor, ours[1])
        else:
            ignored.append(key)
    return tensors, ignored


def _read_json(path: str) -> dict:
    check_stored_file(path)
    return read_json_object(path)
