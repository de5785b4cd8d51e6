"""What loaded exports can and cannot do. The answers of every task in every format are in `test_scenarios.py`."""

import shutil

import pytest
from places import TESTS
from tiny_models import assert_same_answers, make_model

from keras_bert import InputError
from keras_bert.serving import load
from keras_bert.serving.portable.folder import write_portable


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
    model, is_pair = make_model(name), name == "cross-encoder"
    write_portable(model, tmp_path / "export", "onnx")
    loaded = load(tmp_path / "export", runtime="onnxruntime")
    for texts in ([], ["the fox", "a"]):
        generators = [(text for text in texts) for _ in range(2)]
        expected = model.predict((texts, texts) if is_pair else texts, verbose=0)
        assert len(expected) == len(texts)
        assert_same_answers(loaded.predict((texts, texts) if is_pair else texts), expected)
        assert_same_answers(loaded.predict(tuple(generators) if is_pair else generators[0]), expected)
    assert not is_pair or loaded.rank("the fox", []) == []


def test_what_a_saved_model_does_not_hold_is_refused(tmp_path, served):
    shutil.copytree(served[1]["single"], tmp_path / "1")
    with pytest.raises(InputError, match="takes single texts. Export the model with text_pairs=True"):
        load(tmp_path).predict((["a"], ["b"]))
    with pytest.raises(InputError, match="num_threads is for LiteRT and ONNX"):
        load(tmp_path, num_threads=2)
    (tmp_path / "1" / "assets" / "export.json").unlink()
    with pytest.raises(InputError, match="assets has no export.json"):
        load(tmp_path)
    with pytest.raises(InputError, match="is no export: it has neither export.json .* nor a SavedModel"):
        load(TESTS)
