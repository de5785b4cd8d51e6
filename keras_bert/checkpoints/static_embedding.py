"""Folders of sentence-transformers with a StaticEmbedding: a table of token vectors, and `tokenizer.json`.

Reference: sentence-transformers 6.2, `StaticEmbedding`. model2vec writes such folders too.
"""

import os

from keras_bert.checkpoints.checkpoint import TOKEN_EMBEDDINGS, BertCheckpoint
from keras_bert.checkpoints.hugging_face_tokenizer import TOKENIZER_FILE, read_tokenizer, write_tokenizer
from keras_bert.checkpoints.safetensors_file import read_safetensors, write_safetensors
from keras_bert.checkpoints.sentence_transformers import (
    MODULES_FILE,
    STATIC_EMBEDDING,
    ModelFolder,
    modules_of,
    read_tasks,
    write_tasks,
)
from keras_bert.config import BertConfig
from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.errors import InputError
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.program.json_files import read_json_object
from keras_bert.registry import TASKS
from keras_bert.tokenization.vocabulary import Vocabulary

_WEIGHTS_FILE = "model.safetensors"
# The names of the table there and in model2vec.
_TABLES = ("embedding.weight", "embeddings")
# sentence-transformers does not read this file, which model2vec writes; its modules say whether vectors are normalised.
_CONFIG_FILE = "config.json"
_CONFIG_KEYS = KnownKeys(
    harmless=(
        *("model_type", "architectures", "tokenizer_name", "transformers_version", "hidden_dim", "embedding_dtype"),
        *("apply_pca", "apply_zipf", "sif_coefficient", "normalize", "base_model_name", "language"),
    ),
)


def is_static_embedding(path: str) -> bool:
    """Returns whether the first module of a folder is a StaticEmbedding."""
    return [kind for kind, _ in modules_of(path)[:1]] == [STATIC_EMBEDDING]


def read_static_embedding(path: str, trust_pickle: bool = False) -> BertCheckpoint:
    """Reads a folder. Raises `InputError` if a file is missing or damaged, or if a module is not supported."""
    folder = modules_of(path)[0][1]
    weights, tokenizer_file = (os.path.join(folder, name) for name in (_WEIGHTS_FILE, TOKENIZER_FILE))
    missing = [file for file in (weights, tokenizer_file) if not os.path.isfile(file)]
    if missing:
        raise InputError(f"{path}: its {STATIC_EMBEDDING} needs the file {missing[0]}, which is not there.")
    stored = read_safetensors(weights)
    name = next((name for name in _TABLES if name in stored), None)
    if name is None or len(stored) > 1 or len(stored[name].shape) != 2:
        shapes = ", ".join(f"{name} {list(tensor.shape)}" for name, tensor in list(stored.items())[:5])
        raise InputError(f"{weights} must have one table [tokens, size], {_TABLES[0]}. Received: {shapes}")
    config = BertConfig.static(*stored[name].shape)
    tokenizer, remarks = read_tokenizer(folder, config.vocab_size, makes_rows=False)
    file = os.path.join(folder, _CONFIG_FILE)
    notes = _CONFIG_KEYS.notes(read_json_object(file), file) if os.path.isfile(file) else []
    checkpoint = BertCheckpoint(
        path=path,
        kind=f"sentence-transformers {STATIC_EMBEDDING}",
        config=config,
        tokenizer=tokenizer,
        tensors={TOKEN_EMBEDDINGS: stored[name]},
        remarks=tuple(remarks),
    )
    checkpoint = read_tasks(checkpoint, ModelFolder(path, file, trust_pickle=trust_pickle))
    if not checkpoint.arguments:
        raise InputError(
            f"{os.path.join(path, MODULES_FILE)}: after a {STATIC_EMBEDDING} only Dense and Normalize are supported. "
            f"Received: {checkpoint.config.sentence_pooling[:100]}"
        )
    return checkpoint.replace(config=config, remarks=(*checkpoint.remarks, *notes))


def check_format(checkpoint: BertCheckpoint, format: str) -> None:
    """Raises `InputError` unless `format` is `huggingface`, and the static model has a WordPiece vocabulary."""
    if format != "huggingface":
        raise InputError(f"The {format} format cannot hold a static model. Use keras_bert or huggingface.")
    if not any(map(checkpoint.tells, TASKS)):
        raise InputError(
            f"The {format} format holds a static encoder as part of a model that turns texts into vectors only. "
            f"Received: {checkpoint.path}. Use format='keras_bert'."
        )
    if not isinstance(checkpoint.vocabulary, Vocabulary):
        raise InputError(
            f"A {STATIC_EMBEDDING} is written with a WordPiece vocabulary only. Received: "
            f"{type(checkpoint.vocabulary).__name__}. Use format='keras_bert'."
        )


def write_static_embedding(checkpoint: BertCheckpoint, folder: str) -> list[str]:
    """Writes the files of a static model into an existing folder. Everything can be written, so it returns []."""
    with atomic_file(os.path.join(folder, _WEIGHTS_FILE)) as file:
        write_safetensors(file, {_TABLES[0]: checkpoint.tensors[TOKEN_EMBEDDINGS]}, {"format": "pt"})
    write_tokenizer(folder, checkpoint.tokenizer, checkpoint.config)
    write_tasks(checkpoint, folder)
    return []
