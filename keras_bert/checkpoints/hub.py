"""`hf://owner/name`: models of the Hugging Face hub, from the local cache if possible."""

import os
from collections.abc import Sequence

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
        for patterns in (
            lambda _: _PATTERNS,
            _pickles_of,
            lambda folder: _if_without(hugging_face.TORCH_FILES, folder, _TENSORFLOW_CLASSES),
            lambda folder: _if_without(hugging_face.WEIGHTS_FILES, folder, _TENSORFLOW),
        ):
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
    lacking = [os.path.relpath(place, folder) for place in places if not hugging_face.has_weights(place, _WEIGHTS)]
    return [_PICKLES if place == os.curdir else f"{place}/{_PICKLES}" for place in lacking]


def _if_without(files: Sequence[str], folder: str, patterns: list[str]) -> list[str]:
    """Returns patterns for weights of TensorFlow if a folder has neither these files of weights nor KerasHub's."""
    return [] if hugging_face.has_weights(transformer_folder(folder), (*files, keras_hub.WEIGHTS_FILE)) else patterns
