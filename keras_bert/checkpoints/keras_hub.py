"""Preset folders of KerasHub: `config.json`, `model.weights.h5`, and for tasks `task.json` and `task.weights.h5`.

Reference: keras-team/keras-hub, `src/models/{bert,roberta,albert,distil_bert,electra}/`, `src/utils/preset_utils.py`.
"""

import dataclasses
import os
import reprlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint, StoredTensor
from keras_bert.checkpoints.keras_hub_task import ANY_OBJECT, OBJECT_KEYS, TASK_FILE, read_json, read_task
from keras_bert.checkpoints.keras_weights_file import read_keras_weights
from keras_bert.checkpoints.name_table import HEADS_BIAS, HEADS_IN, HEADS_OUT, SAME, NameTable, to_ours
from keras_bert.config import SENTENCE_POOLING, BertConfig
from keras_bert.families import BYTE_PAIR, FAMILIES, SENTENCE_PIECE, WORD_PIECE
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member
from keras_bert.tokenization.byte_pair import BytePairTokenizer
from keras_bert.tokenization.sentence_piece import ALBERT_SPECIAL_TOKENS, SentencePieceTokenizer
from keras_bert.tokenization.tokenizer import BERT_SPECIAL_TOKENS, ROBERTA_SPECIAL_TOKENS, TokenTable
from keras_bert.tokenization.vocabulary import Vocabulary

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.weights.h5"
TASK_WEIGHTS_FILE = "task.weights.h5"
TOKENIZER_FILE = "tokenizer.json"
ASSETS = "assets/tokenizer"
VOCABULARY_FILES = (f"{ASSETS}/vocabulary.txt", "vocabulary.txt")
BYTE_PAIR_FILES = ("vocabulary.json", "merges.txt")
SENTENCE_PIECE_FILE = "vocabulary.spm"
# Kind of tokenizer -> our class, and the special tokens that KerasHub's class has.
TOKENIZERS = {
    WORD_PIECE: (Vocabulary, BERT_SPECIAL_TOKENS),
    BYTE_PAIR: (BytePairTokenizer, ROBERTA_SPECIAL_TOKENS),
    SENTENCE_PIECE: (SentencePieceTokenizer, ALBERT_SPECIAL_TOKENS),
}

_SIZES = KnownKeys(
    used=(
        *("vocabulary_size", "vocab_size", "num_layers", "num_heads", "hidden_dim", "embedding_dim"),
        *("intermediate_dim", "dropout", "max_sequence_length", "num_segments", "num_groups", "num_inner_repetitions"),
    ),
    harmless=ANY_OBJECT,
)
_WORD_PIECE = KnownKeys(
    used=("lowercase", "strip_accents", "split_on_cjk"),
    harmless=(*ANY_OBJECT, "vocabulary", "special_tokens"),
    fixed={
        "split": (True,),
        "special_tokens_in_strings": (False,),
        "suffix_indicator": ("##",),
        "oov_token": ("[UNK]",),
    },
)
# Of byte-level BPE and SentencePiece. The tokens that are not split are the special ones.
_PIECES = KnownKeys(
    used=("add_prefix_space", "lowercase"),
    harmless=(*ANY_OBJECT, "vocabulary", "merges", "proto", "unsplittable_tokens"),
    fixed={"add_bos": (False,), "add_eos": (False,)},
)

# Keras stores no layer names: a layer is named by its class and number, and its variables are numbered.
SEGMENTS = "encoder/embeddings/segment_embeddings"
_LAYER, _THEIR_LAYER = "encoder/layer_*", "layers/transformer_encoder_*"


def _dense(ours: str, theirs: str, kernel: str = SAME, bias: str = SAME) -> list[tuple]:
    return [(f"{ours}/kernel", f"{theirs}/vars/0", kernel), (f"{ours}/bias", f"{theirs}/vars/1", bias)]


def _layer_norm(ours: str, theirs: str) -> list[tuple]:
    return [(f"{ours}/gamma", f"{theirs}/vars/0", SAME), (f"{ours}/beta", f"{theirs}/vars/1", SAME)]


_EMBEDDINGS = [
    (form.TOKEN_EMBEDDINGS, "layers/reversible_embedding/vars/0", SAME),
    (form.POSITION_EMBEDDINGS, "layers/position_embedding/vars/0", SAME),
    (SEGMENTS, "layers/embedding/vars/0", SAME),
]
_TWO_TABLES = [
    (form.TOKEN_EMBEDDINGS, "layers/token_and_position_embedding/token_embedding/vars/0", SAME),
    (form.POSITION_EMBEDDINGS, "layers/token_and_position_embedding/position_embedding/vars/0", SAME),
]
_BLOCKS = [
    *_layer_norm("encoder/embeddings/layer_norm", "layers/layer_normalization"),
    *_dense(f"{_LAYER}/attention/query", f"{_THEIR_LAYER}/_self_attention_layer/query_dense", HEADS_OUT, HEADS_BIAS),
    *_dense(f"{_LAYER}/attention/key", f"{_THEIR_LAYER}/_self_attention_layer/key_dense", HEADS_OUT, HEADS_BIAS),
    *_dense(f"{_LAYER}/attention/value", f"{_THEIR_LAYER}/_self_attention_layer/value_dense", HEADS_OUT, HEADS_BIAS),
    *_dense(f"{_LAYER}/attention/output_dense", f"{_THEIR_LAYER}/_self_attention_layer/output_dense", HEADS_IN),
    *_layer_norm(f"{_LAYER}/attention_layer_norm", f"{_THEIR_LAYER}/_self_attention_layer_norm"),
    *_dense(f"{_LAYER}/intermediate_dense", f"{_THEIR_LAYER}/_feedforward_intermediate_dense"),
    *_dense(f"{_LAYER}/output_dense", f"{_THEIR_LAYER}/_feedforward_output_dense"),
    *_layer_norm(f"{_LAYER}/output_layer_norm", f"{_THEIR_LAYER}/_feedforward_layer_norm"),
]
_MASKED_LM = NameTable(
    [
        *_dense("masked_lm_head/dense", "layers/masked_lm_head/_intermediate_dense"),
        *_layer_norm("masked_lm_head/layer_norm", "layers/masked_lm_head/_intermediate_layer_norm"),
        (form.OUTPUT_BIAS, "layers/masked_lm_head/vars/0", SAME),
    ]
)
_POOLER, _PROJECTION = f"{form.POOLER}/dense", "encoder/embeddings/projection"


@dataclasses.dataclass(frozen=True)
class HubFamily:
    """The settings and weight names of a family in KerasHub.

    Attributes:
        model_type: the family, a key of `families.FAMILIES`.
        settings: values of `BertConfig` that KerasHub hard-codes.
        embeddings: name table rows of the embedding tables.
        has_pooler: whether the backbone has the pooler; otherwise the classifier has it.
        remark, masked_lm_remark: sentences for the user about the backbone and the masked-LM head.
        has_tasks: whether KerasHub has a text classifier and a masked LM of the family.
    """

    model_type: str
    settings: Mapping[str, Any]
    embeddings: list[tuple]
    has_pooler: bool = True
    remark: str = ""
    masked_lm_remark: str = ""
    has_tasks: bool = True

    @property
    def has_segments(self) -> bool:
        return self.embeddings is _EMBEDDINGS

    def backbone(self, config: BertConfig) -> NameTable:
        dense = [
            name for name, there in ((_PROJECTION, config.embedding_projection), (_POOLER, self.has_pooler)) if there
        ]
        return NameTable([*self.embeddings, *_BLOCKS, *_dense_layers(dense)])

    def task(self, task: str) -> NameTable:
        if task.endswith("MaskedLM"):
            return _MASKED_LM
        if task.endswith("Classifier"):
            return NameTable(_dense_layers([form.CLASSIFIER] if self.has_pooler else [_POOLER, form.CLASSIFIER]))
        return NameTable([])


def _dense_layers(names: list[str]) -> list[tuple]:
    """Returns the name table rows of a model's dense layers. Keras numbers them, except for the first."""
    return [
        row for number, name in enumerate(names) for row in _dense(name, f"layers/dense_{number}".removesuffix("_0"))
    ]


_OTHER_EPSILON = "KerasHub computes the LayerNorm of this head with epsilon 1e-5; keras_bert uses the encoder's 1e-12"
# Class of the backbone -> the family.
HUB_FAMILIES = {
    # KerasHub always uses the tanh approximation of GELU.
    "BertBackbone": HubFamily(
        "bert",
        {"hidden_act": "gelu"},
        _EMBEDDINGS,
        masked_lm_remark="KerasHub computes this head with the exact GELU; keras_bert uses the encoder's tanh GELU",
    ),
    "RobertaBackbone": HubFamily("roberta", {"hidden_act": "gelu_erf"}, _TWO_TABLES, has_pooler=False),
    "AlbertBackbone": HubFamily("albert", {"hidden_act": "gelu"}, _EMBEDDINGS, masked_lm_remark=_OTHER_EPSILON),
    "DistilBertBackbone": HubFamily("distilbert", {"hidden_act": "gelu_erf"}, _TWO_TABLES, False, "", _OTHER_EPSILON),
    "ElectraBackbone": HubFamily(
        "electra",
        {"hidden_act": "gelu", "pooler_act": "tanh"},
        _EMBEDDINGS,
        remark="KerasHub and this model use the tanh GELU, but Google trained ELECTRA with the exact GELU",
        has_tasks=False,
    ),
}


def is_keras_hub(path: str) -> bool:
    """Returns whether a folder is a preset: it has `config.json` (as Hugging Face) and Keras' weights file."""
    return os.path.isfile(os.path.join(path, CONFIG_FILE)) and os.path.isfile(os.path.join(path, WEIGHTS_FILE))


def read_keras_hub(path: str) -> BertCheckpoint:
    """Reads a preset that `save_to_preset` of a backbone or a task wrote.

    Raises:
        InputError: a file is missing or damaged, or the model is not of BERT's family.
    """
    file = os.path.join(path, CONFIG_FILE)
    settings = read_json(file)
    OBJECT_KEYS.check(settings, file)
    class_name = member(settings, "class_name", str, file, "")
    if class_name not in HUB_FAMILIES:
        raise InputError(
            f"{file}: the preset is a {reprlib.repr(class_name)}, which is not of BERT's family. Use one of: "
            f"{', '.join(HUB_FAMILIES)}"
        )
    family = HUB_FAMILIES[class_name]
    lower_case, vocabulary = _tokenizer(path)
    sizes = member(settings, "config", dict, file, {})
    _SIZES.check(sizes, f"{file}: config")
    try:
        config = preset_config(family, sizes, lower_case)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    tensors, ignored = _named(read_keras_weights(os.path.join(path, WEIGHTS_FILE)), family.backbone(config))
    pooler = tensors.get(f"{_POOLER}/kernel")
    if pooler is not None and not pooler.read().any():  # `write_keras_hub` had none to write
        tensors = {name: tensor for name, tensor in tensors.items() if form.part_of(name) != form.POOLER}
    remarks, labels, task = [family.remark] if family.remark else [], None, read_task(path, config)
    if task.pooling != "mean":
        config = config.replace(extra={SENTENCE_POOLING: task.pooling})
    if task.name and os.path.isfile(os.path.join(path, TASK_WEIGHTS_FILE)):
        stored = read_keras_weights(os.path.join(path, TASK_WEIGHTS_FILE))
        stored = {name: tensor for name, tensor in stored.items() if not name.startswith("optimizer/")}
        heads, more = _named(stored, family.task(task.name))
        tensors, ignored = {**tensors, **heads}, ignored + more
        if f"{form.CLASSIFIER}/bias" in heads:
            count = form.num_outputs(os.path.join(path, TASK_WEIGHTS_FILE), heads, form.CLASSIFIER)
            labels = tuple(f"LABEL_{number}" for number in range(count))
        if task.name.endswith("MaskedLM") and family.masked_lm_remark:
            remarks.append(family.masked_lm_remark)
    if family.model_type == "roberta":
        tensors, config = as_published(tensors, config)
    return BertCheckpoint(
        path=path,
        kind=f"KerasHub {task.name or class_name}",
        config=config,
        vocabulary=vocabulary,
        tensors=tensors,
        labels=labels,
        problem_type=task.problem_type(labels, os.path.join(path, TASK_FILE)),
        sentence=task.sentence,
        ignored=tuple(ignored),
        remarks=tuple(remarks),
        says_casing=lower_case is not None,
    )


def preset_config(family: HubFamily, values: Mapping, lower_case: bool | None) -> BertConfig:
    defaults = FAMILIES[family.model_type].defaults
    dropout = values.get("dropout", defaults.get("hidden_dropout_prob", 0.1))
    return BertConfig(
        model_type=family.model_type,
        vocab_size=values.get("vocabulary_size", values.get("vocab_size")),
        hidden_size=values.get("hidden_dim"),
        embedding_size=values.get("embedding_dim"),
        embedding_projection=defaults.get("embedding_projection"),
        num_hidden_layers=values.get("num_layers"),
        num_hidden_groups=values.get("num_groups", defaults.get("num_hidden_groups")),
        inner_group_num=values.get("num_inner_repetitions", 1),
        num_attention_heads=values.get("num_heads"),
        intermediate_size=values.get("intermediate_dim"),
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        max_position_embeddings=values.get("max_sequence_length"),
        type_vocab_size=values.get("num_segments", 2) if family.has_segments else 0,
        layer_norm_eps=defaults.get("layer_norm_eps", 1e-12),
        do_lower_case=bool(lower_case),
        **{"pooler_act": defaults.get("pooler_act", "tanh"), **family.settings},
    )


def as_published(tensors: Mapping[str, StoredTensor], config: BertConfig) -> tuple[dict, BertConfig]:
    """Adds the rows of RoBERTa that KerasHub leaves out: two before the first position, and one segment, all 0."""
    offset, width = FAMILIES["roberta"].defaults["position_offset"], config.hidden_size
    config = config.replace(
        max_position_embeddings=config.max_position_embeddings + offset, position_offset=offset, type_vocab_size=1
    )
    more = {}
    if form.POSITION_EMBEDDINGS in tensors:
        positions = tensors[form.POSITION_EMBEDDINGS]
        if len(positions.shape) == 2:
            shape = (positions.shape[0] + offset, positions.shape[1])
            more[form.POSITION_EMBEDDINGS] = positions.changed(
                shape, lambda rows: np.concatenate([np.zeros_like(rows[:1]).repeat(offset, axis=0), rows])
            )
    more[SEGMENTS] = StoredTensor((1, width), "float32", lambda: np.zeros((1, width), "float32"))
    return {**tensors, **more}, config


def _tokenizer(path: str) -> tuple[bool | None, TokenTable | None]:
    """Returns the casing of a WordPiece, if a file says it, and the vocabulary."""
    file, settings = os.path.join(path, TOKENIZER_FILE), {}
    if os.path.isfile(file):
        values = read_json(file)
        OBJECT_KEYS.check(values, file)
        settings = member(values, "config", dict, file, {})
    for name in VOCABULARY_FILES:
        if os.path.isfile(os.path.join(path, name)):
            return _word_piece(os.path.join(path, name), settings, file)
    _PIECES.check(settings, f"{file}: config")
    byte_pair = [os.path.join(path, ASSETS, name) for name in BYTE_PAIR_FILES]
    if os.path.isfile(byte_pair[0]):
        prefix = member(settings, "add_prefix_space", bool, file, False)
        return None, BytePairTokenizer.from_files(*byte_pair, add_prefix_space=prefix)
    pieces = os.path.join(path, ASSETS, SENTENCE_PIECE_FILE)
    if os.path.isfile(pieces):
        # KerasHub runs the model as it is. Ours would lower-case the text before.
        return None, SentencePieceTokenizer.from_file(pieces, do_lower_case=False)
    return member(settings, "lowercase", bool, file), None


def _word_piece(path: str, settings: Mapping, file: str) -> tuple[bool | None, Vocabulary]:
    """Returns the casing, None if no file says it, and the vocabulary with the settings of KerasHub's tokenizer.

    Raises:
        InputError: a file is damaged, or KerasHub cuts texts otherwise than our WordPiece.
    """
    _WORD_PIECE.check(settings, f"{file}: config")
    lower_case, vocabulary = member(settings, "lowercase", bool, file), Vocabulary.from_file(path)
    if not settings:
        return lower_case, vocabulary
    strips = member(settings, "strip_accents", bool, file, False)
    return lower_case, vocabulary.replace(
        strip_accents=None if strips == bool(lower_case) else strips,
        tokenize_chinese_chars=member(settings, "split_on_cjk", bool, file, True),
    )


def _named(stored: Mapping[str, StoredTensor], table: NameTable) -> tuple[dict[str, StoredTensor], list[str]]:
    tensors, ignored = {}, []
    for key, tensor in stored.items():
        # Keras does not number the first layer of a class.
        ours = table.ours(key.replace("layers/transformer_encoder/", "layers/transformer_encoder_0/"))
        if ours:
            tensors[ours[0]] = to_ours(tensor, ours[1])
        else:
            ignored.append(key)
    return tensors, ignored
