"""Commands on exported folders: they import neither TensorFlow nor Keras, and write what they write with the model."""

import json
import re
import subprocess
import sys
import urllib.request

import numpy as np
import pytest
from places import PROJECT
from pyarrow import ipc
from tiny_models import make_model

from keras_bert import InputError
from keras_bert.serving import load
from keras_bert.serving.portable.folder import write_portable
from keras_bert.tasks.tagging.task import LoadedTokenClassifier
from keras_bert.tf_serving.server.json_tensors import response_body
from run_scripts import embed_sentences, extract_features, fill_mask, run_classifier, search_sentences, serve
from run_scripts.readable_answers import readable_answers

TEXTS = ["the fox", "Größe, 中文", "", "fox " * 60, "of and the"]
PART = "part-00000-of-00001.arrow"
FULL_TEXTS = list(filter(None, TEXTS))
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


def test_embed_sentences_writes_the_vectors_of_the_model(encoder, tmp_path, done_here):
    def flags(model):
        texts = f"--input_file={encoder}/texts.txt", "--skip_missing", "--prompt=query"
        return f"--init_checkpoint={encoder / model}", *texts, f"--output_dir={tmp_path / model}"

    runtime = "--runtime=onnxruntime", "--precision=float32"
    run_without_tensorflow("embed_sentences", *flags("export"), *runtime, also="scipy,sklearn,")  # pyarrow asks pandas
    done_here(embed_sentences, *flags("model"))
    found, expected = (ipc.open_file(tmp_path / name / PART).read_all() for name in ("export", "model"))
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert found["id"].to_pylist() == [0, 1, 3, 4]
    np.testing.assert_allclose(found["vector"].to_pylist(), expected["vector"].to_pylist(), atol=1e-5)


def test_search_sentences_takes_the_index_of_the_model(encoder, tmp_path, run_here, done_here):
    index = f"--index_dir={tmp_path}/index"
    printed = done_here(
        search_sentences, f"--init_checkpoint={encoder}/model", f"--input_file={encoder}/texts.txt", index
    )
    asked = index, "--query=the fox", "--query=of"
    code, printed = run_here(search_sentences, f"--init_checkpoint={encoder}/model", *asked)
    assert run_without_tensorflow("search_sentences", f"--init_checkpoint={encoder}/export", *asked) == printed.out


def test_an_index_refuses_an_export_with_other_weights(encoder, tmp_path, run_here, refused_here):
    write_portable(make_model("sentence encoder"), tmp_path / "int8", "onnx", "int8")
    asked = f"--input_file={encoder}/texts.txt", f"--index_dir={tmp_path}/index"
    assert run_here(search_sentences, f"--init_checkpoint={tmp_path}/int8", *asked)[0] == 0
    printed = refused_here(search_sentences, f"--init_checkpoint={encoder}/export", *asked[1:], "--query=fox")
    assert "made with another model" in printed.err


@pytest.mark.parametrize(
    ("model", "flag", "expected"),
    [
        ("model", "--runtime=openvino", "--runtime is for exported folders, and .*model is none. Leave it out"),
        ("model", "--precision=bfloat16", "--precision is for exported folders"),
        ("export", "--runtime=litert", "litert"),
        ("export", "--pooling=max", "export has its own pooling. Leave --pooling out."),
    ],
)
def test_flags_without_effect_are_refused(model, flag, expected, encoder, tmp_path, refused_here):
    flags = f"--init_checkpoint={encoder / model}", f"--input_file={encoder}/texts.txt", flag
    printed = refused_here(embed_sentences, *flags, f"--output_dir={tmp_path}/vectors", "--skip_missing")
    (line,) = printed.err.splitlines()
    assert re.search(expected, line), line


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = written("several labels", tmp_path_factory.mktemp("classifier"))
    rows = zip(TEXTS, ["a,b", "c", "", "b", "a"], strict=True)
    (folder / "texts.tsv").write_text("text\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows), "utf-8")
    return folder


def test_run_classifier_writes_the_predictions_and_scores_of_the_model(classifier, tmp_path, done_here):
    def flags(model):
        files = [f"--{kind}_file={classifier}/texts.tsv" for kind in ("dev", "test")]
        of_labels = "--problem_type=multi_label", "--threshold=0.3", "--max_seq_length=32"
        run = f"--init_checkpoint={classifier / model}", f"--output_dir={tmp_path / model}"
        return *files, *of_labels, *run, "--do_eval", "--do_predict"

    run_without_tensorflow("run_classifier", *flags("export"), also="")  # scores of labels need scikit-learn
    done_here(run_classifier, *flags("model"))
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
def test_run_classifier_says_what_an_export_cannot_do(flags, expected, classifier, tmp_path, refused_here):
    *flags, file = flags
    run = f"--init_checkpoint={classifier}/export", f"--output_dir={tmp_path}/run", f"{file}={classifier}/texts.tsv"
    printed = refused_here(run_classifier, *flags, *run)
    assert expected in printed.err.splitlines()[-1]


# Name of a model -> the inputs of its `serving_default`.
ASKED = {
    "tagger": {"text": [*TEXTS, "Größe and 中"]},
    "span": {"question": ["who is it?", "of?"], "context": ["中 the fox is it", "fox " * 60]},
    "choice": {"prompt": ["the", "a"], "choices": [["fox", "中", "of"], ["it", "fox", ""]]},
    "masked words": {"text": ["the [MASK] fox [MASK].", "fox"]},
}


@pytest.fixture(scope="module")
def exports(encoder, classifier, tmp_path_factory):
    """Name of a model -> its ONNX export, and the inputs of its `serving_default`."""
    folder = tmp_path_factory.mktemp("exports")
    written = {name: write_portable(make_model(name), folder / name.split()[0], "onnx") for name in ASKED}
    of_texts = {"vectors": f"{encoder}/export", "labels": f"{classifier}/export"}
    return {
        **{name: (path, {"text": TEXTS}) for name, path in of_texts.items()},
        **{name: (path, ASKED[name]) for name, path in written.items()},
    }


def test_the_server_serves_exports_without_tensorflow(exports):
    asked = {name.replace(" ", "_"): values for name, values in exports.items()}
    folders = [f"{name}={folder}" for name, (folder, _) in asked.items()]
    hidden = "pandas,scipy,sklearn,tensorflow,keras,h5py"
    command = [sys.executable, "-c", WITHOUT, hidden, "serve", *folders, "--port=0", "--runtime=onnxruntime"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, **pipes, text=True, cwd=PROJECT) as process:
        try:
            url = process.stdout.readline().rpartition(" ")[2].rstrip("/\n")

            def ask(path, body=None):
                data = None if body is None else json.dumps(body).encode()
                return json.load(urllib.request.urlopen(f"{url}{path}", data))

            for name, (folder, inputs) in asked.items():
                found = ask(f"/v1/models/{name}:predict", {"inputs": inputs})["outputs"]
                expected = load(folder, "onnxruntime").signatures["serving_default"](**inputs)
                expected = json.loads(response_body(expected, as_rows=False))["outputs"]
                found, expected = (one if isinstance(one, dict) else {"": one} for one in (found, expected))
                for key, values in expected.items():
                    is_float = np.asarray(values).dtype == float
                    compare = np.testing.assert_allclose if is_float else np.testing.assert_equal
                    compare(found[key], values, **{"rtol": 1e-5, "atol": 1e-6} if is_float else {})
            vectors = ask("/v1/embeddings", {"model": "vectors", "input": TEXTS})["data"]
            expected = make_model("sentence encoder").encode(TEXTS)
            np.testing.assert_allclose([one["embedding"] for one in vectors], expected, atol=1e-5)
            assert ask("/models/labels")["labels"] == list(make_model("several labels").labels)
            signatures = ask("/v1/models/labels/metadata")["metadata"]["signature_def"]["signature_def"]
            assert signatures["serving_default"]["outputs"]["probabilities"]["dtype"] == "DT_FLOAT"
            assert ask("/v1/models/labels")["model_version_status"][0]["state"] == "AVAILABLE"
            process.terminate()
            assert process.wait(60) == 0, process.stderr.read()
        finally:
            process.kill()


@pytest.mark.parametrize("name", ["tagger", *(pytest.param(name, marks=pytest.mark.slow) for name in [*ASKED][1:])])
def test_ask_saved_model_prints_the_answers_of_the_model(name, exports):
    folder, inputs = exports[name]
    columns = {key: values[-1] if key != "choices" else values[0] for key, values in inputs.items()}
    flags = [
        f"--{key}={one}" for key, values in columns.items() for one in ([values] if isinstance(values, str) else values)
    ]
    printed = run_without_tensorflow("ask_saved_model", f"--saved_model={folder}", *flags, "--runtime=onnxruntime")
    outputs = load(folder).signatures["serving_default"](**{key: [values] for key, values in columns.items()})
    [answer] = readable_answers(outputs, {key: [values] for key, values in columns.items()})
    assert printed.partition("\n")[2] == f"{answer}\n\n"


def test_fill_mask_prints_what_it_prints_with_the_model(exports, tmp_path, run_here, done_here):
    make_model("masked words").save_pretrained(tmp_path)
    asked = "--text=the [MASK] fox", "--targets=the,of"
    printed = done_here(fill_mask, f"--init_checkpoint={tmp_path}", *asked)
    folder, _ = exports["masked words"]
    assert run_without_tensorflow("fill_mask", f"--init_checkpoint={folder}", *asked) == printed.out
    code, printed = run_here(fill_mask, f"--init_checkpoint={exports['tagger'][0]}", *asked)
    assert "tagger is the export of a TokenClassifier. Expected: MaskedLM." in printed.err


def test_a_command_that_needs_weights_says_that_an_export_has_none(encoder, tmp_path, run_here):
    files = f"--input_file={encoder}/texts.txt", f"--output_file={tmp_path}/features.jsonl"
    code, printed = run_here(extract_features, f"--init_checkpoint={encoder}/export", *files)
    assert (code, printed.err.count("\n")) == (1, 1)
    assert "an export, which has the network only, and no checkpoint that can be read. Give the folder" in printed.err


def test_the_signature_of_a_cross_encoder_scores_pairs(tmp_path):
    model = make_model("cross-encoder")
    write_portable(model, tmp_path / "export", "onnx")
    found = load(tmp_path / "export").signatures["serving_default"](text=FULL_TEXTS, text_b=FULL_TEXTS)
    np.testing.assert_allclose(found["score"], model.predict((FULL_TEXTS, FULL_TEXTS), verbose=0), atol=1e-5)


@pytest.mark.parametrize("format", ["onnx", pytest.param("litert", marks=pytest.mark.slow)])
def test_a_classifier_of_pairs_takes_two_texts_as_its_saved_model(format, served, tmp_path):
    model, _ = served[0]["several"]
    model.export_for_serving(tmp_path / "export", format=format, text_pairs=True)
    texts = {"text": ["the fox", "a dog", "the lazy fox"], "text_b": ["jumped", "", "over a dog"]}
    expected = load(served[1]["several"]).signatures["serving_default"](**texts)
    loaded = load(tmp_path / "export")
    found = loaded.signatures["serving_default"](**texts)
    assert sorted(found) == sorted(expected)
    np.testing.assert_allclose(found["probabilities"], expected["probabilities"], atol=1e-5)
    assert found["is_given"].tolist() == expected["is_given"].tolist()
    with pytest.raises(InputError, match=r"one or more: text \[N\], text_b \[N\]. Rec.*: text"):
        loaded.signatures["serving_default"](text=["a"])


def test_only_classifiers_choose_how_many_texts_they_take(tmp_path):
    with pytest.raises(InputError, match="text_pairs is for classifiers in the format onnx. Received: TokenClassifier"):
        make_model("tagger").export_for_serving(tmp_path / "export", format="onnx", text_pairs=True)
    assert not list(tmp_path.iterdir())


def test_the_server_refuses_what_it_cannot_serve(classifier, exports, monkeypatch, refused_here):
    with pytest.raises(InputError, match="takes strings in N rows, one or more"):
        load(classifier / "export").signatures["serving_default"](text=[])
    monkeypatch.delattr(LoadedTokenClassifier, "serve")
    printed = refused_here(serve, exports["tagger"][0])
    assert "a TokenClassifier, which the server takes as a SavedModel only" in printed.err
