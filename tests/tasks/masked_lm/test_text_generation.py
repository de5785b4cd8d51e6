"""Generates text by filling masks repeatedly."""

import numpy as np
import pytest
from scripted_masked_lm import ScriptedMaskedLM

from keras_bert import InputError, generate_text

WORDS = ["a", "b", "c", "d", "##e", "."]
FOLLOWING = {"[CLS]": "a", "a": "b", "b": "c", "c": "d", "d": "."}


def chain(tokens, place):
    """Each letter is followed by the next one. After a mask, the model only knows the last position."""
    if tokens[place - 1] in FOLLOWING:
        return {FOLLOWING[tokens[place - 1]]: 0.8, "[UNK]": 0.1}
    return {".": 0.3} if place == len(tokens) - 2 else {"[MASK]": 0.5, "a": 0.1}


@pytest.fixture
def model():
    return ScriptedMaskedLM(WORDS, chain)


@pytest.mark.parametrize(
    ("prompt", "order", "rows"),
    [
        ("A b", "left_to_right", ["a b [MASK] [MASK] [MASK]", "a b c [MASK] [MASK]", "a b c d [MASK]"]),
        ("a", "most_confident", ["a [MASK] [MASK] [MASK]", "a b [MASK] [MASK]", "a b c [MASK]"]),
    ],
)
def test_every_token_knows_those_that_were_written_before(model, prompt, order, rows):
    [found] = generate_text(model, prompt, length=3, temperature=0, order=order)
    assert model.rows_seen == [f"[CLS] {row} [SEP]" for row in rows]
    expected = ("A b c d.", ("c", "d", ".")) if prompt == "A b" else ("a b c d", ("b", "c", "d"))
    assert (found.text, found.tokens) == expected


def test_mask_predict_fills_all_and_then_the_least_sure_again(model):
    [found] = generate_text(model, "a", length=4, temperature=0, order="mask_predict", rounds=4)
    assert model.rows_seen[0] == "[CLS] a [MASK] [MASK] [MASK] [MASK] [SEP]"
    # 3, 2 and 1 of 4 are masked again: first all except for `b`, the most certain one.
    assert model.rows_seen[1] == "[CLS] a b [MASK] [MASK] [MASK] [SEP]"
    assert [row.count("[MASK]") for row in model.rows_seen] == [4, 3, 2, 1]
    assert found.tokens[:2] == ("b", "c")


def test_random_order_visits_every_place_once(model):
    generate_text(model, "", length=5, order="random", seed=3)
    assert [row.count("[MASK]") for row in model.rows_seen] == [5, 4, 3, 2, 1]


def test_revisions_draw_every_place_again(model):
    generate_text(model, "a", length=3, revisions=2)
    assert [row.count("[MASK]") for row in model.rows_seen] == [3, 2, 1] + [1] * 6
    for sweep in (model.rows_seen[3:6], model.rows_seen[6:]):
        assert sorted(row.split().index("[MASK]") for row in sweep) == [2, 3, 4]


@pytest.mark.parametrize("order", ["left_to_right", "most_confident", "random", "mask_predict"])
def test_a_seed_gives_a_text_whatever_else_is_asked(model, order):
    options = {"length": 6, "order": order, "temperature": 2.0, "revisions": 1}
    prompts = ["a", "b b", "c"]
    first = generate_text(model, prompts, seed=1, **options)
    assert generate_text(model, prompts, seed=1, batch_size=1, **options) == first
    assert generate_text(model, "a", seed=1, **options) == first[:1]
    assert generate_text(model, prompts, seed=2, **options) != first


def test_no_special_token_is_written_and_no_word_of_the_prompt_is_continued():
    model = ScriptedMaskedLM(WORDS, lambda tokens, place: {"[UNK]": 0.4, "[SEP]": 0.3, "##e": 0.2})
    tokens = [generate_text(model, "a", length=3, seed=seed, temperature=0.7)[0].tokens for seed in range(20)]
    assert not set(np.ravel(tokens)) & {"[UNK]", "[SEP]", "[MASK]", "[CLS]", "[PAD]"}
    assert "##e" not in {first for first, _, _ in tokens}
    assert "##e" in {second for _, second, _ in tokens}


def test_temperature_and_top_k_say_how_boldly_is_drawn():
    model = ScriptedMaskedLM(WORDS, lambda tokens, place: {"a": 0.6, "b": 0.25, "c": 0.1})

    def share_of_a(**options):
        tokens = [generate_text(model, "d", length=9, seed=seed, **options)[0].tokens for seed in range(20)]
        return np.mean(np.ravel(tokens) == "a")

    cold, usual, hot = (share_of_a(temperature=temperature) for temperature in (0.3, 1.0, 5.0))
    assert cold > 0.85 > usual > 0.5 > hot
    assert share_of_a(temperature=5.0, top_k=1) == 1.0


@pytest.mark.parametrize(
    ("prompt", "options", "message"),
    [
        ("a " * 10, {"length": 5}, "Prompt 1 has 10 tokens. With 5 more, .* exceeds the model's 16 positions"),
        ("a [MASK]", {}, r"Prompt 1 must not have a \[MASK\]"),
        ([], {}, "Expected at least one prompt"),
        ("a", {"num_beams": 3}, "Generation has no option num_beams. It has: length, order"),
    ],
)
def test_what_cannot_be_written_is_said(model, prompt, options, message):
    with pytest.raises(InputError, match=message):
        generate_text(model, prompt, **options)
