"""Commands on exported folders: they import neither TensorFlow nor Keras, and write what they write with the model."""

import re
import subprocess
import sys

import numpy as np
import pytest
from places import PROJECT
from tiny_models import make_model

from keras_bert.serving.portable.folder import write_portable
from run_scripts import embed_sentences, run_classifier, search_sentences

TEXTS = ["the fox", "Größe, 中文", "", "fox " * 60, "of and the"]
# Runs a command in which packages cannot be imported.
WITHOUT = """
import importlib, sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
module, sys.argv = sys.argv[1], sys.argv[1:]
importlib.import_module(f"run_scripts.{module}").command()
"""


def run_without_tensorflow(module: str, *arguments, also="pandas,scipy,sklearn,") -> str:
    """Returns what a command has printed; it can import none of the packages `also` either."""
    command = [sys.executable, "-c", WITHOUT, f"{also}tensorflow,keras,h5py", module, *map(str, arguments)]
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

    runtime = "--runtime=onnxruntime", "--precision=float32"
    run_without_tensorflow("embed_sentences", *flags("export"), *runtime, f"--output_file={tmp_path}/export.npy")
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


@pytest.mark.parametrize(
    ("model", "flag", "expected"),
    [
        (
            "model",
            "--runtime=openvino",
            "--runtime is for exported folders, and .*model is none. Leave it out, or",
        ),
        ("model", "--precision=bfloat16", "--precision is for exported folders"),
        ("export", "--runtime=litert", "litert"),
        ("export", "--pooling=max", "export has its own pooling. Leave --pooling out."),
    ],
)
def test_flags_without_effect_are_refused(model, flag, expected, encoder, tmp_path, run_here):
    flags = f"--init_checkpoint={encoder / model}", f"--input_file={encoder}/texts.txt", flag
    code, printed = run_here(embed_sentences, *flags, f"--output_file={tmp_path}/vectors.npy")
    assert code == 1
    (line,) = printed.err.splitlines()
    assert re.search(expected, line), line


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = written("several labels", tmp_path_factory.mktemp("classifier"))
    rows = zip(TEXTS, ["a,b", "c", "", "b", "a"], strict=True)
    (folder / "texts.tsv").write_text("text\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return folder


def test_run_classifier_writes_the_predictions_and_scores_of_the_model(classifier, tmp_path, run_here):
    def flags(model):
        files = [f"--{kind}_file={classifier}/texts.tsv" for kind in ("dev", "test")]
        of_labels = "--problem_type=multi_label", "--threshold=0.3", "--max_seq_length=32"
        run = f"--init_checkpoint={classifier / model}", f"--output_dir={tmp_path / model}"
        return *files, *of_labels, *run, "--do_eval", "--do_predict"

    run_without_tensorflow("run_classifier", *flags("export"), also="")  # scores of labels need scikit-learn
    code, printed = run_here(run_classifier, *flags("model"))
    assert code == 0, printed.err
    names = sorted(path.name for path in (tmp_path / "model").iterdir())
    assert {"eval_report", "eval_results.txt", "test_predictions.tsv", "test_results.tsv"} <= {*names}
    assert sorted(path.name for path in (tmp_path / "export").iterdir()) == names
    found, expected = (np.loadtxt(tmp_path / model / "test_results.tsv") for model in ("export", "model"))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    found, expected = ((tmp_path / model / "eval_results.txt").read_text() for model in ("export", "model"))
    assert [line for line in found.splitlines() if "loss" not in line] == [
        line for line in expected.splitlines() if "loss" not in line
    ]


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (["--do_train", "--train_file"], "predicts and does not change. Leave --do_train out."),
        (["--do_predict", "--explain=why.html", "--test_file"], "Leave --explain out."),
        (["--do_predict", "--few_shot", "--test_file"], "export of a SequenceClassifier. Expected: SentenceClassifier"),
    ],
)
def test_run_classifier_says_what_an_export_cannot_do(flags, expected, classifier, tmp_path, run_here):
    *flags, file = flags
    run = f"--init_checkpoint={classifier}/export", f"--output_dir={tmp_path}/run", f"{file}={classifier}/texts.tsv"
    code, printed = run_here(run_classifier, *flags, *run)
    assert code == 1
    assert expected in printed.err.splitlines()[-1]
