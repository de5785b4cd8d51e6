"""Greedy and beam search over a function that scores next tokens, in fixed shapes.

A hypothesis of n generated tokens, the end token included, has the score `sum(log p) / n ** length_penalty`, as in
transformers; Wu et al. (2016) divide by `((5 + n) / 6) ** length_penalty` instead. The search of a row ends when its
best unfinished hypothesis, divided by today's length, is not better than its worst finished one, and that of a batch
when all rows have ended, or after `max_new_tokens`. These are the rules of transformers with `early_stopping=False`.

Reference: transformers 5.23 `GenerationMixin._beam_search` and `_sample`.
"""

from typing import Any, NamedTuple

from keras import ops

from keras_bert.layers.gathering import vectors_at
from keras_bert.tasks.text_to_text.search_options import SearchOptions

_LOW = -1.0e9  # is added to scores that must not be chosen


class Found(NamedTuple):
    """What a search found: `ids`, int32 `[B, num_answers, max_new_tokens]`, the best first and padding after the end;
    and `scores`, float32 `[B, num_answers]`."""

    ids: Any
    scores: Any


def search(step, cache, num_rows, options: SearchOptions, start_id: int, end_id: int, pad_id: int) -> Found:
    """Searches the most probable targets for B = `num_rows` sources.

    Args:
        step: `(ids [B, K], column, cache) -> (logits [B, K, V], cache)` for K hypotheses of each row.
        cache: the first cache: nested tensors whose first axis is B * K.
        start_id: the token before the first generated one.
        end_id, pad_id: the token that ends a target, and the one that follows it.
    """

    def log_probabilities(ids, column, cache):
        logits, cache = step(ids, column, cache)
        # The loop needs the number of beams in the static shape.
        logits = ops.reshape(ops.cast(logits, "float32"), (-1, options.num_beams, logits.shape[-1]))
        scores = logits - ops.logsumexp(logits, axis=-1, keepdims=True)
        if options.min_new_tokens:
            is_end = ops.arange(ops.shape(logits)[-1]) == end_id
            scores = ops.where(ops.logical_and(is_end, column < options.min_new_tokens), -float("inf"), scores)
        return scores, cache

    first = ops.full((num_rows, options.num_beams), start_id, "int32")
    run = _greedy if options.num_beams == 1 else _beams
    return run(log_probabilities, cache, first, options, end_id, pad_id)


def _greedy(score, cache, first, options: SearchOptions, end_id: int, pad_id: int) -> Found:
    columns = ops.arange(options.max_new_tokens, dtype="int32")

    def body(column, ids, last, is_done, totals, lengths, cache):
        scores, cache = score(last, column, cache)  # [B, 1, V]
        new = ops.where(is_done, pad_id, ops.cast(ops.argmax(scores, axis=-1), "int32"))
        totals = totals + ops.where(is_done, 0.0, ops.max(scores, axis=-1))
        lengths = lengths + ops.where(is_done, 0.0, 1.0)
        ids = ops.where(ops.equal(columns, column), new[:, :, None], ids)
        is_done = ops.logical_or(is_done, ops.equal(new, end_id))
        return column + 1, ids, new, is_done, totals, lengths, cache

    def goes_on(column, ids, last, is_done, *_):
        return ops.logical_and(column < options.max_new_tokens, ops.logical_not(ops.all(is_done)))

    ids = ops.zeros_like(first)[:, :, None] + ops.full_like(columns, pad_id)
    zeros = ops.zeros_like(first, "float32")
    state = (ops.array(0, "int32"), ids, first, ops.zeros_like(first, "bool"), zeros, zeros, cache)
    _, ids, _, _, totals, lengths, _ = ops.while_loop(goes_on, body, state)
    return Found(ids, totals / lengths**options.length_penalty)


def _beams(score, cache, first, options: SearchOptions, end_id: int, pad_id: int) -> Found:
    num_beams, length = options.num_beams, options.max_new_tokens
    num_kept = 2 * num_beams  # even if num_beams of them end, num_beams can be continued
    columns = ops.arange(length, dtype="int32")
    row_starts = ops.arange(ops.shape(first)[0], dtype="int32")[:, None] * num_beams
    is_top = ops.arange(num_kept) < num_beams

    def body(column, running, last, totals, done, scores, is_done, may_improve, _, cache):
        found, cache = score(last, column, cache)  # [B, K, V]
        vocab_size = found.shape[-1]
        candidates = ops.reshape(found + totals[:, :, None], (-1, num_beams * vocab_size))
        best, indices = ops.top_k(candidates, num_kept)  # [B, 2 K]
        beams, new = ops.floor_divide(indices, vocab_size), ops.cast(ops.mod(indices, vocab_size), "int32")
        sequences = ops.where(ops.equal(columns, column), new[:, :, None], vectors_at(running, beams))
        ends = ops.logical_or(ops.equal(new, end_id), column + 1 >= length)

        # The best hypotheses that have not ended are continued.
        totals, chosen = ops.top_k(best + ops.cast(ends, "float32") * _LOW, num_beams)
        running, last = vectors_at(sequences, chosen), _at(new, chosen)
        rows = ops.reshape(row_starts + ops.cast(_at(beams, chosen), "int32"), (-1,))
        cache = [tuple(ops.take(part, rows, axis=0) for part in layer) for layer in cache]

        # Those that have ended, among the num_beams best, compete with the earlier ones.
        ended = ops.logical_and(ends, is_top)
        ended_scores = best / ops.cast(column + 1, "float32") ** options.length_penalty
        ended_scores = ended_scores + _LOW * (2.0 - ops.cast(may_improve, "float32") - ops.cast(ended, "float32"))
        scores, chosen = ops.top_k(ops.concatenate([scores, ended_scores], axis=1), num_beams)
        done = vectors_at(ops.concatenate([done, sequences], axis=1), chosen)
        is_done = _at(ops.concatenate([is_done, ended], axis=1), chosen)

        best_possible = totals[:, :1] / ops.cast(column + 1, "float32") ** options.length_penalty
        worst = ops.where(is_done, ops.min(scores, axis=1, keepdims=True), _LOW)
        may_improve = ops.logical_and(may_improve, ops.any(best_possible > worst, axis=1, keepdims=True))
        goes_on = ops.logical_and(ops.any(may_improve), ops.logical_not(ops.all(ends)))
        return column + 1, running, last, totals, done, scores, is_done, may_improve, goes_on, cache

    zeros = ops.zeros_like(first, "float32")  # [B, K]
    empty = ops.zeros_like(first)[:, :, None] + ops.full_like(columns, pad_id)  # [B, K, length]
    # At first all beams are equal, so only one may be continued.
    totals = zeros + ops.where(ops.arange(num_beams) == 0, 0.0, _LOW)
    state = (
        ops.array(0, "int32"),
        empty,
        first,
        totals,
        empty,
        zeros + _LOW,
        ops.zeros_like(first, "bool"),
        ops.ones_like(first[:, :1], "bool"),
        ops.array(True),
        cache,
    )
    state = ops.while_loop(lambda *values: values[8], body, state)
    # NaN is lost among the scores, because it is never the best.
    is_lost = ops.any(ops.isnan(state[3]), axis=1, keepdims=True)
    scores = ops.where(is_lost, float("nan"), state[5])
    return Found(state[4][:, : options.num_answers], scores[:, : options.num_answers])


def _at(values, columns):
    """Returns `values[b, columns[b, k]]`: `[B, M]`, int `[B, K]` -> `[B, K]`."""
    return vectors_at(values[:, :, None], columns)[:, :, 0]
