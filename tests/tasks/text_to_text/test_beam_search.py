"""Greedy and beam search on a model of a few probabilities."""

import itertools

import numpy as np
import pytest
from keras import ops

from keras_bert.tasks.text_to_text.beam_search import search
from keras_bert.tasks.text_to_text.search_options import SearchOptions

START, END, PAD = 1, 2, 0


def found(probabilities, **options):
    """Returns the answers and their scores.

    Args:
        probabilities: float `[B, V, V]`: of the next token after each token, for each row of the batch.
    """
    logs = ops.log(ops.convert_to_tensor(probabilities, "float32"))
    options = SearchOptions(**options)

    def step(ids, column, cache):
        rows = ops.reshape(cache[0][0], ops.shape(ids))  # which row of the batch a hypothesis belongs to
        return ops.take(ops.reshape(logs, (-1, logs.shape[-1])), rows * logs.shape[-1] + ids, axis=0), cache

    rows = np.repeat(np.arange(len(probabilities), dtype="int32"), options.num_beams)
    answers = search(step, [(ops.convert_to_tensor(rows),)], len(probabilities), options, START, END, PAD)
    return np.asarray(answers.ids).tolist(), np.asarray(answers.scores).tolist()


def table(**following):
    """Returns probabilities `[V, V]` of the tokens pad, start, end, a, b. Other rows mostly end."""
    rows = np.tile([1e-9, 1e-9, 0.9, 0.1, 1e-9], (5, 1))
    for name, row in following.items():
        rows[["pad", "start", "end", "a", "b"].index(name)] = row
    return rows


@pytest.mark.parametrize("num_beams", [1, 2])
def test_a_target_that_has_ended_is_scored_by_its_own_length(num_beams):
    short = table(start=[1e-9, 1e-9, 0.6, 0.3, 0.1])
    long = table(start=[1e-9, 1e-9, 1e-9, 0.9, 0.1], a=[1e-9, 1e-9, 0.2, 1e-9, 0.8], b=[1e-9, 1e-9, 0.7, 0.3, 1e-9])
    ids, scores = found(np.stack([short, long]), num_beams=num_beams, max_new_tokens=5)
    assert ids == [[[END, PAD, PAD, PAD, PAD]], [[3, 4, END, PAD, PAD]]]
    np.testing.assert_allclose(scores, [[np.log(0.6)], [np.log(0.9 * 0.8 * 0.7) / 3]], rtol=1e-5)


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        # The first answer is the best at once. The second one still comes.
        ({"start": [0, 0, 0.7, 0.2, 0.1], "a": [0, 0, 1, 0, 0]}, {"max_new_tokens": 4}, {(END,): 0.7, (3, END): 0.2}),
        # Two answers are complete, and one that is better than the second comes.
        ({"start": [0, 0, 0.7, 0.28, 0.02], "a": [0, 0, 0.2, 0.8, 0]}, {}, {(END,): 0.7, (3, 3, 3): 0.28 * 0.64}),
        # An end that is not among the two best choices is no answer.
        (
            {"start": [0, 0, 0.25, 0.45, 0.3], "a": [0, 0, 0, 0.6, 0.4], "b": [0.5, 0.5, 0, 0, 0]},
            {"max_new_tokens": 2, "length_penalty": 0.0},
            {(3, 3): 0.27, (3, 4): 0.18},
        ),
        # Two hypotheses go on beside the one that ends.
        (
            {"start": [0, 0, 0.5, 0.3, 0.2], "a": [0.3, 0.3, 0.1, 0.3, 0], "b": [0, 0, 1, 0, 0]},
            {"max_new_tokens": 2},
            {(END,): 0.5, (4, END): 0.2},
        ),
    ],
)
def test_two_beams_find_two_answers(rows, options, expected):
    options = {"max_new_tokens": 3, "length_penalty": 1.0, **options}
    ids, scores = found(table(**rows)[None] + 1e-9, num_beams=2, num_answers=2, **options)
    length = options["max_new_tokens"]
    assert ids == [[list(tokens) + [PAD] * (length - len(tokens)) for tokens in expected]]
    wanted = [np.log(value) / len(tokens) ** options["length_penalty"] for tokens, value in expected.items()]
    np.testing.assert_allclose(scores, [wanted], rtol=1e-4)


@pytest.mark.parametrize("min_new_tokens", [0, 2])
def test_with_a_beam_for_every_beginning_the_answers_are_the_best_of_all(min_new_tokens):
    rows = np.random.default_rng(0).dirichlet(np.ones(5) / 2, (2, 5)) + 1e-4
    rows /= rows.sum(-1, keepdims=True)
    ids, scores = found(
        rows, num_beams=150, num_answers=6, max_new_tokens=3, length_penalty=0.0, min_new_tokens=min_new_tokens
    )
    for number, row in enumerate(rows):
        # `min_new_tokens` takes the end out of the choices, without changing the probabilities of the others.
        targets = {}
        for tokens in itertools.product(range(5), repeat=3):
            tokens = tokens[: tokens.index(END) + 1] if END in tokens else tokens
            if END not in tokens[:min_new_tokens]:
                path = zip((START, *tokens), tokens, strict=False)
                targets[tokens] = sum(np.log(row[last, new]) for last, new in path)
        best = sorted(targets, key=targets.get, reverse=True)[:6]
        assert [tuple(answer) for answer in ids[number]] == [tokens + (PAD,) * (3 - len(tokens)) for tokens in best]
        np.testing.assert_allclose(scores[number], [targets[tokens] for tokens in best], rtol=1e-4)
