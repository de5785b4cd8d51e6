"""Preset folders of KerasHub: `config.json`, `model.weights.h5`, and for tasks `task.json` and `task.weights.h5`.

Reference: keras-team/keras-hub, `src/models/{bert,roberta,albert,distil_bert,electra}/`, `src/utils/preset_utils.py`.
"""

import os
import re
import reprlib
from collections.abc import Mapping

import numpy as np

from keras_bert import registry
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint, StoredTensor
from keras_bert.checkpoints.family_formats import KerasHub
from keras_bert.checkpoints.keras_hub_task import (
    ANY_OBJECT,
    MASKED_LM_TASK,
    OBJECT_KEYS,
    TASK_FILE,
    read_json,
    read_task,
)
from keras_bert.checkpoints.keras_weights_file import read_keras_weights
from keras_bert.checkpoints.name_table import SAME, NameTable
from keras_bert.checkpoints.weight_list import POOLER, SEGMENTS
from keras_bert.config import SENTENCE_POOLING, BertConfig
from keras_bert.program.errors import InputError, named
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import member
from keras_bert.registry import Family, families
from keras_bert.tokenization.byte_pair import BytePairTokenizer
from keras_bert.tokenization.sentence_piece import SentencePieceTokenizer
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

CONFIG_FILE = "config.json"
WEIGHTS_FILE = "model.weights.h5"
TASK_WEIGHTS_FILE = "task.weights.h5"
TOKENIZER_FILE = "tokenizer.json"
ASSETS = "assets/tokenizer"
VOCABULARY_FILES = (f"{ASSETS}/vocabulary.txt", "vocabulary.txt")
BYTE_PAIR_FILES = ("vocabulary.json", "merges.txt")
SENTENCE_PIECE_FILE = "vocabulary.spm"

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


def _task_names(task: str, family: KerasHub) -> NameTable:
    """Returns the names of the weights of a task, which Keras numbers in each layer."""
    if task.endswith(MASKED_LM_TASK):
        layer = "layers/masked_lm_head"
        return NameTable(
            [
                *_numbered(f"{form.MASKED_LM}/dense", ("kernel", "bias"), f"{layer}/_intermediate_dense"),
                *_numbered(f"{form.MASKED_LM}/layer_norm", ("gamma", "beta"), f"{layer}/_intermediate_layer_norm"),
                (form.OUTPUT_BIAS, f"{layer}/vars/0", SAME),
            ]
        )
    names = [form.CLASSIFIER] if family.has_pooler else [POOLER, form.CLASSIFIER]
    if not task.endswith("Classifier"):
        names = []
    layers = [(name, f"layers/dense_{number}".removesuffix("_0")) for number, name in enumerate(names)]
    return NameTable(row for name, layer in layers for row in _numbered(name, ("kernel", "bias"), layer))


def _numbered(ours: str, parts: tuple[str, str], theirs: str) -> list[tuple]:
    return [(f"{ours}/{part}", f"{theirs}/vars/{number}", SAME) for number, part in enumerate(parts)]


def _hub_families() -> dict[str, tuple[str, Family]]:
    """Returns class of a backbone -> name and entry of the family."""
    found = families(has=lambda entry: entry.keras_hub)
    return {entry.keras_hub.backbone: (name, entry) for name, entry in found.items()}


def is_keras_hub(path: str) -> bool:
    """Returns whether a folder is a preset: it has `config.json` (as Hugging Face) and Keras' weights file."""
    return os.path.isfile(os.path.join(path, CONFIG_FILE)) and os.path.isfile(os.path.join(path, WEIGHTS_FILE))


def read_keras_hub(path: str) -> BertCheckpoint:
    """Reads a preset of a backbone or a task. Raises `InputError` for damaged files and models of other families."""
    file = os.path.join(path, CONFIG_FILE)
    settings = read_json(file)
    OBJECT_KEYS.check(settings, file)
    class_name = member(settings, "class_name", str, file, "")
    known = _hub_families()
    if class_name not in known:
        raise InputError(
            f"{file}: the preset is a {reprlib.repr(class_name)}, which is not of BERT's family. Use one of: "
            f"{', '.join(known)}"
        )
    name, entry = known[class_name]
    family = entry.keras_hub
    tokenizer, casing = _tokenizer(path) if family.has_tokenizer else (None, None)
    sizes = member(settings, "config", dict, file, {})
    _SIZES.check(sizes, f"{file}: config")
    with named(file):
        config = _preset_config(name, sizes, casing)
    stored = read_keras_weights(os.path.join(path, WEIGHTS_FILE))
    tensors, ignored = family.names(config).read(stored, _with_number)
    _check_no_more_blocks(path, config, ignored)
    remarks, labels, task = [family.remark] if family.remark else [], None, read_task(path, config)
    if task.pooling != "mean":
        config = config.replace(extra={SENTENCE_POOLING: task.pooling})
    if task.name and os.path.isfile(os.path.join(path, TASK_WEIGHTS_FILE)):
        stored = read_keras_weights(os.path.join(path, TASK_WEIGHTS_FILE))
        stored = {name: tensor for name, tensor in stored.items() if not name.startswith("optimizer/")}
        heads, more = _task_names(task.name, family).read(stored)
        tensors, ignored = {**tensors, **heads}, ignored + more
        if f"{form.CLASSIFIER}/bias" in heads:
            count = form.num_outputs(os.path.join(path, TASK_WEIGHTS_FILE), heads, form.CLASSIFIER)
            labels = tuple(f"LABEL_{number}" for number in range(count))
        if task.name.endswith(MASKED_LM_TASK) and family.masked_lm_remark:
            remarks.append(family.masked_lm_remark)
    if "position_offset" in config.family.defaults:
        tensors, config = _as_published(tensors, config)
    return BertCheckpoint(
        path=path,
        kind=f"KerasHub {task.name or class_name}",
        config=config,
        tokenizer=tokenizer,
        tensors=tensors,
        labels=labels,
        problem_type=task.problem_type(labels, os.path.join(path, TASK_FILE)),
        arguments={"SentenceEncoder": task.sentence} if task.sentence else {},
        ignored=tuple(ignored),
        remarks=tuple(remarks),
    )


def _check_no_more_blocks(path: str, config: BertConfig, ignored: list[str]) -> None:
    """Raises `InputError` if there are weights of more blocks than the config says."""
    blocks = [(name, re.match(r"layers/transformer_encoder_(\d+)/", name)) for name in ignored]
    surplus = [name for name, block in blocks if block and int(block[1]) >= config.num_blocks]
    if surplus:
        raise InputError(
            f"{path} has more weights than a model with num_layers={config.num_hidden_layers}: {surplus[0]}. The "
            "config belongs to another preset."
        )


def _preset_config(name: str, values: Mapping, casing: bool | None) -> BertConfig:
    """Returns the config of a family from the sizes in a preset, and the casing if a file states it."""
    defaults, family = registry.family(name).defaults, registry.family(name).keras_hub
    dropout = values.get("dropout", defaults.get("hidden_dropout_prob", 0.1))
    return BertConfig(
        model_type=name,
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
        do_lower_case=defaults.get("do_lower_case", True) if casing is None else casing,
        **{"pooler_act": defaults.get("pooler_act", "tanh"), **family.settings},
    )


def _as_published(tensors: Mapping[str, StoredTensor], config: BertConfig) -> tuple[dict, BertConfig]:
    """Adds the rows that KerasHub leaves out: those before the first position, and one segment, all 0."""
    offset, width = config.family.defaults["position_offset"], config.hidden_size
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


def _tokenizer(path: str) -> tuple[TokenTable | None, bool | None]:
    """Returns the tokenizer, a `Vocabulary` if no file states its casing, and the stated casing of a WordPiece."""
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
        return BytePairTokenizer.from_files(*byte_pair, add_prefix_space=prefix), None
    pieces = os.path.join(path, ASSETS, SENTENCE_PIECE_FILE)
    if os.path.isfile(pieces):
        # KerasHub runs the model as it is. Ours would lower-case the text before.
        return SentencePieceTokenizer.from_file(pieces, do_lower_case=False), None
    return None, member(settings, "lowercase", bool, file)


def _word_piece(path: str, settings: Mapping, file: str) -> tuple[TokenTable, bool | None]:
    """Returns a tokenizer and its casing, see `_tokenizer`. Raises `InputError` if KerasHub cuts texts otherwise."""
    _WORD_PIECE.check(settings, f"{file}: config")
    casing, vocabulary = member(settings, "lowercase", bool, file), Vocabulary.from_file(path)
    if settings:
        strips = member(settings, "strip_accents", bool, file, False)
        vocabulary = vocabulary.replace(
            strip_accents=None if strips == bool(casing) else strips,
            tokenize_chinese_chars=member(settings, "split_on_cjk", bool, file, True),
        )
    return vocabulary if casing is None else WordPieceTokenizer(vocabulary, casing), casing


def _with_number(name: str) -> str:
    """Returns the name of a weight with the number 0 of the first block, which Keras leaves out."""
    return name.replace("layers/transformer_encoder/", "layers/transformer_encoder_0/")
