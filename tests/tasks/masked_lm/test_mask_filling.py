"""Filling [MASK] in texts, and the probability of texts."""

import numpy as np
import pytest
from scripted_masked_lm import ScriptedMaskedLM
from tiny_checkpoints import random_checkpoint

from keras_bert import BertEncoder, BertPretrainer, InputError, MaskedLM
from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.pretrained import model_of
from keras_bert.tasks.masked_lm.mask_filling import fill_masks, pseudo_perplexity
from keras_bert.tasks.masked_lm.masked_texts import join_tokens

pytestmark = pytest.mark.usefixtures("without_graphs")

WORDS = ["the", "new", "san", "york", "francisco", "fox", "play", "##ing", "."]


def say(tokens, place):
    """By itself the first word is `new` or `san` and the second `francisco` or `york`; the pairs must match."""
    before, after = tokens[place - 1], tokens[place + 1]
    if before == "new":
        return {"york": 0.9}
    if before == "san":
        return {"francisco": 0.9}
    if before == "play":
        return {"##ing": 0.5, "the": 0.3}
    if after in (".", "[SEP]"):
        return {"francisco": 0.4, "york": 0.35}
    return {"new": 0.5, "san": 0.3}


@pytest.fixture
def model():
    return ScriptedMaskedLM(WORDS, say)


def test_each_mask_gets_its_likeliest_tokens_with_their_probabilities(model):
    play, two = fill_masks(model, ["play [MASK]  the fox", "[MASK] [MASK]."], top_k=2)
    [mask] = play.masks
    assert mask.start == 5
    assert [(fill.token, fill.token_id, fill.text) for fill in mask.fills] == [
        ("##ing", 12, "playing  the fox"),
        ("the", 5, "play the  the fox"),
    ]
    rest = 0.2 / 14
    assert [fill.score for fill in mask.fills] == pytest.approx([0.5 + rest, 0.3 + rest], rel=1e-5)
    assert play.filled_text == "playing  the fox"
    assert [mask.start for mask in two.masks] == [0, 7]
    assert [fill.text for fill in two.masks[0].fills] == ["new [MASK].", "san [MASK]."]
    assert [fill.text for fill in two.masks[1].fills] == ["[MASK] francisco.", "[MASK] york."]


def test_masks_are_guessed_one_by_one_unless_jointly(model):
    text = "[MASK] [MASK]."
    assert fill_masks(model, text)[0].filled_text == "new francisco."
    [joint] = fill_masks(model, text, joint=True, top_k=1)
    assert joint.filled_text == "new york."
    assert [mask.fills[0].token for mask in joint.masks] == ["new", "york"]
    assert joint.masks[1].fills[0].score == pytest.approx(0.9 + 0.1 / 14, rel=1e-5)


def test_joint_filling_begins_where_the_model_is_surest(model):
    # After `play` the model is certain of `##ing` (0.5); at the end it is uncertain.
    fill_masks(model, "play [MASK] the [MASK] [MASK].", joint=True, top_k=1)
    assert model.rows_seen == [
        "[CLS] play [MASK] the [MASK] [MASK] . [SEP]",
        "[CLS] play ##ing the [MASK] [MASK] . [SEP]",
        "[CLS] play ##ing the new [MASK] . [SEP]",
    ]


def test_targets_are_scored_among_all_tokens(model):
    [filled] = fill_masks(model, "san [MASK]", targets=["York", "francisco", "##ing"])
    scores = {fill.token: fill.score for fill in filled.masks[0].fills}
    assert list(scores)[0] == "francisco"
    assert scores == pytest.approx({"francisco": 0.9 + 0.1 / 14, "york": 0.1 / 14, "##ing": 0.1 / 14}, rel=1e-4)
    assert filled.filled_text == "san francisco"


def test_answers_do_not_depend_on_what_they_are_batched_with(model):
    texts = ["play [MASK]", "[MASK] [MASK] . the the the the the", "new [MASK]"] * 5
    assert fill_masks(model, texts, batch_size=1) == fill_masks(model, texts, batch_size=4)


def test_an_answer_can_be_read(model):
    assert str(fill_masks(model, "san [MASK]", top_k=1)[0]) == "san francisco\n  [MASK] 1:  francisco 0.9071"


@pytest.mark.parametrize("model_class", [MaskedLM, BertPretrainer])
def test_probabilities_are_those_of_the_model(model_class):
    model = model_of(model_class, random_checkpoint(form.MASKED_LM, form.NEXT_SENTENCE))
    ids = np.array([[2, 5, 4, 8, 4, 3]], "int32")
    features = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": 0 * ids}
    logits = np.asarray(model({**features, "masked_lm_positions": np.array([[2, 4]])})["masked_lm_logits"])[0]
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    [filled] = fill_masks(model, "the [MASK] fox [MASK]", top_k=10)
    for mask, probabilities in zip(filled.masks, expected, strict=True):
        found = {fill.token_id: fill.score for fill in mask.fills}
        np.testing.assert_allclose([found[number] for number in range(10)], probabilities, rtol=1e-5)


@pytest.mark.parametrize(
    ("texts", "arguments", "message"),
    [
        (["[MASK]", "the fox"], {}, r"Text 2 has no \[MASK\], so there is nothing to fill in. Received: 'the fox'"),
        ("", {}, r"Text 1 has no \[MASK\]"),
        ([], {}, "Expected at least one text. Received: none"),
        ("[MASK] " + "the " * 13 + "[MASK]", {}, r"has 17 tokens, of which 16 are read, and \[MASK\] number 2 lies"),
        ("the the [MASK]", {"max_seq_length": 4}, "has 5 tokens, of which 4 are read"),
        ("[MASK]", {"max_seq_length": 17}, "more than this model's 16 positions"),
        ("[MASK]", {"top_k": 0}, "top_k must be .* at least 1 and at most 14. Received: 0"),
        ("[MASK]", {"targets": ["fox", "playing"]}, "'playing' must be a single token .* tokens are: play ##"),
        ("[MASK]", {"targets": ["zebra"]}, r"'zebra' must be a single token .* tokens are: \[UNK\]"),
        ("[MASK]", {"targets": ["fox", "Fox"]}, "Several targets are the same token: fox"),
        ("[MASK]", {"targets": []}, "targets must name one word or more"),
        ("[MASK]", {"batch_size": 0}, "batch_size must be a whole number of at least 1"),
    ],
)
def test_what_cannot_be_filled_is_said(model, texts, arguments, message):
    with pytest.raises(InputError, match=message):
        fill_masks(model, texts, **arguments)


def test_a_mask_at_the_last_place_that_is_read_is_filled(model):
    [filled] = fill_masks(model, "the the [MASK] fox fox", max_seq_length=5)
    assert filled.masks[0].start == 8


def test_models_that_cannot_guess_are_refused():
    with pytest.raises(InputError, match="A BertEncoder has no masked-LM head"):
        fill_masks(model_of(BertEncoder, random_checkpoint()), "[MASK]")
    with pytest.raises(InputError, match="The model has no vocabulary"):
        fill_masks(model_of(MaskedLM, random_checkpoint(form.MASKED_LM, vocabulary=None)), "[MASK]")


def test_pseudo_perplexity_masks_every_token_once(model):
    found = pseudo_perplexity(model, ["san francisco", "play"], batch_size=2)
    assert model.rows_seen == ["[CLS] [MASK] francisco [SEP]", "[CLS] san [MASK] [SEP]", "[CLS] [MASK] [SEP]"]
    # `san` before something: 0.3; `francisco` after `san`: 0.9; `play` at the end: only the evenly spread probability.
    expected = np.log([0.3 + 0.2 / 14, 0.9 + 0.1 / 14, 0.25 / 14])
    np.testing.assert_allclose(found.log_likelihoods, [expected[:2].sum(), expected[2]], rtol=1e-5)
    assert found.num_tokens.tolist() == [2, 1]
    assert found.perplexity == pytest.approx(np.exp(-expected.mean()), rel=1e-5)
    assert found.num_cut == 0


def test_pseudo_perplexity_counts_what_it_cuts_and_refuses_what_is_empty(model):
    found = pseudo_perplexity(model, ["the the the", "the"], max_seq_length=4)
    assert found.num_tokens.tolist() == [2, 1]
    assert found.num_cut == 1
    with pytest.raises(InputError, match="Text 2 has no tokens, so it has no likelihood. Received: ' '"):
        pseudo_perplexity(model, ["the", " "])


def test_tokens_are_joined_as_text_is_written():
    tokens = "( the fox ' s play ##ing , isn ' t it ? ) - no ; well - known ."
    assert join_tokens(tokens.split()) == "(the fox's playing, isn't it?) - no; well-known."
    assert join_tokens([]) == ""
