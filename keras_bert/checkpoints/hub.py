"""`hf://owner/name`: models of the Hugging Face hub, from the local cache if possible."""

import glob
import os

from keras_bert.checkpoints.sentence_transformers import modules_of
from keras_bert.program.errors import InputError, how_to_install

HUB_PREFIX = "hf://"
# `*` matches slashes too, so small files in subfolders, such as 1_Pooling/config.json, are included. Weights in the
# first of these forms that a repository has, and no other framework's copies of them.
_PATTERNS = [
    "*.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "*.safetensors",
    "model.weights.h5",
    "assets/tokenizer/*",
    "bert_model.ckpt.*",
]


def download(name: str) -> str:
    """Returns the local folder of `hf://owner/name` or `hf://owner/name@revision`.

    With `HF_HUB_OFFLINE=1` only the cache in `HF_HOME` is used.

    Raises:
        InputError: huggingface_hub is not installed, or the model cannot be downloaded.
    """
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
    except ImportError:
        raise InputError(f"{name} needs the package huggingface_hub. {how_to_install('hub')}") from None
    repository, _, revision = name.removeprefix(HUB_PREFIX).partition("@")
    if len(repository.split("/")) != 2 or not all(repository.split("/")):
        raise InputError(f"{name} is not the name of a model. Expected: hf://owner/name.")
    try:
        folder = snapshot_download(repository, revision=revision or None, allow_patterns=_PATTERNS)
        if old_weights := _patterns_of_missing_weights(folder):
            folder = snapshot_download(repository, revision=revision or None, allow_patterns=old_weights)
    except HFValidationError as error:
        raise InputError(f"{name}: {error}") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = str(error).strip().splitlines()
        raise InputError(
            f"{name} cannot be downloaded: {reason[0] if reason else type(error).__name__} Check the name and the "
            "connection; with HF_HUB_OFFLINE=1 only models in the cache (HF_HOME) can be used."
        ) from None
    return folder


def _patterns_of_missing_weights(folder: str) -> list[str]:
    """Returns the patterns of torch's weights, for the model and each dense layer behind it that has no others."""
    places = [folder, *(place for kind, place in modules_of(folder) if kind == "Dense")]
    return [
        os.path.normpath(os.path.join(os.path.relpath(place, folder), "pytorch_model*.bin*"))
        for place in places
        if not any(glob.glob(os.path.join(place, weights)) for weights in ("*.safetensors", "*.weights.h5", "*.index"))
    ]
