"""Public methods give each of many threads the answers that one thread gets."""

import concurrent.futures
import sys

import pytest
import tiny_models
from tiny_models import CHOICES, MASKED_TEXTS, SECOND_TEXTS, TEXTS, assert_same_answers, make_model

SOME, OTHERS = TEXTS[:3], TEXTS[3:5]
PAIRS = (SOME, SECOND_TEXTS[:3])
# Name of a model -> its calls, each with arguments of its own.
CALLS = {
    "classifier": [
        lambda model: model.predict(SOME, verbose=0),
        lambda model: model.predict(PAIRS, batch_size=1, verbose=0),
        lambda model: model.predict(OTHERS, verbose=1, batch_size=2),
    ],
    "several labels": [
        lambda model: model.predict(SOME, verbose=0),
        lambda model: model.predict(OTHERS, verbose=0, batch_size=1),
    ],
    "windows": [lambda model: model.predict(TEXTS[:6], verbose=0), lambda model: model.predict(TEXTS[5:8], verbose=0)],
    "tagger": [lambda model: model.predict(SOME, verbose=0), lambda model: model.predict(OTHERS, verbose=0)],
    "span": [
        lambda model: model.predict((["who is it?"] * 3, SOME), verbose=0),
        lambda model: model.predict((["the fox?"], ["fox the " * 20]), n_best_size=3, verbose=0),
    ],
    "choice": [
        lambda model: model.predict((SOME, CHOICES), verbose=0),
        lambda model: model.predict((OTHERS, CHOICES[:2]), batch_size=1, verbose=0),
    ],
    "masked words": [
        lambda model: model.predict([MASKED_TEXTS[0], MASKED_TEXTS[4]], top_k=2, verbose=0),
        lambda model: model.predict(MASKED_TEXTS[:1], top_k=5, verbose=0),
    ],
    "sentence encoder": [
        lambda model: model.encode(SOME),
        lambda model: model.encode(OTHERS, batch_size=1, dimensions=3),
        lambda model: model.encode(TEXTS[5:8], prompt="query"),
        lambda model: model.encode(SOME, normalize=False),
    ],
    "cross-encoder": [
        lambda model: model.rank("the fox", SOME),
        lambda model: model.predict((["the", "a"], ["fox", "b"]), verbose=0),
    ],
    "sparse encoder": [
        lambda model: model.encode_query(SOME).toarray(),
        lambda model: model.encode_document(OTHERS).toarray(),
    ],
    "multi-vector encoder": [lambda model: model.encode_query(SOME), lambda model: model.encode_document(OTHERS)],
    "writer": [
        lambda model: model.predict(OTHERS[:1], max_new_tokens=2, verbose=0),
        lambda model: model.predict(OTHERS, max_new_tokens=2, num_beams=2, verbose=0),
    ],
}


def from_threads(calls, model, expected, rounds, num_threads=16):
    """Runs the calls in turn from many threads, and compares each result with that of one thread."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        with concurrent.futures.ThreadPoolExecutor(num_threads) as threads:
            numbers = [number for _ in range(rounds) for number in range(len(calls))]
            found = list(threads.map(lambda number: calls[number](model), numbers))
    finally:
        sys.setswitchinterval(interval)
    for number, result in zip(numbers, found, strict=True):
        assert_same_answers(result, expected[number])


@pytest.mark.parametrize("name", CALLS)
def test_each_thread_gets_the_answers_to_its_own_texts(name):
    model, calls = make_model(name), CALLS[name]
    # Another model computes what is expected, so that threads also make what a model makes at its first call.
    expected = [call(tiny_models.new_model(name)) for call in calls]
    from_threads(calls, model, expected, rounds=4)
