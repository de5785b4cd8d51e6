"""Commands on exported folders: they import neither TensorFlow nor Keras, and write what they write with the model."""

import subprocess
import sys

import numpy as np
import pytest
from places import PROJECT
from tiny_models import make_model

from keras_bert.serving.portable.folder import write_portable
from run_scripts import embed_sentences, search_sentences

TEXTS = ["the fox", "Größe, 中文", "", "fox " * 60, "of and the"]
# Runs a command in which these packages cannot be imported: only models need the first two, only training the others.
WITHOUT = """
import importlib, sys
for name in ("tensorflow", "keras", "h5py", "scipy", "sklearn", "pandas"):
    sys.modules[name] = None
module, sys.argv = sys.argv[1], sys.argv[1:]
importlib.import_module(f"run_scripts.{module}").command()
"""


def run_without_tensorflow(module: str, *arguments) -> str:
    """Returns what a command has printed."""
    command = [sys.executable, "-c", WITHOUT, module, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


def written(name: str, folder):
    """Returns a folder with a tiny model of this name in `model`, its ONNX export in `export`, and texts."""
    model = make_model(name)
    model.save_pretrained(folder / "model")
    write_portable(model, folder / "export", "onnx")
    (folder / "texts.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
    return folder


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    return written("sentence encoder", tmp_path_factory.mktemp("encoder"))


def test_embed_sentences_writes_the_vectors_of_the_model(encoder, tmp_path, run_here):
    def flags(model):
        return f"--init_checkpoint={encoder / model}", f"--input_file={encoder}/texts.txt", "--prompt=query"

    run_without_tensorflow("embed_sentences", *flags("export"), f"--output_file={tmp_path}/export.npy")
    code, printed = run_here(embed_sentences, *flags("model"), f"--output_file={tmp_path}/model.npy")
    assert code == 0, printed.err
    np.testing.assert_allclose(np.load(tmp_path / "export.npy"), np.load(tmp_path / "model.npy"), atol=1e-5)


def test_search_sentences_takes_the_index_of_the_model(encoder, tmp_path, run_here):
    index = f"--index_dir={tmp_path}/index"
    code, printed = run_here(
        search_sentences, f"--init_checkpoint={encoder}/model", f"--input_file={encoder}/texts.txt", index
    )
    assert code == 0, printed.err
    asked = index, "--query=the fox", "--query=of"
    code, printed = run_here(search_sentences, f"--init_checkpoint={encoder}/model", *asked)
    assert run_without_tensorflow("search_sentences", f"--init_checkpoint={encoder}/export", *asked) == printed.out


def test_an_index_refuses_an_export_with_other_weights(encoder, tmp_path, run_here):
    write_portable(make_model("sentence encoder"), tmp_path / "int8", "onnx", "int8")
    asked = f"--input_file={encoder}/texts.txt", f"--index_dir={tmp_path}/index"
    assert run_here(search_sentences, f"--init_checkpoint={tmp_path}/int8", *asked)[0] == 0
    code, printed = run_here(search_sentences, f"--init_checkpoint={encoder}/export", *asked[1:], "--query=fox")
    assert code == 1
    assert "made with another model" in printed.err


def test_an_export_keeps_its_pooling(encoder, tmp_path, run_here):
    flags = f"--init_checkpoint={encoder}/export", f"--input_file={encoder}/texts.txt", "--pooling=max"
    code, printed = run_here(embed_sentences, *flags, f"--output_file={tmp_path}/vectors.npy")
    assert code == 1
    assert printed.err.endswith("export has its own pooling. Leave --pooling out.\n")
