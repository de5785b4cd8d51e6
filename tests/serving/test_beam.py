"""Exports in Apache Beam. `make test-beam` runs these tests in an environment that has it."""

import subprocess
import sys

import numpy as np
import pytest
from places import PROJECT
from portable_answers import CONTEXTS, QUESTIONS, TEXTS
from small_corpora import contents
from tiny_models import assert_same_answers, make_model

import keras_bert
from keras_bert import InputError
from keras_bert.program.table_parts import TableParts
from keras_bert.serving import load
from run_scripts import embed_sentences

beam = pytest.importorskip("apache_beam", reason="apache_beam is not installed: make test-beam")

from apache_beam.ml.inference.base import KeyedModelHandler, RunInference  # noqa: E402
from apache_beam.ml.rag.types import EmbeddableItem  # noqa: E402
from apache_beam.ml.transforms.base import MLTransform  # noqa: E402

from data_prep.finetuning.text_batches import TextTable  # noqa: E402
from data_prep.pretraining.beam_runner import new_pipeline, wait_for  # noqa: E402
from keras_bert.serving.beam import LoadedModelHandler, TextEmbeddings  # noqa: E402


@pytest.fixture(scope="module")
def exports(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    for name in ("sentence encoder", "classifier", "span"):
        make_model(name).export_for_serving(folder / name, format="onnx")
    make_model("sparse encoder").export_for_serving(folder / "sparse encoder")  # a SavedModel
    return folder


RESULTS = []


def keep(result):
    RESULTS.append(result)  # a list of the module: Beam pickles lists of functions


def results_of(elements, transform, *beam_options):
    """Returns what a transform makes of elements, which come in two bundles."""
    RESULTS.clear()
    pipeline = new_pipeline(beam_options)
    bundles = [pipeline | f"Part{n}" >> beam.Create(elements[n::2]) for n in range(2)]
    _ = bundles | beam.Flatten() | transform | beam.Map(keep)
    wait_for(pipeline)
    return [*RESULTS]


class FailsOnce(LoadedModelHandler):
    """Fails after it has computed the second batch."""

    batches: list = []

    def run_inference(self, batch, model, inference_args=None):
        results = super().run_inference(batch, model, inference_args)
        self.batches.append(len(batch))
        if len(self.batches) == 2:
            raise OSError("the machine was taken away")
        return results


def test_two_bundles_and_a_retried_one_give_the_vectors_of_encode_once(exports):
    texts = [f"{text} {number}" for number, text in enumerate(TEXTS * 4)]
    handler = FailsOnce(exports / "sentence encoder", "encode", min_batch_size=5, max_batch_size=5)
    run = RunInference(KeyedModelHandler(handler))
    found = results_of(list(enumerate(texts)), run, "--runner=BundleBasedDirectRunner")
    # 14 rows a bundle; the first batches of the failed one are computed again.
    assert sorted(number for number, _ in found) == list(range(len(texts)))
    assert sum(FailsOnce.batches) > len(texts)
    vectors = np.array([result.inference for _, result in sorted(found, key=lambda one: one[0])])
    np.testing.assert_allclose(vectors, load(exports / "sentence encoder").encode(texts), rtol=0, atol=1e-6)
    assert {result.example for _, result in found} == set(texts)
    assert {result.model_id for _, result in found} == {str(exports / "sentence encoder")}


def test_answers_are_those_of_the_loaded_export(exports):
    pairs = list(zip(QUESTIONS, CONTEXTS, strict=True))
    for name, method, elements, options in (
        ("classifier", "predict", TEXTS, {}),
        ("span", "predict", pairs, {"max_answer_length": 3}),
        ("sentence encoder", "encode", TEXTS, {"prompt": "query", "normalize": True}),
    ):
        handler = LoadedModelHandler(exports / name, method, load_model_args={"runtime": "onnxruntime"})
        run = RunInference(handler, inference_args=options)
        found = {element: answer for element, answer, _ in results_of(elements, run)}
        texts = (QUESTIONS, CONTEXTS) if name == "span" else elements
        expected = getattr(load(exports / name, runtime="onnxruntime"), method)(texts, **options)
        assert_same_answers([found[element] for element in elements], list(expected))


def test_sparse_vectors_are_rows(exports):
    handler = LoadedModelHandler(exports / "sparse encoder", "encode_query")
    found = {text: vector.toarray() for text, vector, _ in results_of(TEXTS, RunInference(handler))}
    expected = load(exports / "sparse encoder").encode_query(TEXTS).toarray()
    np.testing.assert_allclose([found[text] for text in TEXTS], expected, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:keys will default to True in jsonpickle:DeprecationWarning")  # Beam writes with it
def test_columns_and_chunks_get_vectors(exports, tmp_path):
    path = exports / "sentence encoder"
    vectors = load(path).encode(TEXTS, prompt="query")
    rows = [{"id": number, "text": text} for number, text in enumerate(TEXTS)]
    embeddings = TextEmbeddings(path, ["text"], inference_args={"prompt": "query"}, max_batch_size=3, min_batch_size=1)
    for transform, elements in (
        (MLTransform(write_artifact_location=str(tmp_path / "a")).with_transform(embeddings), rows),
        (MLTransform(read_artifact_location=str(tmp_path / "a")), [beam.Row(**row) for row in rows]),
    ):
        found = [one if isinstance(one, dict) else one._asdict() for one in results_of(elements, transform)]
        found = {one["id"]: one["text"] for one in found}
        np.testing.assert_allclose([found[row["id"]] for row in rows], vectors, rtol=0, atol=1e-6)
    first = [dict(rows[0])]
    embeddings.get_model_handler().run_inference(first, load(path))
    assert first == rows[:1], "Beam forbids that its elements change"
    chunks = [EmbeddableItem.from_text(text, index=number) for number, text in enumerate(TEXTS)]
    transform = MLTransform(write_artifact_location=str(tmp_path / "b")).with_transform(TextEmbeddings(path))
    found = {chunk.index: chunk.dense_embedding for chunk in results_of(chunks, transform)}
    np.testing.assert_allclose([found[n] for n in range(len(TEXTS))], load(path).encode(TEXTS), rtol=0, atol=1e-6)


def test_what_cannot_run_is_refused_when_the_handler_is_made(exports):
    path = exports / "sentence encoder"
    for arguments, options, message in (
        ((exports / "none",), {}, "There is no folder .*none"),
        ((exports,), {}, "is no export"),
        ((path, "decode"), {}, "the model has no method 'decode'. Give 'predict' or 'encode'"),
        ((path, "_check"), {}, "the model has no method '_check'"),
        ((path, "kind"), {}, "the model has no method 'kind'"),
        ((path,), {"batch_size": 3}, "ModelHandler has no option batch_size. It has: min_batch_size"),
        ((path,), {"load_model_args": {"threads": 1}}, "load has no option threads. It has: runtime"),
        ((path,), {"load_model_args": {"num_threads": 0}}, "num_threads must be .* at least 1"),
    ):
        with pytest.raises(InputError, match=message):
            LoadedModelHandler(*arguments, **options)
    with pytest.raises(InputError, match="does not make one vector for each text. It is a LoadedSparseEncoder"):
        TextEmbeddings(exports / "sparse encoder")
    with pytest.raises(InputError, match="encode has no option top_k. It has: normalize"):
        results_of(TEXTS, RunInference(LoadedModelHandler(path, "encode"), inference_args={"top_k": 3}))


def test_a_worker_refuses_another_version_and_what_was_not_checked_before(exports, monkeypatch):
    handler = LoadedModelHandler(exports / "sentence encoder", "decode", is_here=False)
    with pytest.raises(InputError, match="the model has no method 'decode'"):
        results_of(TEXTS, RunInference(handler))
    monkeypatch.setattr(keras_bert, "__version__", "9.9")
    with pytest.raises(InputError, match="made with version 0.* of keras_bert, and this worker has 9.9. Install"):
        results_of(TEXTS, RunInference(handler))


def test_batches_and_shared_models_are_as_asked(exports):
    path = exports / "classifier"
    assert LoadedModelHandler(path).batch_elements_kwargs() == {"min_batch_size": 32, "max_batch_size": 1024}
    assert LoadedModelHandler(path, max_batch_size=64).batch_elements_kwargs()["max_batch_size"] == 64
    shared = [LoadedModelHandler(path, large_model=large).share_model_across_processes() for large in (False, True)]
    assert shared == [False, True]


def test_workers_need_neither_tensorflow_nor_keras(exports):
    code = f"""
import sys, apache_beam as beam
from apache_beam.ml.inference.base import RunInference
from data_prep.pretraining.beam_runner import new_pipeline
from keras_bert.serving.beam import LoadedModelHandler
with new_pipeline([]) as pipeline:
    handler = LoadedModelHandler({str(exports / "sentence encoder")!r}, "encode", large_model=True)
    pipeline | beam.Create({TEXTS!r}) | RunInference(handler) | beam.Map(lambda one: print(one.inference.shape))
print({{"tensorflow", "keras"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=PROJECT, capture_output=True, text=True)
    assert done.stdout == "(5,)\n" * len(TEXTS) + "set()\n", done.stderr[-3000:]


@pytest.fixture
def table(exports, tmp_path):
    """The flags of a command about 11 texts, of which a part holds 3, and a folder for the parts of a local run."""
    lines = [f"{number},the fox {number} of {number % 3}" for number in range(11)]
    (tmp_path / "texts.csv").write_text("\n".join(["key,text", *lines]))
    flags = [f"--init_checkpoint={exports / 'sentence encoder'}", f"--input_file={tmp_path / 'texts.csv'}"]
    return [*flags, "--id_column=key", "--rows_per_part=3", "--role=query", "--runtime=onnxruntime"]


def test_a_pipeline_writes_the_parts_of_the_command_and_a_repeated_bundle_none_again(
    table, tmp_path, done_here, monkeypatch
):
    done_here(embed_sentences, *table, f"--output_dir={tmp_path / 'local'}")
    write, written = TableParts.write, []

    def fails_once(parts, number, batches):
        write(parts, number, batches)
        written.append(number)
        if len(written) == 2:
            raise OSError("the machine was taken away")

    monkeypatch.setattr(TableParts, "write", fails_once)
    flags = [*table, f"--output_dir={tmp_path / 'beam'}", "--"]
    done_here(embed_sentences, *flags, "--runner=BundleBasedDirectRunner")
    assert sorted(written) == [0, 1, 2, 3]
    assert contents(tmp_path / "local") == contents(tmp_path / "beam")
    (tmp_path / "beam" / "part-00002-of-00004.arrow").unlink()
    done_here(embed_sentences, *flags, "--runner=DirectRunner")
    assert sorted(written) == [0, 1, 2, 2, 3]
    assert contents(tmp_path / "local") == contents(tmp_path / "beam")


def test_a_worker_with_another_model_writes_nothing(table, tmp_path, refused_here, monkeypatch):
    from run_scripts import beam_parts

    facts = iter([{b"model_sha256": "1"}, {b"model_sha256": "2"}])
    monkeypatch.setattr(beam_parts, "answer_facts", lambda *arguments, **options: next(facts))
    output = refused_here(embed_sentences, *table, f"--output_dir={tmp_path / 'parts'}", "--", "--runner=DirectRunner")
    assert "is another model on a worker than here. Give all machines the same folder" in output.err
    assert "_parts.json" in contents(tmp_path / "parts")
    assert not any(name.startswith("part-") for name in contents(tmp_path / "parts"))


def test_a_table_that_lost_rows_since_it_was_checked_is_refused(table, tmp_path, refused_here, monkeypatch):
    batches = TextTable.batches
    for kept, message in ((10, "The table has fewer rows than when"), (9, "ended as DONE without 1 parts. Run the")):
        monkeypatch.setattr(TextTable, "batches", lambda self, kept=kept: (one[:kept] for one in batches(self)))
        output = refused_here(
            embed_sentences, *table, f"--output_dir={tmp_path / 'parts'}", "--", "--runner=FnApiRunner"
        )
        assert message in output.err
