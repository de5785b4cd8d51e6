"""Writes a Hugging Face folder with an ONNX file, for programs that are not ours.

    config.json, model.safetensors, tokenizer.json, ...   what `save_pretrained(format="huggingface")` writes
    modules.json, 1_Pooling, ...                          of a sentence encoder: its pooling and prompts
    onnx/model.onnx                                       token ids in, vectors or logits out

transformers.js, fastembed, text-embeddings-inference and sentence-transformers with `backend="onnx"` read this layout.
"""

import os
import shutil

from keras_bert import registry
from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.checkpoints.hugging_face_tokenizer import complete_tokenizer, tokenizer_json
from keras_bert.checkpoints.pretrained import checkpoint_of, untrained_parts
from keras_bert.config.signature_options import SignatureOptions
from keras_bert.program.atomic_output import check_output_folder
from keras_bert.program.errors import InputError
from keras_bert.serving.portable.folder import HUGGING_FACE_ONNX, check_format
from keras_bert.serving.portable.onnx_model import hugging_face_network, write_network
from keras_bert.serving.portable.portable_models import padded, portable_model

# Weights -> the names of the file: that of transformers.js and, with 8 bits, that of sentence-transformers too.
_FILES = {
    None: ("model.onnx",),
    "float16": ("model_fp16.onnx",),
    "int8": ("model_quantized.onnx", "model_qint8_avx512_vnni.onnx"),
}


def write_hugging_face_onnx(
    model, path: str | os.PathLike, weights: str | None = None, options: SignatureOptions | None = None
) -> str:
    """Writes a model as a Hugging Face folder with an ONNX file, atomically, and returns the folder.

    `config.json` and the weights in `model.safetensors` are written in any case: readers want the first, and torch the
    second. Texts are cut where the tokenizer's `model_max_length` says.

    Args:
        model: a model of a task that transformers has, or an `Encoder`, which becomes a `SentenceEncoder`.
        weights: None for float32, "float16" or "int8"; see `onnx_model.write_onnx`.
        options: `pooling` and `normalize`, for encoders.

    Raises:
        InputError: transformers has no such model or family, its tokenizer has no `tokenizer.json`, a part is not
            trained, the network cannot be written, or the folder is not empty or cannot be written.
    """
    check_format(HUGGING_FACE_ONNX, weights)
    check_output_folder(path)
    stored = portable_model(model, options or SignatureOptions())
    _check_known(stored)
    _check_trained(model)
    content = tokenizer_json(stored.tokenizer)
    with padded(stored):
        network = hugging_face_network(stored, weights)
    longest = getattr(stored, "max_seq_length", None) or stored.config.max_sequence_length

    def add(folder: str) -> None:
        complete_tokenizer(folder, stored.tokenizer.special_tokens, content, longest)
        first, *others = (os.path.join(folder, "onnx", name) for name in _FILES[weights])
        write_network(network, first, weights)
        for other in others:
            shutil.copyfile(first, other)

    checkpoint = checkpoint_of(stored).without_parts(untrained_parts(model))
    for note in write_checkpoint(checkpoint, path, "huggingface", add):
        print(f"{os.fspath(path)}: {note}")
    return os.fspath(path)


def _check_known(model) -> None:
    """Raises `InputError` if transformers cannot compute the model."""
    theirs, missing = model.config.family.hugging_face, ""
    if registry.task_of(model).hugging_face_onnx is None:
        kinds = ", ".join(kind for kind in registry.TASKS if registry.task(kind).hugging_face_onnx)
        missing = f"a {type(model).__name__}, but for Encoder, {kinds}"
    elif theirs is None or theirs.needs_code:
        missing = f"the family {model.config.model_type}: readers would need code from the hub"
    if missing:
        raise InputError(
            f"transformers has no class for {missing}. Use format='onnx', which keras_bert.serving.load reads."
        )


def _check_trained(model) -> None:
    """Raises `InputError` if a part that the outputs need is left out of folders, because it is not trained."""
    needed = registry.export_of(model).needed_parts
    if random := [part for part in model.new_parts.untrained() if needed is None or part in needed]:
        raise InputError(
            f"{', '.join(random)} of this {type(model).__name__} is not trained, and folders of transformers hold "
            "trained weights only. Train the model first, or load a checkpoint that has this part."
        )
