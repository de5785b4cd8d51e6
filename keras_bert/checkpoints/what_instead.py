"""Says what to use instead of models that cannot be read: of other families, or in other libraries' files."""

import difflib
import fnmatch
import os
from collections.abc import Collection

from keras_bert.program.errors import InputError

# The family of a model that cannot be read -> what is missing, and what is near.
_ROTARY = "its rotary encoder is missing. Near: ModernBERT and all-mpnet-base-v2 for English"
_WITH_DECODER = "it is an encoder with a decoder. Near: XLM-RoBERTa; TextToText writes texts with a BERT"
_FROM_LEFT = "it reads texts from left to right and is no encoder. Near: ModernBERT; XLM-RoBERTa for other languages"
_NEAR = {
    "deberta": "it is of the first version, whose attention has other weights, which is missing. Near: deberta-v3-base",
    "roformer": _ROTARY,
    "xlm-roberta-xl": "its LayerNorms stand before the parts of a layer, which is missing. Near: xlm-roberta-large",
    "xlm": "its embeddings of languages are missing. Near: XLM-RoBERTa",
    "flaubert": "its layers with the LayerNorm in front are missing. Near: CamemBERT",
    "rembert": "its wide output embeddings are missing. Near: XLM-RoBERTa",
    "ernie": "its embeddings of tasks are missing. Near: BERT and XLM-RoBERTa",
    **dict.fromkeys(("t5", "mt5", "bart", "mbart", "marian"), _WITH_DECODER),
    **dict.fromkeys(("gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3"), _FROM_LEFT),
}
# Files that cannot be read -> what they are and the way out. The first one that is found is named.
_FILES = {
    "export.json": (
        "an export, which has the network only",
        "Give the folder of the model that was exported; docs/runtimes.md lists the commands that take exports.",
    ),
    "*.gguf": (
        "llama.cpp's format",
        "Give the folder of the model that it was made from, with its model.safetensors.",
    ),
    "flax_model*.msgpack": (
        "the weights of transformers' Flax classes",
        "Convert them with transformers 4: AutoModel.from_pretrained(folder, from_flax=True).save_pretrained(other).",
    ),
    "*.onnx": (
        "an exported graph, which cannot be trained",
        "Give the folder of the model that was exported, with its model.safetensors; ONNX Runtime runs the graph.",
    ),
}


def near_families(model_type: object, known: Collection[str]) -> str:
    """Returns what is missing for a family that is not known and what is near, as the end of a sentence; or ""."""
    if not isinstance(model_type, str):
        return ""
    if model_type in _NEAR:
        return f": {_NEAR[model_type]}"
    similar = difflib.get_close_matches(model_type, known, n=1)
    return f": did you mean {similar[0]!r}?" if similar else ""


def check_readable(path: str) -> None:
    """Raises `InputError` for a folder with weights of another library, if it has none that can be read."""
    for folder in (path, os.path.join(path, "onnx")):
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        for pattern, (what, way_out) in _FILES.items():
            if found := fnmatch.filter(names, pattern):
                name = os.path.relpath(os.path.join(folder, found[0]), path)
                raise InputError(
                    f"{path} has no weights but {name!r:.100}: {what}, and no checkpoint that can be read. {way_out}"
                )
