"""Folders of Hugging Face transformers: `config.json` with `model.safetensors`, `pytorch_model.bin` or `tf_model.h5`.

Reference: huggingface/transformers, `models/bert/` (`configuration_bert.py`, `modeling_bert.py`).
"""

import dataclasses
import glob
import os
import re
from collections.abc import Mapping, Sequence

import numpy as np

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.checkpoint import BertCheckpoint, StoredTensor
from keras_bert.checkpoints.hugging_face_config import (
    CONFIG_FILE,
    config_from,
    config_values,
    labels_of,
    problem_type_of,
)
from keras_bert.checkpoints.hugging_face_tokenizer import read_tokenizer, write_tokenizer
from keras_bert.checkpoints.name_table import NameTable, to_ours
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert.checkpoints.same_family import check_is_held, check_same_family
from keras_bert.checkpoints.sentence_transformers import ModelFolder, read_tasks, transformer_folder, write_tasks
from keras_bert.checkpoints.tensorflow_classes import (
    TENSORFLOW_FILE,
    is_of_tensorflow,
    read_tensorflow_classes,
    with_torch_names,
)
from keras_bert.checkpoints.torch_file import read_torch_file
from keras_bert.checkpoints.weight_list import weights_of
from keras_bert.checkpoints.what_instead import check_readable
from keras_bert.config import BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_files import inside
from keras_bert.program.json_files import checked, member, read_json_object, strings, write_json
from keras_bert.registry import heads
from keras_bert.tokenization.byte_pair import BytePairTokenizer

SAFETENSORS_FILE = "model.safetensors"
TORCH_FILE = "pytorch_model.bin"
TORCH_FILES = (SAFETENSORS_FILE, f"{SAFETENSORS_FILE}.index.json", TORCH_FILE, f"{TORCH_FILE}.index.json")
TENSORFLOW_FILES = (TENSORFLOW_FILE, f"{TENSORFLOW_FILE}.index.json")
WEIGHTS_FILES = (*TORCH_FILES, *TENSORFLOW_FILES)

_POOLER = f"{form.POOLER}/dense/kernel"
_CONSTANTS = re.compile(r".*\bembeddings\.(position_ids|token_type_ids)$")


def read_hugging_face(path: str, trust_pickle: bool = False) -> BertCheckpoint:
    """Reads a folder that `save_pretrained` of transformers wrote.

    Raises `InputError` if a file is missing or damaged, or for a family or a setting that we do not have.
    """
    folder = transformer_folder(path)
    file = os.path.join(folder, CONFIG_FILE)
    values = read_json_object(file)
    architecture = (strings(values, "architectures", file) or [""])[0]
    config = config_from(folder, values)
    names = config.family.hugging_face
    weights_path, stored, is_tensorflow = read_weights(folder, trust_pickle)
    config = names.of_weights(config, stored)
    head = _head_of(architecture)
    if head == form.CLASSIFIER and names.classifier_has_hidden_act:
        config = config.replace(pooler_act=config.hidden_act)
    table, bias = names.names(config, head), _bias_of(config)
    tensors, ignored = named_as_ours(stored, config, table)
    head = head or form.CLASSIFIER
    form.without_unused_embedding(tensors, ignored)
    if form.TOKEN_EMBEDDINGS not in tensors:
        raise form.no_bert(weights_path, table.theirs(form.TOKEN_EMBEDDINGS)[0], stored, "tensors")
    num_rows = tensors[form.TOKEN_EMBEDDINGS].shape[0]
    tokenizer, remarks = read_tokenizer(folder, config.vocab_size, num_rows=num_rows)
    if has_weights(folder, TORCH_FILES) and has_weights(folder, TENSORFLOW_FILES):
        remarks.append(f"the weights are those of {os.path.basename(weights_path)}; {TENSORFLOW_FILE} is not read")
    if isinstance(tokenizer, BytePairTokenizer) and config.type_vocab_size > 1:
        tokenizer = _with_their_segments(tokenizer)
    if is_tensorflow:  # its classes share the table, whatever the config says, unless they have two (MobileBERT)
        config = config.replace(tie_word_embeddings=not _has_another_table(tensors))
    if config.tie_word_embeddings:
        # Older versions wrote a shared table twice. transformers reads the encoder's copy.
        tensors.pop(form.OUTPUT_EMBEDDINGS, None)
    if {names.decoder_bias, bias} <= stored.keys() and (is_tensorflow or not config.tie_word_embeddings):
        ignored.append(bias)
    count = form.num_outputs(weights_path, tensors, head) if heads()[head].has_labels else None
    labels = labels_of(folder, values, count)
    checkpoint = BertCheckpoint(
        path=path,
        kind=f"Hugging Face {architecture}".strip(),
        config=config,
        tokenizer=tokenizer,
        tensors=tensors,
        labels=labels,
        problem_type=problem_type_of(values, labels) if head == form.CLASSIFIER else "classification",
        ignored=tuple(ignored),
        remarks=tuple(remarks),
    )
    return read_tasks(checkpoint, ModelFolder(path, file, values, stored, trust_pickle))


def _has_another_table(tensors: Mapping[str, StoredTensor]) -> bool:
    """Returns whether a masked-LM head has a table with numbers of its own."""
    table = tensors.get(form.OUTPUT_EMBEDDINGS)
    return table is not None and not np.array_equal(table.read(), tensors[form.TOKEN_EMBEDDINGS].read())


def _with_their_segments(tokenizer: BytePairTokenizer) -> BytePairTokenizer:
    """Returns a tokenizer for a model with segments: with two separators, transformers has one segment in a row."""
    special = tokenizer.special_tokens
    if special.num_between == 1 or special.second_segment == 0:
        return tokenizer
    return tokenizer.with_special_tokens(dataclasses.replace(special, second_segment=0))


def write_hugging_face(checkpoint: BertCheckpoint, folder: str) -> list[str]:
    """Writes config, weights and tokenizer into an existing folder; returns the names of weights without a place.

    Raises `InputError` if transformers has no such family, or computes something else, see `check_same_family`.
    """
    names = checkpoint.config.family.hugging_face
    if names is None:
        raise InputError(
            f"{checkpoint.path}: transformers has no model of the family {checkpoint.config.model_type}. Write it with "
            "format='keras_bert'."
        )
    if names.more.fixed.get("tie_word_embeddings") == (False,):
        checkpoint = _with_output_table(checkpoint)
    present, config = checkpoint.heads, checkpoint.config
    named = {form.part_of(weight.ours) for weight in weights_of(config) if weight.hugging_face}
    architecture = next((name for name, head in _heads_of_classes().items() if head in present), None)
    if form.REPLACED_TOKEN in present and form.REPLACED_TOKEN in named:
        architecture = architecture or "ForPreTraining"
    architecture = architecture or _language_model(
        form.MASKED_LM in present, form.NEXT_SENTENCE in present and form.NEXT_SENTENCE in named
    )
    table = names.names(config, _head_of(architecture))
    architecture = names.renamed.get(architecture, architecture)
    has_pooler = bool(table.theirs(_POOLER)) and _POOLER in checkpoint.tensors
    check_same_family(checkpoint, "transformers", always_projects=True, has_pooler=has_pooler)
    is_bare = architecture == "Model"
    architecture = names.classes + architecture
    written, left_out = table.write(checkpoint.tensors, config.num_attention_heads)
    if is_bare:  # a BertModel has no prefix; in models with a head, its weights have the prefix "bert."
        written = {name.removeprefix(f"{names.prefix}."): tensor for name, tensor in written.items()}
    if form.OUTPUT_EMBEDDINGS in checkpoint.tensors and names.decoder_bias:
        written[names.decoder_bias] = checkpoint.tensors[form.OUTPUT_BIAS]
    values = config_values(checkpoint, architecture)
    check_is_held(config, names.of_weights(config_from(checkpoint.path, values), written), checkpoint.path)
    write_json(os.path.join(folder, CONFIG_FILE), values)
    with atomic_file(os.path.join(folder, SAFETENSORS_FILE)) as file:
        write_safetensors(file, written, {"format": "pt"})
    if checkpoint.tokenizer is not None:
        write_tokenizer(folder, checkpoint.tokenizer, config)
    parts_of_tasks = write_tasks(checkpoint, folder)
    return [name for name in left_out if form.part_of(name) not in parts_of_tasks]


def _with_output_table(checkpoint: BertCheckpoint) -> BertCheckpoint:
    """Returns a checkpoint whose masked-LM head has a table of its own: a copy of the token table if it shared that."""
    if not checkpoint.config.tie_word_embeddings:
        return checkpoint
    tensors = dict(checkpoint.tensors)
    if form.MASKED_LM in checkpoint.heads:
        tensors[form.OUTPUT_EMBEDDINGS] = tensors[form.TOKEN_EMBEDDINGS]
    config = checkpoint.config.replace(tie_word_embeddings=False)
    return checkpoint.replace(config=config, tensors=tensors)


def _language_model(has_masked_lm: bool, has_next_sentence: bool) -> str:
    if has_masked_lm:
        return "ForPreTraining" if has_next_sentence else "ForMaskedLM"
    return "ForNextSentencePrediction" if has_next_sentence else "Model"


def _heads_of_classes() -> dict[str, str]:
    """Returns the end of the name of a class -> our head. The first one that fits a checkpoint names its class."""
    return {ending: name for name, head in heads().items() for ending in head.hugging_face}


def _head_of(architecture: str) -> str | None:
    """Returns the head of one of their classes, or None for an encoder or a language model."""
    return next((head for ending, head in _heads_of_classes().items() if architecture.endswith(ending)), None)


def _bias_of(config: BertConfig) -> str:
    return next(weight.hugging_face for weight in weights_of(config) if weight.ours == form.OUTPUT_BIAS)


def read_weights(path: str, trust_pickle: bool) -> tuple[str, dict[str, StoredTensor], bool]:
    """Returns the weights file, its tensors by their names in PyTorch, and whether it is one of TensorFlow.

    Prefers safetensors to pickles, these to `tf_model.h5`, and single files to shards.
    """
    for name in WEIGHTS_FILES:
        file = os.path.join(path, name)
        if os.path.isfile(file):
            tensors = _read_parts(path, file, trust_pickle) if name.endswith(".json") else _read(file, trust_pickle)
            is_tensorflow = is_of_tensorflow(tensors)
            return file, with_torch_names(tensors) if is_tensorflow else tensors, is_tensorflow
    check_readable(path)
    endings = (".h5", ".msgpack", ".ot", ".safetensors", ".bin")
    others = [name for name in glob.glob("*", root_dir=path) if name.endswith(endings)]
    raise InputError(
        f"{path} has a {CONFIG_FILE} but none of {SAFETENSORS_FILE}, {TORCH_FILE} and {TENSORFLOW_FILE}. Copy one of "
        "them there." + (f" {', '.join(others)} cannot be read." if others else "")
    )


def _read_parts(path: str, index: str, trust_pickle: bool) -> dict[str, StoredTensor]:
    """Returns the tensors of all files that an index names."""
    form.check_stored_file(index)
    weight_map = member(read_json_object(index), "weight_map", dict, index, {})
    names = {checked(part, str, "each part of weight_map", index) for part in weight_map.values()}
    tensors = {}
    for part in sorted({inside(path, name, index) for name in names}):
        tensors |= _read(part, trust_pickle, is_part=True)
    return tensors


def has_weights(path: str, names: Sequence[str] = WEIGHTS_FILES) -> bool:
    """Returns whether a folder has one of the files of weights that `read_weights` reads."""
    return any(os.path.isfile(os.path.join(path, name)) for name in names)


def _read(path: str, trust_pickle: bool, is_part: bool = False) -> dict[str, StoredTensor]:
    if path.endswith(".h5"):
        return read_tensorflow_classes(path, is_part)
    return read_safetensors(path) if path.endswith(".safetensors") else read_torch_file(path, trust_pickle)


def named_as_ours(
    stored: Mapping[str, StoredTensor], config: BertConfig, table: NameTable
) -> tuple[dict[str, StoredTensor], list[str]]:
    """Returns our name -> tensor in our layout, and the unknown names."""
    names, bias = config.family.hugging_face, _bias_of(config)
    tensors, ignored = {}, []
    for key, tensor in stored.items():
        name = key.removeprefix("module.")  # of torch's DataParallel
        # The first BERTs for PyTorch kept TensorFlow's names of LayerNorm weights.
        name = re.sub(r"\.gamma$", ".weight", re.sub(r"\.beta$", ".bias", name))
        if name in (bias, names.decoder_bias):
            # If the decoder has its own bias, that one is used; otherwise the two are equal.
            if name == names.decoder_bias or form.OUTPUT_BIAS not in tensors:
                tensors[form.OUTPUT_BIAS] = tensor
            continue
        ours = table.ours(name) or table.ours(f"{names.prefix}.{name}")  # bare encoders have no prefix
        if ours:
            tensors[ours[0]] = to_ours(tensor, ours[1])
        elif not _CONSTANTS.fullmatch(name):
            ignored.append(key)
    return tensors, ignored
