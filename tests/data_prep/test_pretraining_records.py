import numpy as np
import pytest
import tiny
from small_corpora import offsets

from data_prep.pretraining import document_block
from data_prep.pretraining.document_block import DocumentBlock
from data_prep.pretraining.document_dealing import Dealing
from data_prep.pretraining.pretraining_records import PretrainingOptions, block_batches, shard_batches
from data_prep.tokenized.tokenized_corpus import TokenizedCorpus
from keras_bert.program.errors import InputError

VOCABULARY = tiny.vocabulary(*(f"w{n}" for n in range(20)), "##a", "##b")


def make_block(num_documents=60, seed=0):
    rng = np.random.default_rng(seed)
    num_sentences = rng.integers(1, 15, num_documents)
    lengths = rng.integers(1, 20, num_sentences.sum())
    return DocumentBlock(
        rng.integers(5, len(VOCABULARY), lengths.sum()).astype(np.uint16), offsets(lengths), offsets(num_sentences)
    )


def records(block=None, shard=0, block_number=0, **options):
    """All records: feature name -> array (N, length)."""
    options = PretrainingOptions(**{"max_seq_length": 32, "dupe_factor": 2, **options})
    return merge(batch for batch, _ in block_batches(block or make_block(), options, VOCABULARY, shard, block_number))


def merge(batches):
    batches = list(batches)
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def are_equal(first, second):
    return first.keys() == second.keys() and all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"whole_word_actions": True}, "single tokens are masked. Add do_whole_word_mask or max_ngram_size"),
        (
            {"max_sequences_per_row": 11, "max_seq_length": 32},
            "max_sequences_per_row=11 sequences do not fit into max_seq_length=32 tokens. Use 10 or fewer",
        ),
        ({"dynamic_masking": True, "do_whole_word_mask": True}, "records are masked while they are read"),
        ({"dynamic_masking": True, "max_ngram_size": 3}, "records are masked while they are read"),
        ({"dynamic_masking": True, "replacement_tokens": "vocabulary"}, "records are masked while they are read"),
    ],
)
def test_options_out_of_range_or_in_contradiction_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        PretrainingOptions(**changes)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sentence_task": "sentence_order"},
        {"sentence_task": "none"},
        {"max_sequences_per_row": 3},
        {"max_sequences_per_row": 3, "sentence_task": "none"},
        {"dynamic_masking": True},
        {"dynamic_masking": True, "max_sequences_per_row": 4, "sentence_task": "sentence_order"},
        {"do_whole_word_mask": True, "max_sequences_per_row": 4},
        {"max_ngram_size": 5, "whole_word_actions": True, "replacement_tokens": "vocabulary"},
    ],
)
def test_records_have_the_features_of_their_options(changes):
    made = records(**changes)
    features = PretrainingOptions(max_seq_length=32, **changes).features
    assert list(made) == [feature.name for feature in features]
    for feature in features:
        assert made[feature.name].shape == (len(made["input_ids"]), feature.length)
        assert made[feature.name].dtype == ("float32" if feature.dtype == "float32" else "int32")
    assert len(made["input_ids"]) > 50


def test_records_without_a_sentence_task_have_one_segment_and_labels_of_no_weight():
    made = records(sentence_task="none")
    assert not made["segment_ids"].any()
    assert not made["next_sentence_labels"].any()
    assert not made["next_sentence_weights"].any()
    # Some sequences cross the end of a document: they have a [SEP] before the last.
    assert ((made["input_ids"] == VOCABULARY.sep_id).sum(axis=1) > 1).any()


def test_packed_records_number_their_sequences_and_say_where_each_begins():
    made = records(max_sequences_per_row=3, max_seq_length=96)
    for row in range(len(made["input_ids"])):
        numbers = made["input_mask"][row]
        count = numbers.max()
        starts = made["cls_positions"][row]
        assert starts[:count].tolist() == [numbers.tolist().index(number) for number in range(1, count + 1)]
        assert (made["input_ids"][row, starts[:count]] == VOCABULARY.cls_id).all()
        assert made["next_sentence_weights"][row].tolist() == [1.0] * count + [0.0] * (3 - count)
        assert not starts[count:].any()
        assert not made["next_sentence_labels"][row, count:].any()
    assert set(made["input_mask"].max(axis=1).tolist()) == {1, 2, 3}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"do_whole_word_mask": True},
        {"max_ngram_size": 4},
        {"sentence_task": "none"},
        # More sequences than masks in a row: masked tokens still have targets.
        {"max_sequences_per_row": 4, "max_predictions_per_seq": 2, "short_seq_prob": 1.0},
    ],
)
def test_records_without_masks_are_those_with_masks_before_masking(changes):
    masked = records(**changes)
    others = {name: value for name, value in changes.items() if "mask" not in name and "ngram" not in name}
    unmasked = records(dynamic_masking=True, **others)
    row, place = np.nonzero(masked["masked_lm_weights"])
    masked["input_ids"][row, masked["masked_lm_positions"][row, place]] = masked["masked_lm_ids"][row, place]
    for name, values in unmasked.items():
        assert np.array_equal(values, masked[name])


def test_what_is_drawn_follows_from_seed_pass_shard_and_block():
    made = records()
    assert are_equal(made, records())
    for changes in ({"random_seed": 1}, {"shard": 1}, {"block_number": 1}):
        assert not are_equal(made, records(**changes))
    assert not are_equal(records(shard=1), records(block_number=1))
    assert not are_equal(records(shard=1, block_number=2), records(shard=2, block_number=1))
    # A pass does not depend on the number of passes, and all differ.
    one = len(records(dupe_factor=1)["input_ids"])
    assert are_equal(records(dupe_factor=1), {name: values[:one] for name, values in made.items()})
    assert not np.array_equal(made["input_ids"][:20], made["input_ids"][one : one + 20])


def test_a_pass_draws_from_the_generator_of_seed_pass_shard_and_block_in_this_order(monkeypatch):
    seeds, pcg64 = [], np.random.PCG64
    monkeypatch.setattr(np.random, "PCG64", lambda seed: seeds.append(seed) or pcg64(seed))
    records(random_seed=9, shard=3, block_number=5)
    assert seeds == [[9, 0, 3, 5], [9, 1, 3, 5]], "other seeds would change the bytes of everybody's records"


def test_shares_of_a_block_add_up(monkeypatch):
    monkeypatch.setattr("data_prep.pretraining.pretraining_records._BATCH_ROWS", 7)
    options = PretrainingOptions(max_seq_length=32, dupe_factor=3)
    batches = list(block_batches(make_block(), options, VOCABULARY, 0, 0))
    assert max(len(batch["input_ids"]) for batch, _ in batches) == 7
    assert sum(share for _, share in batches) == pytest.approx(1.0)


def test_a_shard_is_made_block_by_block_and_its_shares_add_up(monkeypatch):
    monkeypatch.setattr(document_block, "BLOCK_TOKENS", 1000)
    block = make_block()
    arrays = {name: getattr(block, name) for name in ("tokens", "sentence_offsets", "document_offsets")}
    corpus = TokenizedCorpus(**arrays, vocabulary=VOCABULARY, manifest={}, path="")
    options = PretrainingOptions(max_seq_length=32, dupe_factor=2)
    dealing = Dealing(2, options.random_seed)
    made = list(shard_batches(corpus, options, dealing, 1))
    blocks = [DocumentBlock.gather_ranges(block, part) for part in document_block.shard_blocks(corpus, dealing, 1)]
    assert len(blocks) == 2
    expected = [
        batch for number in range(2) for batch, _ in block_batches(blocks[number], options, VOCABULARY, 1, number)
    ]
    assert are_equal(merge(batch for batch, _ in made), merge(expected))
    assert sum(share for _, share in made) == pytest.approx(1.0)


@pytest.mark.parametrize("sentence_task", ["next_sentence", "sentence_order", "none"])
@pytest.mark.parametrize(
    "documents",
    [
        pytest.param([[50_000], [3, 4], [2]], id="a sentence of 50,000 tokens"),
        pytest.param([[5] * 5_000], id="a single document"),
        pytest.param([[50_000]], id="a single sentence"),
        pytest.param([[1]] * 3_000, id="documents of one token"),
        pytest.param([], id="nothing"),
    ],
)
def test_strange_documents_give_sound_records_or_none(documents, sentence_task):
    lengths = [length for document in documents for length in document]
    block = DocumentBlock(np.full(sum(lengths), 7, np.uint16), offsets(lengths), offsets(list(map(len, documents))))
    options = PretrainingOptions(sentence_task=sentence_task, dupe_factor=1, max_sequences_per_row=8)
    made = [batch for batch, _ in block_batches(block, options, VOCABULARY, 0, 0)]
    is_possible = {
        "next_sentence": len(documents) > 1 or len(lengths) > 1,
        "sentence_order": len(lengths) > len(documents),
        "none": bool(documents),
    }
    assert bool(made) == is_possible[sentence_task]
    if made:
        made = merge(made)
        assert (made["masked_lm_weights"].sum(axis=1) >= 1).all()
        assert made["input_mask"].max() <= 8
        if len(documents) == 1:
            # A label of 1 is a swapped pair, or a random next sentence from another part of the document.
            assert made["next_sentence_labels"].any() == (sentence_task != "none")
            assert not made["next_sentence_labels"].all()
