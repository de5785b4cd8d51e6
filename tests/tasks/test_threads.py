"""One model in many threads: each call answers as it does alone."""

import random
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest
import tiny
from slow_parameters import slow_except
from tiny_models import CHOICES, MASKED_TEXTS, SECOND_TEXTS, TEXTS, assert_same_answers, make_model, new_model

from keras_bert import generate_text, sentence_embeddings
from keras_bert.accelerate import traced_functions
from keras_bert.accelerate.traced_functions import traced
from keras_bert.serving import load
from keras_bert.tasks import prediction
from keras_bert.tasks.classification.scores import regression_scores
from keras_bert.tasks.masked_lm.mask_filling import fill_masks, pseudo_perplexity
from keras_bert.tasks.text_rows import tokenizer_of
from keras_bert.tokenization import token_lists
from keras_bert.tokenization.token_lists import FastForm
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

MASKED = [MASKED_TEXTS[number] for number in (0, 1, 4)]


def in_threads(calls: list, seconds: float = 1e-6) -> list:
    """Returns the results of all functions, called by 32 threads that Python changes after so many seconds."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        with ThreadPoolExecutor(32) as pool:
            return list(pool.map(lambda call: call(), calls))
    finally:
        sys.setswitchinterval(interval)


# Name of a model -> functions of the model, a batch size and where the texts begin.
CALLS = {
    "classifier": [
        lambda model, size, first: model.predict(TEXTS[first:6], size, max_seq_length=20 + first),
        lambda model, size, first: model.predict((TEXTS[first:6], SECOND_TEXTS[first:6]), size, top_k=2),
        lambda model, size, first: model.predict_proba(TEXTS[first:6], size),
    ],
    "tagger": [lambda model, size, first: model.predict([text.split() for text in TEXTS[first:4]], size)],
    "span": [lambda model, size, first: model.predict((SECOND_TEXTS[first:6], TEXTS[first:6]), size)],
    "choice": [lambda model, size, first: model.predict((TEXTS[first : first + 3], CHOICES), size)],
    "cross-encoder": [
        lambda model, size, first: model.rank(TEXTS[first], SECOND_TEXTS[first:6], top_k=size, batch_size=size)
    ],
    "masked words": [
        lambda model, size, first: model.predict(MASKED, size, top_k=1 + first),
        lambda model, size, first: fill_masks(model, MASKED, top_k=1 + first, joint=size > 1, batch_size=size),
        lambda model, size, first: pseudo_perplexity(model, TEXTS[first:4], batch_size=size),
        lambda model, size, first: [
            text.text for text in generate_text(model, "the fox", length=1 + first, seed=size, batch_size=size)
        ],
    ],
    "sentence encoder": [
        lambda model, size, first: model.encode(TEXTS[first:6], batch_size=size, dimensions=1 + first, normalize=True),
        lambda model, size, first: model.encode(TEXTS[first:6], batch_size=size, prompt="query"),
        lambda model, size, first: sentence_embeddings(
            model, TEXTS[first:6], batch_size=size, max_seq_length=9 + first
        ),
    ],
    "encoder": [
        lambda model, size, first: sentence_embeddings(
            model, TEXTS[first:6], batch_size=size, pooling=("mean", "cls", "max")[first]
        )
    ],
}


def assert_threads_do_not_meet(model, other, calls: list) -> None:
    """Checks calls of `other`, in threads, against the same calls of an equal model that nothing else asks."""
    arguments = [(call, size, first) for call in calls for size in (1, 3) for first in range(3)]
    expected = [call(model, size, first) for call, size, first in arguments]
    print("alone", file=sys.stderr)
    order = [*range(len(arguments))] * (1 + 32 // len(arguments))
    random.Random(0).shuffle(order)
    found = in_threads([lambda one=arguments[number]: one[0](other, *one[1:]) for number in order], 1e-4)
    for number, result in zip(order, found, strict=True):
        assert_same_answers(result, expected[number], 1e-4)


@pytest.mark.parametrize("name", slow_except(["cross-encoder"], CALLS))
def test_threads_get_the_answers_that_each_call_has_alone(name):
    assert_threads_do_not_meet(make_model(name), new_model(name), CALLS[name])


@pytest.mark.parametrize(
    ("name", "runtime"),
    [
        *[(name, "onnxruntime") for name in ("classifier", "tagger", "span", "choice", "cross-encoder")],
        ("sentence encoder", "openvino"),
        pytest.param("classifier", "litert", marks=pytest.mark.slow),
    ],
)
def test_threads_share_a_loaded_export_and_show_no_bars(name, runtime, tmp_path, capfd, monkeypatch):
    make_model(name).export_for_serving(tmp_path / "export", format="litert" if runtime == "litert" else "onnx")
    loaded = load(tmp_path / "export", runtime=runtime)
    monkeypatch.setattr(prediction, "_SECONDS_WITHOUT_PROGRESS", 0)
    assert_threads_do_not_meet(loaded, loaded, CALLS[name][:2])
    in_threads([lambda number=number: CALLS[name][0](loaded, 1, number % 3) for number in range(64)], 1e-4)
    assert "%|" not in capfd.readouterr().err.rpartition("alone\n")[2]


def test_bars_of_keras_are_shown_in_the_main_thread_only(capfd):
    model, ids = make_model("first token"), np.full((2, 4), 7)
    features = {"input_ids": ids, "input_mask": ids * 0 + 1, "segment_ids": ids * 0}
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(model.predict, features).result()
    assert capfd.readouterr().out == ""
    assert_same_answers(model.predict(features), result)
    assert "1/1" in capfd.readouterr().out


def test_a_model_that_forgets_functions_gives_each_thread_its_own():
    model = make_model("classifier")
    found = in_threads(
        [lambda number=number: traced(model, number % 20, lambda: number % 20) for number in range(2000)]
    )
    assert [function.python_function() for function in found] == [number % 20 for number in range(2000)]


def test_threads_with_more_vocabularies_than_are_kept_get_their_own_tokenizers():
    vocabularies = [tiny.vocabulary(f"the fox{number}") for number in range(9)]
    models = [SimpleNamespace(tokenizer=WordPieceTokenizer(vocabulary, True)) for vocabulary in vocabularies]

    def vocabulary_of(number):
        return tokenizer_of(models[number]).vocabulary.tokens

    numbers = [number % 9 for number in range(2000)]
    found = in_threads([lambda number=number: vocabulary_of(number) for number in numbers])
    assert found == [vocabularies[number].tokens for number in numbers]


def test_threads_wait_for_one_graph_of_a_tokenizer(monkeypatch):
    made = []

    class Slow:
        def graph(self):
            made.append(1)
            time.sleep(0.05)
            return self

    form = FastForm(Slow())
    monkeypatch.setattr(token_lists, "_WORTH_A_GRAPH", 0)
    assert len(set(in_threads([lambda: form._form_for(["x" * 5000])] * 32))) == len(made) == 1


def test_scores_in_threads_leave_the_warnings_of_the_process_alone():
    before, numbers = list(warnings.filters), np.arange(9.0)
    seen = in_threads([lambda: (regression_scores(numbers, numbers * 2)["pearson"], warnings.filters[:])] * 500)
    assert [score for score, _ in seen] == pytest.approx([1] * 500)
    assert all(filters == before for _, filters in seen)
    assert list(warnings.filters) == before


def test_attributes_that_another_thread_adds_do_not_disturb_the_first_call(monkeypatch):
    model = new_model("classifier")

    class AddsAnAttribute(frozenset):
        def __contains__(self, name):
            vars(model)[f"added_beside_{name}"] = None  # as the first trace of another thread
            return super().__contains__(name)

    monkeypatch.setattr(traced_functions, "_NOT_FIXED", AddsAnAttribute(traced_functions._NOT_FIXED))
    assert len(model.predict(["the fox"])) == 1
