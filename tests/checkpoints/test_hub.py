"""Which files `hf://` fetches: all that the readers read, and weights in one form only."""

import fnmatch
import importlib
import json
import pkgutil
import re

import pytest

from keras_bert import checkpoints, tokenization
from keras_bert.checkpoints import hub

FILE_NAME = re.compile(r"[\w./-]+\.(json|txt|model|spm|safetensors|h5)")


def file_names():
    """The file names among the constants of all readers."""
    for package in (checkpoints, tokenization):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for value in vars(importlib.import_module(module.name)).values():
                names = value if isinstance(value, tuple) else (value,)
                yield from (name for name in names if isinstance(name, str) and FILE_NAME.fullmatch(name))


def test_every_file_that_a_reader_reads_is_fetched():
    names = set(file_names())
    assert names >= {"spiece.model", "task.weights.h5", "assets/tokenizer/vocabulary.txt", "tokenizer_config.json"}
    names |= {"2_Dense/config.json", "0_Transformer/vocab.txt", "sentencepiece.bpe.model", "spm.model"}
    names |= {"added_tokens.json", "assets/tokenizer/vocabulary.spm", "assets/tokenizer/merges.txt"}
    patterns = [*hub._PATTERNS, *hub._TENSORFLOW_CLASSES]
    missing = [name for name in names if not any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    assert missing == []


DENSE = [{"type": f"sentence_transformers.models.{kind}", "path": path} for kind, path in (
    ("Transformer", ""), ("Pooling", "1_Pooling"), ("Dense", "2_Dense"),
)]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "fetched"),
    [
        (["model.safetensors", "pytorch_model.bin", "bert_model.ckpt.index"], ["model.safetensors"]),
        (["pytorch_model.bin", "tf_model.h5", "bert_model.ckpt.index"], ["pytorch_model.bin"]),
        (
            ["pytorch_model.bin.index.json", "pytorch_model-1-of-1.bin", "adapter_model.safetensors"],
            ["adapter_model.safetensors", "pytorch_model-1-of-1.bin", "pytorch_model.bin.index.json"],
        ),
        (["tf_model.h5", "bert_model.ckpt.index"], ["tf_model.h5"]),
        (
            ["tf_model-1-of-1.h5", "tf_model.h5.index.json", "bert_model.ckpt.index"],
            ["tf_model-1-of-1.h5", "tf_model.h5.index.json"],
        ),
        (["model.ckpt-9.data-0-of-1", "model.ckpt-9.index"], ["model.ckpt-9.data-0-of-1", "model.ckpt-9.index"]),
        (["model.weights.h5", "task.weights.h5", "a.onnx"], ["model.weights.h5", "task.weights.h5"]),
        (
            ["model.safetensors", "2_Dense/pytorch_model.bin", "pytorch_model.bin"],
            ["2_Dense/pytorch_model.bin", "model.safetensors"],
        ),
        (
            ["2_Dense/model.safetensors", "2_Dense/pytorch_model.bin", "pytorch_model.bin"],
            ["2_Dense/model.safetensors", "pytorch_model.bin"],
        ),
    ],
)  # fmt: skip
def test_weights_are_fetched_in_the_first_form_that_there_is(files, fetched, tmp_path, monkeypatch):
    def snapshot_download(repository, revision, allow_patterns):
        for file in [*files, "modules.json"]:
            if any(fnmatch.fnmatch(file, pattern) for pattern in allow_patterns):
                (tmp_path / file).parent.mkdir(exist_ok=True)
                (tmp_path / file).write_text(json.dumps(DENSE if "2_Dense" in str(files) else []))
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    folder = hub.download("hf://owner/name")
    found = sorted(path.relative_to(folder).as_posix() for path in tmp_path.rglob("*.*") if path.is_file())
    assert [name for name in found if name != "modules.json"] == fetched
