"""Record batches of texts become record batches of vectors and answers, the same as `encode` and `predict` return."""

import functools
import types

import numpy as np
import pytest
from scipy.sparse import csr_array

from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.answers import LabelAnswer, LabelsAnswer
from keras_bert.tasks.question_answering.answers import Candidate, FoundAnswer
from keras_bert.tasks.tagging.answers import EntityAnswer, TagsAnswer
from keras_bert.tasks.text_to_text.answers import WrittenText

pa = pytest.importorskip("pyarrow")
from keras_bert.serving.answer_batches import answer_batches, answer_facts  # noqa: E402

TOKENS = [np.array([[1, 2], [3, 4]], np.float32), np.array([[5, 6]], np.float32)]
SPARSE = csr_array(np.array([[0, 0.5, 0, 2], [0, 0, 0, 0]], np.float32))
NBEST = (Candidate("b", 1, 2, 0.75, 3.0, 2.0), Candidate("", None, None, 0.25, 0.0, 0.5))
# A name -> what a model returns for two texts, the types of the columns, and their values.
ANSWERS = {
    "a label": (
        [LabelAnswer("yes", 0.75, {"yes": 0.75, "no": 0.25}), LabelAnswer("no", 0.5, {"yes": 0.5, "no": 0.5})],
        {"label": "string", "probability": "double", "probabilities": "map<string, double>"},
        {"label": ["yes", "no"], "probabilities": [[("yes", 0.75), ("no", 0.25)], [("yes", 0.5), ("no", 0.5)]]},
    ),
    "several labels": (
        [LabelsAnswer((), {"a": 0.1}), LabelsAnswer(("a",), {"a": 0.9})],
        {"labels": "list<item: string>", "probabilities": "map<string, double>"},
        {"labels": [[], ["a"]]},
    ),
    "scores": (np.array([0.5, 2], np.float32), {"score": "float"}, {"score": [0.5, 2]}),
    "entities": (
        [
            TagsAnswer((), ("a",), ["O"], (0.5,), np.zeros((1, 2))),
            TagsAnswer((EntityAnswer("LOC", 3, 8, "Paris", 0.75),), ("in", "Paris"), ["O", "B-LOC"], (1.0, 0.5), None),
        ],
        {
            "entities": "list<item: struct<type: string, start: int64, end: int64, text: string, probability: double>>",
            "words": "list<item: string>",
            "tags": "list<item: string>",
            "probabilities": "list<item: double>",
        },
        {
            "entities": [[], [{"type": "LOC", "start": 3, "end": 8, "text": "Paris", "probability": 0.75}]],
            "tags": [["O"], ["O", "B-LOC"]],
        },
    ),
    "spans": (
        [FoundAnswer("b", 1, 2, 0.75, -1.5, NBEST), FoundAnswer("", None, None, 1.0)],
        {
            "text": "string",
            "start": "int64",
            "end": "int64",
            "probability": "double",
            "null_score_difference": "double",
        },
        {"start": [1, None], "null_score_difference": [-1.5, None]},
    ),
    "written texts": (
        [WrittenText("a", 0.5, (("a", 0.5), ("b", 0.25))), WrittenText("c", 1.0, ())],
        {"text": "string", "score": "double", "alternatives": "list<item: struct<0: string, 1: double>>"},
        {"alternatives": [[{"0": "a", "1": 0.5}, {"0": "b", "1": 0.25}], []]},
    ),
}
VECTORS = {
    "dense": (
        np.array([[1, 2, 3], [4, 5, 6]], np.float32),
        {"vector": "fixed_size_list<item: float>[3]"},
        {"vector": [[1, 2, 3], [4, 5, 6]]},
    ),
    "sparse": (
        SPARSE,
        {"indices": "list<item: int32>", "values": "list<item: float>"},
        {"indices": [[1, 3], []], "values": [[0.5, 2], []]},
    ),
    "tokens": (
        TOKENS,
        {"vectors": "list<item: fixed_size_list<item: float>[2]>"},
        {"vectors": [[[1, 2], [3, 4]], [[5, 6]]]},
    ),
}


def batch_of(**columns):
    return pa.record_batch({"id": ["x", "y"], "text": ["one", "two"], **columns})


def model_of(found, makes_vectors=False, **attributes):
    """A model that returns `found` and remembers how it was called."""
    model = types.SimpleNamespace(kind="Kind", fingerprint="ab", **attributes)

    def called(texts, **options):
        model.call = texts, options
        return found

    setattr(model, "encode" if makes_vectors else "predict", called)
    if makes_vectors:
        model.prompt_for = None
    return model


@pytest.mark.parametrize("name", [*ANSWERS, *VECTORS])
def test_columns_have_the_types_and_values_of_the_answers(name):
    found, kinds, values = {**ANSWERS, **VECTORS}[name]
    batches = [batch_of().slice(0, 0), batch_of()]
    (batch,) = answer_batches(model_of(found, name in VECTORS), batches, columns=["id"])
    assert {field.name: str(field.type) for field in batch.schema if field.name != "nbest"} == {"id": "string", **kinds}
    for column, expected in values.items():
        assert batch[column].to_pylist() == expected
    assert batch.schema.metadata == {b"model_sha256": b"ab", b"model_kind": b"Kind"}


def test_labels_that_are_numbers_stay_numbers():
    answers = [LabelAnswer(10, 1.0, {10: 1.0}), LabelAnswer(20, 1.0, {20: 1.0})]
    (batch,) = answer_batches(model_of(answers, label_type="int"), [batch_of()])
    assert batch["label"].to_pylist() == [10, 20]
    assert batch["probabilities"].to_pylist() == [[("10", 1.0)], [("20", 1.0)]]


def test_all_columns_stay_and_several_are_the_examples():
    model = model_of(np.zeros(2, np.float32))
    (batch,) = answer_batches(model, [batch_of(other=["a", "b"])], text_columns=["text", "other"], batch_size=8)
    assert batch.schema.names == ["id", "text", "other", "score"]
    assert model.call == ((["one", "two"], ["a", "b"]), {"verbose": 0, "batch_size": 8})
    assert batch.schema.metadata[b"batch_size"] == b"8"


class Searches:
    """The methods of a search model, which tell how they were called."""

    kind, fingerprint, normalize, prompts = "Kind", "ab", False, {"query": "q: ", "title": "t: "}

    def prompt(self, name=None):
        return self.prompts.get(name, "")

    def prompt_for(self, role):
        return role if role in self.prompts else None

    def _found(self, texts, what, **options):
        del options["on_progress"]
        self.call = what, options
        return np.zeros((len(texts), 2), np.float32)


class Dense(Searches):
    def encode(self, texts, **options):
        return self._found(texts, "encode", **options)


class Tokens(Searches):
    def encode_query(self, texts, **options):
        return self._found(texts, "query", **options)

    def encode_document(self, texts, **options):
        return self._found(texts, "document", **options)


class Sparse(Tokens, Dense):
    pass


@pytest.mark.parametrize(
    ("model", "given", "call", "prompt"),
    [
        (Dense(), {}, ("encode", {}), ""),
        (Dense(), {"role": "query"}, ("encode", {"prompt": "query"}), "q: "),
        (Dense(), {"role": "document"}, ("encode", {"prompt": None}), ""),
        (Dense(), {"prompt": "title"}, ("encode", {"prompt": "title"}), "t: "),
        (Dense(), {"role": "query", "prompt": "title"}, ("encode", {"prompt": "title"}), "t: "),
        (Sparse(), {}, ("encode", {}), ""),
        (Sparse(), {"role": "query"}, ("query", {}), "q: "),
        (Tokens(), {}, ("document", {}), ""),
        (Tokens(), {"role": "query"}, ("query", {}), "q: "),
    ],
)
def test_the_role_selects_the_method_and_the_prompt(model, given, call, prompt):
    (batch,) = answer_batches(model, [batch_of()], **given)
    assert model.call == call
    assert batch.schema.metadata[b"prompt"].decode() == prompt
    assert batch.schema.metadata[b"normalize"] == b"False"
    assert answer_facts(model, normalize=True)[b"normalize"] == "True"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"text_columns": ["body"]}, "no column 'body'. The columns are: id, text, score"),
        ({"columns": ["year"]}, "no column 'year'"),
        ({}, "The answers have a column 'score' too"),
        ({"role": "query"}, "role is query or document, for models that make vectors"),
    ],
)
def test_what_does_not_fit_is_refused(options, message):
    with pytest.raises(InputError, match=message):
        list(answer_batches(model_of(np.zeros(2, np.float32)), [batch_of(score=[1, 2])], **options))
    with pytest.raises(InputError, match="role is query or document"):
        answer_batches(Dense(), [], role="passage")


def test_models_and_their_exports_give_what_encode_and_predict_return(tmp_path):
    from tiny_models import make_model  # only now: it needs TensorFlow

    from keras_bert.serving import load
    from keras_bert.serving.portable.folder import write_portable

    texts, batch = ["the fox", "of and the"], pa.record_batch({"text": ["the fox", "of and the"]})
    encoder = make_model("sentence encoder")
    write_portable(encoder, tmp_path / "export", "onnx")
    batches = [next(answer_batches(model, [batch])) for model in (encoder, load(tmp_path / "export", "onnxruntime"))]
    assert batches[0].schema.equals(batches[1].schema, check_metadata=True)
    for found in batches:
        np.testing.assert_allclose(found["vector"].to_pylist(), encoder.encode(texts), atol=1e-5)
    sparse, late = make_model("sparse encoder"), make_model("multi-vector encoder")
    found = next(answer_batches(sparse, [batch], role="query"))
    weights = sparse.encode_query(texts)
    assert found["indices"].flatten().to_pylist() == weights.indices.tolist()
    np.testing.assert_allclose(found["values"].flatten().to_pylist(), weights.data, atol=1e-5)
    found = next(answer_batches(late, [batch]))
    for vectors, expected in zip(found["vectors"].to_pylist(), late.encode_document(texts), strict=True):
        np.testing.assert_allclose(vectors, expected, atol=1e-5)


def test_the_fingerprint_knows_heads_labels_and_files(tmp_path):
    from tiny_models import make_model, new_model  # only now: it needs TensorFlow

    from keras_bert.checkpoints.model_fingerprint import model_fingerprint

    answers_fingerprint = functools.partial(model_fingerprint, of_answers=True)
    encoder = make_model("sentence encoder")
    assert answers_fingerprint(encoder) == model_fingerprint(encoder)
    model, same = new_model("classifier"), new_model("classifier")
    same.set_weights(model.get_weights())
    assert answers_fingerprint(model) == answers_fingerprint(same)
    same.set_weights([*model.get_weights()[:-1], model.get_weights()[-1] + 1])
    assert answers_fingerprint(model) != answers_fingerprint(same)
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "model.onnx").write_bytes(b"one")
    export = types.SimpleNamespace(engine=None, path=str(tmp_path))
    before = answers_fingerprint(export)
    (tmp_path / "a" / "model.onnx").write_bytes(b"two")
    assert answers_fingerprint(export) != before
