"""Explanations: completeness for every task and family, the formulas by hand, places of tokens, and the page."""

import contextlib
import html.parser
import re

import numpy as np
import pytest
import tensorflow as tf
import tiny
from places import DOCS
from slow_parameters import slow_except
from tiny_families import config_of
from tiny_models import CHOICES, CONFIG, SECOND_TEXTS, TEXTS, VOCABULARY

from keras_bert import CrossEncoder, InputError, MaskedLM, MultipleChoice, SpanClassifier, TokenClassifier, fill_masks
from keras_bert.models.encoder_base import encoder_of
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.classification.sentence_classifier import SentenceClassifier
from keras_bert.tasks.explanation.explaining import Explanation, Explanations, TokenScore, quadrature
from keras_bert.tasks.explanation.gradients import attention_rollout
from keras_bert.tasks.explanation.page import explanation_page

# Graphs cost most of the time here; tests/accelerate/test_traced_functions.py explains in graphs.
pytestmark = pytest.mark.usefixtures("without_graphs")
SIZES = "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size max_position_embeddings"
SHAPE = {name: getattr(CONFIG, name) for name in [*SIZES.split(), "initializer_range"]}


SHALLOW = CONFIG.replace(num_hidden_layers=1)


def made(model_class, config=SHALLOW, **arguments):
    return tiny.made(model_class, config, VOCABULARY, seed=1, **arguments)


@pytest.fixture(scope="module")
def classifier():
    return made(SequenceClassifier, labels=["a", "b", "c"])


def scores_of(explanation):
    return np.array([token.score for token in explanation.tokens])


def is_complete(explanation, bound=1e-3):
    assert explanation.completeness_error == pytest.approx(
        scores_of(explanation).sum() - (explanation.output - explanation.baseline_output), abs=1e-12
    )
    return abs(explanation.completeness_error) < bound


def test_scores_add_up_to_the_logit_less_that_of_the_baseline(classifier):
    (explanation,) = classifier.explain("the fox walked", "b", steps=60)
    ids = [VOCABULARY.ids[token.token] for token in explanation.tokens]
    baseline = [ids[0], *[VOCABULARY.pad_id] * (len(ids) - 2), ids[-1]]
    features = {"input_ids": tf.constant([ids, baseline])}
    features |= {"input_mask": tf.ones((2, len(ids)), "int32"), "segment_ids": tf.zeros((2, len(ids)), "int32")}
    logits = classifier(features).numpy()[:, 1]
    assert [explanation.output, explanation.baseline_output] == pytest.approx(logits.tolist(), abs=1e-4)
    assert scores_of(explanation).sum() == pytest.approx(float(logits[0] - logits[1]), abs=1e-3)
    assert explanation.target == "b"
    assert np.abs(scores_of(explanation)).max() > 0.01


def test_a_gradient_equals_the_difference_quotient(classifier):
    from keras_bert.tasks.explanation.gradients import gradient_scores

    ids = np.array([[VOCABULARY.cls_id, 7, 8, 9, VOCABULARY.sep_id]], np.int32)
    inputs = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    baseline = np.array([[VOCABULARY.cls_id, 0, 0, 0, VOCABULARY.sep_id]], np.int32)
    found, _ = gradient_scores(classifier, inputs, baseline, np.array([[2]], np.int32), np.array([0.3], np.float32))
    table = encoder_of(classifier).embeddings.token_embeddings.numpy()
    difference = table[ids] - table[baseline]
    for token in range(5):
        step = np.zeros_like(difference)
        step[:, token] = 0.02 * difference[:, token]
        logits = [
            classifier({**inputs, "token_vectors": table[baseline] + 0.3 * difference + sign * step}).numpy()[0, 2]
            for sign in (1, -1)
        ]
        assert found.numpy()[0, token] == pytest.approx((logits[0] - logits[1]) / 0.04, abs=2e-2, rel=2e-2)


TASKS = {
    "several labels": (SequenceClassifier, {"labels": ["a", "b"], "problem_type": "multi_label"}, TEXTS[:2], ["b", 0]),
    "pairs": (
        SequenceClassifier,
        {"labels": ["score"], "problem_type": "regression"},
        (TEXTS[:2], SECOND_TEXTS[:2]),
        None,
    ),
    "windows": (SequenceClassifier, {"labels": ["a", "b"], "doc_stride": 20}, [TEXTS[0] * 2], None),
    "sentences": (SentenceClassifier, {"labels": ["a", "b"]}, TEXTS[:2], None),
    "ranking": (CrossEncoder, {}, (TEXTS[:2], SECOND_TEXTS[:2]), None),
    "choices": (MultipleChoice, {}, (["the fox"] * 2, CHOICES[::2]), [2, None]),
    "tags": (TokenClassifier, {"labels": ["O", "B-PER", "I-PER"]}, [TEXTS[0], ["fox", "Tuesday"]], [(3, "O"), None]),
    "answers": (SpanClassifier, {"doc_stride": 8}, (["who?"] * 3, [TEXTS[0]] * 3), [(4, 11), "", None]),
}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_explains_its_answers(name):
    model_class, arguments, x, targets = TASKS[name]
    model = made(model_class, **arguments)
    for explanation in model.explain(x, targets):
        assert is_complete(explanation)
        for token in explanation.tokens:
            if token.text is not None and token.token.isascii() and name != "tags" and token.token != "[UNK]":
                text = explanation.texts[token.text]
                assert text[token.start : token.end].lower() == token.token.removeprefix("##")
                assert token.word.lower().find(token.token.removeprefix("##")) >= 0
    for explanation in model.explain(x, targets, method="attention_rollout"):
        assert scores_of(explanation).sum() == pytest.approx(1, abs=1e-5)
        assert explanation.output is None


def test_a_word_with_more_pieces_than_a_row_does_not_move_the_others():
    model = made(TokenClassifier, labels=["O", "B-PER", "I-PER"])
    (explanation,) = model.explain([["fox", "abcdefgh", "of"]], [(0, "O")], max_seq_length=6, steps=2)
    tokens = [token for token in explanation.tokens if token.text is not None]
    shown = [(token.token, explanation.texts[0][token.start : token.end]) for token in tokens]
    assert shown == [("fox", "fox"), ("[UNK]", "abcdefgh"), ("of", "of")]


@pytest.mark.parametrize("family", ["bert", "xlnet"])
def test_a_masked_word_is_explained(family):
    model = made(MaskedLM, SHALLOW if family == "bert" else FAMILIES[family])
    text = "the [MASK] fox and the [MASK]"
    likeliest, fox = model.explain([text, text], [None, "fox"], steps=60)
    (filled,) = fill_masks(model, text, top_k=len(VOCABULARY))
    probabilities = {fill.token: fill.score for fill in filled.masks[0].fills}
    assert (likeliest.target, fox.target) == (filled.masks[0].fills[0].token, "fox")
    ratio = probabilities[likeliest.target] / probabilities["fox"]
    assert np.exp(likeliest.output - fox.output) == pytest.approx(ratio, rel=1e-4)
    for explanation in (likeliest, fox):
        assert is_complete(explanation, 5e-3)
        shown = [(token.token, text[token.start : token.end]) for token in explanation.tokens if token.text is not None]
        assert all(token.removeprefix("##") == part for token, part in shown)
        assert [part for token, part in shown if token == "[MASK]"] == ["[MASK]"] * 2
    (rollout,) = model.explain(text, method="attention_rollout")
    assert scores_of(rollout).sum() == pytest.approx(1, abs=1e-5)
    with pytest.raises(InputError, match=r"Text 1 has no \[MASK\]"):
        model.explain("the fox")
    with pytest.raises(InputError, match="must be a single token of the vocabulary"):
        model.explain(text, "foxes and dogs")


def test_the_explained_output_is_the_models_own():
    model = made(SequenceClassifier, labels=["a", "b"], doc_stride=20)
    texts = [TEXTS[0] * 2, TEXTS[1]]
    # The outputs do not depend on the steps.
    answers, explanations = model.predict(texts), model.explain(texts, steps=2)
    both = model.explain(texts, "a", steps=2), model.explain(texts, "b", steps=2)
    for answer, explanation, a, b in zip(answers, explanations, *both, strict=True):
        assert explanation.target == answer.label
        assert 1 / (1 + np.exp(b.output - a.output)) == pytest.approx(answer.probabilities["a"], abs=1e-5)


FAMILIES = {
    "albert": CONFIG.replace(model_type="albert", embedding_size=8),
    "modernbert": config_of("modernbert", **SHAPE),
    # Without LayerNorm and with ReLU, larger weights would need many more steps.
    "mobilebert": config_of("mobilebert", **SHAPE).replace(initializer_range=0.25),
    "xlnet": config_of("xlnet", **SHAPE),
    "longformer": config_of("longformer", **SHAPE),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_kind_of_encoder_is_complete(family):
    model = made(SequenceClassifier, FAMILIES[family], labels=["a", "b"])
    assert all(is_complete(one, 5e-3) for one in model.explain("the fox walked, and", baseline="mask", steps=150))


@pytest.mark.parametrize("family", slow_except(["bert", "nomic_bert"], ["bert", "nomic_bert", *FAMILIES]))
def test_mixed_precision_is_explained_nearly_as_full_precision(family):
    config, scores = FAMILIES.get(family) or config_of(family, **SHAPE), []
    for dtype in ("float32", "mixed_bfloat16"):
        model = made(SequenceClassifier, config, labels=["a", "b"], dtype=dtype)
        scores.append(scores_of(model.explain("the fox walked", "b")[0]))
    assert np.abs(scores[0]).max() > 0.01
    np.testing.assert_allclose(scores[1], scores[0], atol=0.1 * np.abs(scores[0]).max())


def test_a_quadrature_is_exact_for_its_polynomials():
    points, weights = quadrature(5)
    assert [float(weights @ points**power) for power in range(10)] == pytest.approx([1 / n for n in range(1, 11)])
    points, weights = quadrature(101, "riemann_trapezoid")
    assert float(weights @ points) == pytest.approx(0.5 * 100 / 101)


def test_rollout_multiplies_the_layers_from_the_last_to_the_first():
    first, last = np.array([[[[0.5, 0.5], [1.0, 0.0]]]]), np.array([[[[0.0, 1.0], [1.0, 0.0]]]])
    # (A + I) / 2: [[.75, .25], [.5, .5]] and [[.5, .5], [.5, .5]].
    assert np.asarray(attention_rollout([first, last]))[0].tolist() == [[0.625, 0.375], [0.625, 0.375]]


@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        (None, {"method": "x"}, "one of integrated_gradients, attention_rollout. Received: 'x'"),
        (None, {"steps": 1}, "steps must be .* at least 2 and at most 10,000. Received: 1"),
        ("d", {}, "must be a label of the model: a, b, c. Received: 'd'"),
        (["a", "b"], {}, "1 examples need as many targets. Received: 2 targets"),
        (None, {"baseline": "zero"}, "baseline must be one of pad, mask. Received: 'zero'"),
        (None, {"step": 3}, "explain has no option step. It has: targets, method"),
    ],
)
def test_what_cannot_be_explained_is_refused(classifier, targets, options, message):
    with pytest.raises(InputError, match=message):
        classifier.explain("the fox", targets, **options)


def test_a_family_without_probabilities_for_all_pairs_has_no_rollout():
    model = made(SequenceClassifier, FAMILIES["longformer"], labels=["a", "b"])
    with pytest.raises(InputError, match="rollout needs an attention probability for each pair.*LongEncoder has none"):
        model.explain("the fox", method="attention_rollout")


def test_explaining_leaves_the_encoder_as_it_was(classifier):
    encoder = encoder_of(classifier)
    encoder.unpadded = True
    classifier.explain("the fox", method="attention_rollout")
    assert (encoder.unpadded, encoder.output_attentions) == (True, False)
    encoder.unpadded = False


def test_the_page_has_the_texts_escaped_and_nothing_from_elsewhere():
    text = "<script>x</script> & fox"
    tokens = (
        TokenScore("[CLS]", None, -1, -1, "[CLS]", -1, 0.0),
        TokenScore("<", 0, 0, 1, "<", 0, -0.5),
        TokenScore("fo", 0, 21, 23, "fox", 21, 0.75),
        TokenScore("##x", 0, 23, 24, "fox", 21, 0.25),
    )
    explanation = Explanation("a<b", tokens, (text,), "integrated_gradients", 1.0, 0.5, 0.0)
    page = explanation_page([explanation])
    # Notebooks show the same.
    assert explanation._repr_html_() == Explanations([explanation])._repr_html_()
    assert explanation._repr_html_() in page
    assert "<style" not in explanation._repr_html_()
    found = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag, attributes):
            found.append((tag, dict(attributes)))

        def handle_data(self, data):
            found.append(data)

    Reader().feed(page)
    assert {item[0] for item in found if isinstance(item, tuple)} <= set(
        ("html", "meta", "title", "style", "h1", "h2", "p", "section", "mark")
    )
    assert not any({"src", "href"} & set(item[1]) for item in found if isinstance(item, tuple))
    assert text in "".join(item for item in found if isinstance(item, str))
    marks = [item[1] for item in found if isinstance(item, tuple) and "title" in item[1]]
    assert [(mark["class"], mark["title"]) for mark in marks] == [("against", "-0.5000"), ("for", "+1.0000")]
    assert ["rgba(230,90,30,0.325)" in marks[0]["style"], "rgba(30,130,230,0.650)" in marks[1]["style"]] == [True] * 2


def test_the_scripts_of_the_page_run(tmp_path, monkeypatch, capsys):
    page = (DOCS / "explanations.md").read_text("utf-8")
    scripts = re.findall(r"```python\n(.*?)```", page, re.S)
    model = made(SequenceClassifier, labels=["bad", "good"])
    for seed in range(50):  # until the labels in the script determine a temperature, and it makes the error less
        kernel = np.random.default_rng(seed).normal(size=model.classifier.kernel.shape)
        model.classifier.kernel.assign(kernel)
        with contextlib.suppress(InputError):
            found = model.calibrate(["a dull film", "a lovely end", "what a film"], ["bad", "good", "bad"])
            if found.error_after < found.error_before:
                break
    model.classifier.kernel.assign(kernel)
    model.temperature = 1.0
    model.save_pretrained(tmp_path / "my_classifier")
    monkeypatch.chdir(tmp_path)
    for script in scripts:
        exec(compile(script, "explanations.md", "exec"), {})
    assert len(scripts) == 2
    assert "##" in capsys.readouterr().out
    assert '<mark class="' in (tmp_path / "why.html").read_text("utf-8")
    assert SequenceClassifier.from_pretrained(tmp_path / "my_calibrated_classifier").temperature != 1.0


def test_the_page_shows_no_control_characters_and_no_endless_lines():
    tokens = (TokenScore("b", 0, 5, 6, "b", 5, 1.0),)
    text = "\x1b[31mb\u202e\0\n" + "x" * 1_000_000
    page = explanation_page([Explanation("<a>\x9b" * 100_000, tokens, (text,), "gradients", None, None, None)])
    assert all(sign.isprintable() or sign == "\n" for sign in page)
    assert "<a>" not in page
    assert ">b</mark>\ufffd\ufffd\n" in page  # the marks are where they were
    assert len(page) < 20_000
