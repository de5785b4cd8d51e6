"""The exported signature `explain` gives the explanations of `model.explain`."""

import numpy as np
import pytest
import tensorflow as tf
from family_shapes import config_of
from served_models import CONFIG, SECOND_TEXTS, TEXTS, VOCABULARY

from keras_bert.models.sequence_classifier import SequenceClassifier
from keras_bert.models.token_classifier import TokenClassifier
from keras_bert.program.errors import InputError


def made(config, **arguments):
    model = SequenceClassifier(config, **arguments)
    model.vocabulary = VOCABULARY
    return model


def check(model, path, x, inputs, **options):
    loaded = tf.saved_model.load(model.export_for_serving(path, explain=True, **options))
    signature = loaded.signatures["explain"]
    found = {name: value.numpy() for name, value in signature(**{k: tf.constant(v) for k, v in inputs.items()}).items()}
    for row, explanation in enumerate(model.explain(x, max_seq_length=options.get("max_seq_length"))):
        tokens = [token.decode() for token in found["tokens"][row] if token]
        assert tokens == [token.token for token in explanation.tokens]
        scores = [token.score for token in explanation.tokens]
        np.testing.assert_allclose(found["scores"][row][: len(scores)], scores, rtol=0, atol=1e-4)
        assert not found["scores"][row][len(scores) :].any()
        assert found["label"][row].decode() == explanation.target
        outputs = [found["output"][row], found["baseline_output"][row]]
        assert outputs == pytest.approx([explanation.output, explanation.baseline_output], abs=1e-4)
        for column, token in enumerate(explanation.tokens):
            start, end, text = (int(found[name][row][column]) for name in ("starts", "ends", "texts"))
            if token.text is None:
                assert (start, end, text) == (-1, -1, -1)
            else:
                whole = explanation.texts[text]
                assert whole.encode()[start:end].decode() == whole[token.start : token.end]
    return signature


def test_texts_of_any_length_are_explained_as_in_python(tmp_path):
    model = made(CONFIG, labels=["animal", "none", "größer"])
    texts = [text for text in TEXTS[:7] if text]
    signature = check(model, tmp_path / "single", texts, {"text": texts}, max_seq_length=40)
    assert signature(text=tf.constant([], tf.string))["scores"].shape == (0, 1)


def test_pairs_are_explained_as_in_python(tmp_path):
    model = made(CONFIG, problem_type="regression")
    x = (TEXTS[:3], SECOND_TEXTS[:3])
    check(model, tmp_path / "pairs", x, {"text": x[0], "text_b": x[1]}, text_pairs=True, core_operations=True)


@pytest.mark.slow
@pytest.mark.parametrize("family", ["roberta", "albert", "modernbert", "longformer"])
def test_families_are_explained_as_in_python(tmp_path, family):
    fields = ("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "initializer_range")
    shape = {name: getattr(CONFIG, name) for name in fields}
    config = config_of(family, **shape, vocab_size=len(VOCABULARY), max_position_embeddings=48)
    check(made(config, labels=["a", "b"]), tmp_path / family, TEXTS[:3], {"text": TEXTS[:3]})


def test_what_has_no_such_signature_is_refused(tmp_path):
    model = TokenClassifier(CONFIG, labels=["O", "B-PER"])
    model.vocabulary = VOCABULARY
    with pytest.raises(InputError, match="explain is for classifiers of texts and of pairs. Received: TokenClassifier"):
        model.export_for_serving(tmp_path / "tagger", explain=True)
    with pytest.raises(InputError, match="needs weights that are not int8"):
        made(CONFIG, labels=["a", "b"]).export_for_serving(tmp_path / "int8", explain=True, weights="int8")
    with pytest.raises(InputError, match="texts in one row. The model has a doc_stride"):
        made(CONFIG, labels=["a", "b"], doc_stride=9).export_for_serving(tmp_path / "windows", explain=True)
