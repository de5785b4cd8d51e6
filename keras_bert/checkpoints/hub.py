"""`hf://owner/name`: models of the Hugging Face hub, from the local cache if possible."""

import os

from keras_bert.checkpoints import hugging_face, keras_hub
from keras_bert.checkpoints.sentence_transformers import modules_of, transformer_folder
from keras_bert.program.errors import InputError, how_to_install

HUB_PREFIX = "hf://"
# `*` matches slashes too, so files in subfolders, such as 1_Pooling/config.json, are included.
_PATTERNS = [
    "*.json",
    "*vocab.txt",
    "*vocabulary.txt",
    "*merges.txt",
    "*.model",
    "artifact.metadata",
    "sparse_linear.pt",
    "colbert_linear.pt",
    "*.spm",
    "*.safetensors",
    "*.weights.h5",
]
_PICKLES = "pytorch_model*.bin*"
_TENSORFLOW_CLASSES = ["*tf_model*.h5"]
_TENSORFLOW = ["*.ckpt*", "*.index", "*.data-*"]
_WEIGHTS = (hugging_face.SAFETENSORS_FILE, f"{hugging_face.SAFETENSORS_FILE}.index.json", keras_hub.WEIGHTS_FILE)


def download(name: str) -> str:
    """Returns the local folder of `hf://owner/name` or `hf://owner/name@revision`.

    With `HF_HUB_OFFLINE=1` only the cache in `HF_HOME` is used. Raises `InputError` if the model cannot be downloaded.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError:
        raise InputError(f"{name} needs the package huggingface_hub. {how_to_install('hub')}") from None
    repository, _, revision = name.removeprefix(HUB_PREFIX).partition("@")
    if len(repository.split("/")) != 2 or not all(repository.split("/")):
        raise InputError(f"{name} is not the name of a model. Expected: hf://owner/name.")
    folder = ""
    try:
        # Weights in the first form that a repository has, and no other framework's copies of them.
        for patterns in (lambda _: _PATTERNS, _pickles_of, _tensorflow_classes_of, _tensorflow_of):
            if needed := patterns(folder):
                folder = snapshot_download(repository, revision=revision or None, allow_patterns=needed)
    except HFValidationError as error:
        raise InputError(f"{name}: {error}") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()
        raise InputError(
            f"{name} cannot be downloaded: {reason[0] if reason else type(error).__name__} Check the name and the "
            "connection; with HF_HUB_OFFLINE=1 only models in the cache (HF_HOME) can be used."
        ) from None
    return folder


def _pickles_of(folder: str) -> list[str]:
    """Returns patterns for the pickles of a model, and of those of its modules, that lack other weights."""
    places = [transformer_folder(folder), *(place for kind, place in modules_of(folder) if kind == "Dense")]
    lacking = [os.path.relpath(place, folder) for place in places if not _has_weights(place)]
    return [_PICKLES if place == os.curdir else f"{place}/{_PICKLES}" for place in lacking]


def _tensorflow_classes_of(folder: str) -> list[str]:
    """Returns patterns for the files of transformers' TensorFlow classes if a folder has no other weights."""
    folder = transformer_folder(folder)
    has_others = _has_weights(folder) or hugging_face.has_weights(folder, hugging_face.TORCH_FILES)
    return [] if has_others else _TENSORFLOW_CLASSES


def _tensorflow_of(folder: str) -> list[str]:
    """Returns patterns for checkpoints of TensorFlow if a folder has no other weights."""
    folder = transformer_folder(folder)
    return [] if _has_weights(folder) or hugging_face.has_weights(folder) else _TENSORFLOW


def _has_weights(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, name)) for name in _WEIGHTS)
