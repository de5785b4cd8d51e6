"""What loaded exports can and cannot do. The answers of every task in every format are in `test_scenarios.py`."""

import functools
import shutil

import pytest
from places import TESTS
from tiny_models import assert_same_answers, make_model

from keras_bert import InputError
from keras_bert.serving import load
from keras_bert.serving.portable.folder import write_portable


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    """Function of the name of a model -> the folder of its SavedModel, which is written once."""

    @functools.cache
    def export(name: str):
        folder = tmp_path_factory.mktemp("saved_model")
        make_model(name).export_for_serving(folder)
        return folder

    return export


@pytest.mark.slow
@pytest.mark.parametrize("family", ["longformer", "big_bird"])
def test_litert_names_the_operation_that_it_lacks(family, tmp_path):
    with pytest.raises(InputError, match="LiteRT cannot hold this SequenceClassifier: it has no operation 'tf.Strided"):
        write_portable(make_model("classifier", family), tmp_path / "export", "litert")


def test_a_saved_model_of_a_masked_lm_knows_all_tokens(tmp_path):
    model = make_model("masked words")
    model.export_for_serving(tmp_path / "masked", top_k=2)
    loaded = load(tmp_path / "masked")
    assert len(loaded.predict("a [MASK]")[0].masks[0].fills) == 2
    for options in ({"top_k": 12}, {"targets": ["fox", "the"]}):
        texts = ["a [MASK] fox", "[MASK] [MASK]"]
        assert_same_answers(loaded.predict(texts, **options), model.predict(texts, **options))
    assert_same_answers(loaded.evaluate(["the fox is", "a"]), model.evaluate(["the fox is", "a"]))


@pytest.mark.parametrize("name", ["classifier", "cross-encoder", "sentence encoder"])
def test_no_text_has_no_answer_and_a_generator_is_a_list(name, tmp_path):
    model = make_model(name)
    write_portable(model, tmp_path / "export", "onnx")
    loaded = load(tmp_path / "export", runtime="onnxruntime")
    columns = 2 if name == "cross-encoder" else 1
    for texts in ([], ["the fox", "a"]):
        x = texts if columns == 1 else (texts,) * columns
        generators = [(text for text in texts) for _ in range(columns)]
        expected = model.predict(x, verbose=0)
        assert len(expected) == len(texts)
        assert_same_answers(loaded.predict(x), expected)
        assert_same_answers(loaded.predict(generators[0] if columns == 1 else tuple(generators)), expected)
    if name == "cross-encoder":
        assert loaded.rank("the fox", []) == []


def test_what_a_saved_model_does_not_hold_is_refused(tmp_path, saved_model):
    shutil.copytree(saved_model("classifier"), tmp_path / "single")
    with pytest.raises(InputError, match="takes single texts. Export the model with text_pairs=True"):
        load(tmp_path / "single").predict((["a"], ["b"]))
    with pytest.raises(InputError, match="num_threads is for LiteRT and ONNX"):
        load(tmp_path / "single", num_threads=2)
    (tmp_path / "single" / "1" / "assets" / "export.json").unlink()
    with pytest.raises(InputError, match="assets has no export.json"):
        load(tmp_path / "single")
    with pytest.raises(InputError, match="is no export: it has neither export.json .* nor a SavedModel"):
        load(TESTS)
