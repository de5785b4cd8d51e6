"""Permutation records: spans, orders and rows follow the official rules, and no prediction knows a later token.

The oracles are the rules of zihangdai/xlnet `data_utils.py` in words of our own, token by token.
"""

import dataclasses

import numpy as np
import pytest
import tiny
from example_bytes import serialize
from example_records import write_records
from numpy_bert import scatter_weights
from permutation_texts import OPTIONS, VOCABULARY, block, rows
from tiny_families import config_of

from data_prep import create_pretraining_data as create_pretraining_data_command
from data_prep.create_pretraining_data import create_pretraining_data
from data_prep.pretraining.document_block import DocumentBlock
from data_prep.pretraining.permutation_rows import draw_permutation_rows, tokens_that_begin_words
from keras_bert import InputError, MaskedLM, Vocabulary, pretraining_dataset
from keras_bert.encoders.xlnet.encoder import order_bias, with_own_token
from keras_bert.records.permutation import choose_spans, draw_permutations, order_of_parts, ranks_of


def official_part(places, is_masked, is_functional):
    """Whom each token of a part must not see, if `places[i]` is the place of token i in the order."""
    length = len(places)
    hidden = np.zeros((length, length), bool)
    for j in range(length):
        if not is_masked[j] and not is_functional[j]:
            continue  # an input token, which all see
        for i in range(length):
            is_input = not is_masked[i] and not is_functional[i]
            is_target = is_masked[i] and not is_functional[i]
            # An input token sees no token that is predicted or [SEP]; others see earlier ones, targets not themselves.
            hidden[i, j] = is_input or places[i] < places[j] or (is_target and i == j)
    return hidden


def test_a_row_hides_the_tokens_that_the_official_rule_hides_in_1000_draws():
    draw = np.random.default_rng(0)
    for _ in range(1000):
        size = int(draw.integers(1, 5))
        lengths = size * draw.integers(1, 4, 2)
        parts, expected = [], np.zeros((lengths.sum(), lengths.sum()), bool)
        expected[: lengths[0], lengths[0] :] = True
        is_target = []
        for number, length in enumerate(lengths):
            is_masked, is_functional = draw.random(length) < 0.4, draw.random(length) < 0.2
            permutation = draw_permutations(1, size, draw)
            places = [size * (i // size) + permutation[0, i % size] for i in range(length)]
            own = slice(lengths[0] * number, lengths[0] * number + length)
            expected[own, own] = official_part(places, is_masked, is_functional)
            parts.append(ranks_of((is_masked | is_functional)[None], permutation))
            is_target.append(is_masked & ~is_functional)
        bias = order_bias(order_of_parts(*parts), np.concatenate(is_target)[None])
        np.testing.assert_array_equal(np.asarray(bias)[0, 0] < 0, expected)
        of_tokens = np.asarray(with_own_token(bias))[0, 0] < 0
        np.testing.assert_array_equal(of_tokens, expected & ~np.eye(len(expected), dtype=bool))


def official_spans(begins_word, goal, alpha, beta, draw):
    """The rule of `_sample_mask`, which counts pieces, with the random numbers that ours draws for one row."""
    length, chosen, place = len(begins_word), set(), 0
    weights = np.array([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])
    while len(chosen) < goal and place < length:
        of_size, of_context = draw.random((2, 1))[:, 0]
        size = min(1 + int((np.cumsum(weights / weights.sum()) <= of_size).sum()), goal - len(chosen))
        context = size * alpha // beta
        before = int(of_context * context)
        first = next((i for i in range(place + before, length) if begins_word[i]), length)
        if first + size >= length:
            break
        chosen |= set(range(first, first + size))
        place = first + size + context - before
    numbers = draw.random((1, length))[0]
    free = sorted((i for i in range(length) if i not in chosen), key=lambda i: numbers[i])
    return chosen | set(free[: goal - len(chosen)])


def test_spans_are_those_of_the_official_rule_in_1000_draws():
    draw = np.random.default_rng(2)
    for seed in range(1000):
        length = int(draw.integers(8, 60))
        begins_word = draw.random((1, length)) < 0.6
        goal, alpha, beta = int(draw.integers(1, length // 2)), int(draw.integers(2, 8)), int(draw.integers(1, 3))
        found = choose_spans(begins_word, goal, alpha, beta, np.random.default_rng(seed))
        expected = official_spans(begins_word[0], goal, alpha, beta, np.random.default_rng(seed))
        assert set(np.flatnonzero(found[0])) == expected


def test_words_begin_at_marks_and_after_spaces():
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "em", "##bed", ","]
    assert tokens_that_begin_words(Vocabulary(tokens)).tolist() == [True] * 6 + [False, True]


def test_a_row_continues_the_text_of_the_row_before_in_its_stream():
    made = rows()
    ids, order, middle = made["input_ids"], made["prediction_order"], (made["segment_ids"] == 1).argmax(axis=1) - 1
    assert len(ids) % 3 == 0
    assert (ids[:, 0] == VOCABULARY.cls_id).all()
    assert (ids[:, -1] == VOCABULARY.sep_id).all()
    assert (ids[np.arange(len(ids)), middle] == VOCABULARY.sep_id).all()
    assert ((ids == VOCABULARY.sep_id).sum(axis=1) == 2).all()
    np.testing.assert_array_equal(made["stream_row"][:, 0], np.repeat(np.arange(len(ids) // 3), 3))
    texts = [row[1:end].tolist() for row, end in zip(ids, middle, strict=True)]  # the reused part and the first segment
    for number in range(3, len(ids)):
        old, new = texts[number - 3], texts[number]
        assert new[: len(old) - 16] == old[16:][: len(new)]
    runs = [*texts, *(row[end + 1 : -1].tolist() for row, end in zip(ids, middle, strict=True))]
    following = {pair for run in runs for pair in zip(run, run[1:], strict=False)}
    assert len(following) == len({token for token, _ in following}) > 1000  # each has one successor: nothing is skipped
    is_random = made["next_sentence_labels"][:, 0] == 1
    assert 0.35 < is_random.mean() < 0.75
    assert (order <= 33).all()
    assert (made["num_streams"] == 3).all()
    assert (made["reuse_len"] == 16).all()
    assert not made["next_sentence_weights"].any()


def test_the_order_of_a_row_has_ranks_for_predicted_and_special_tokens_only():
    made = rows()
    seen = []
    for number, ids in enumerate(made["input_ids"]):
        weights = made["masked_lm_weights"][number] > 0
        columns = made["masked_lm_positions"][number][weights]
        np.testing.assert_array_equal(ids[columns], made["masked_lm_ids"][number][weights])
        special = np.flatnonzero(np.isin(ids, [VOCABULARY.cls_id, VOCABULARY.sep_id]))
        assert not set(columns) & set(special)
        assert (np.diff(columns) > 0).all()
        # [CLS] is the last token there.
        order = np.roll(made["prediction_order"][number], -1)
        ranks = np.where(np.arange(32) < 16, order - 1, order - 18)
        assert set(np.flatnonzero(ranks >= 0)) == {(column - 1) % 32 for column in (*columns, *special)}
        assert set(ranks[ranks < 0]) == {-1}
        places = np.flatnonzero(ranks >= 0)
        np.testing.assert_array_equal(ranks[places] // 8, places % 16 // 8)  # one part of 8 after the other
        assert sum(columns <= 16) == 4
        seen.append(dict(zip(places, ranks[places], strict=True)))
    together = [(ranks[31], ranks[15 + 8]) for ranks in seen if 23 in ranks]
    assert all(last - 8 == middle for last, middle in together)
    assert len({int(ranks[31]) for ranks in seen}) == 8


def test_without_streams_the_rows_are_the_same_in_random_order():
    one = rows(dataclasses.replace(OPTIONS, num_streams=1))
    none = rows(dataclasses.replace(OPTIONS, num_streams=0))
    assert set(one) - set(none) == {"num_streams", "stream_row", "reuse_len"}
    first = [ids[:, 1].tolist() for ids in (one["input_ids"], none["input_ids"])]
    assert sorted(first[0]) == sorted(first[1])
    assert first[0] != first[1]


def test_a_second_segment_begins_with_a_sentence_and_fills_the_row():
    text, room = block(), 13
    for seed in range(50):
        drawn = draw_permutation_rows(text, OPTIONS, np.random.default_rng(seed))
        begins = drawn.starts + 16
        assert ((drawn.first_lengths >= 1) & (drawn.first_lengths < room)).all()
        assert (drawn.second_starts + room - drawn.first_lengths <= text.num_tokens).all()
        assert np.isin(drawn.second_starts, text.sentence_offsets).all()
        follows = ~drawn.are_random
        distance = (drawn.second_starts - begins)[follows]
        assert ((distance >= drawn.first_lengths[follows]) & (distance < room)).all()
        # Without a bound inside, the first segment ends with the row, and the second is random.
        has_bound = [((text.sentence_offsets > n) & (text.sentence_offsets < n + room)).any() for n in begins]
        assert drawn.are_random[~np.array(has_bound)].all()


def test_where_no_sentence_ends_in_the_row_the_second_segment_is_random():
    text = DocumentBlock.from_lengths(np.arange(5, 1505, dtype=np.uint16), np.full(30, 50), np.array([30]))
    drawn = draw_permutation_rows(text, OPTIONS, np.random.default_rng(0))
    begins = drawn.starts + 16
    has_bound = (begins + 12) // 50 > begins // 50  # a sentence ends before the last of 13 tokens
    assert drawn.are_random[~has_bound].all()
    assert (drawn.first_lengths[~has_bound] == 7).all()  # half of 13
    assert np.isin(drawn.second_starts[~has_bound], text.sentence_offsets).all()
    assert 0.3 < drawn.are_random[has_bound].mean() < 0.7


def test_no_prediction_knows_a_later_token():
    sizes = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    model = MaskedLM(config_of("xlnet", vocab_size=len(VOCABULARY), max_position_embeddings=32, **sizes))
    scatter_weights(model)
    row = {name: values[7:8] for name, values in rows().items()}
    columns = row["masked_lm_positions"][0][row["masked_lm_weights"][0] > 0]
    ranks = row["prediction_order"][0]
    # All columns but those of [SEP] are changed, each in a row of its own.
    places = [column for column in range(1, 32) if ranks[column] in (0, 17) or column in columns]
    changed = {name: np.repeat(values, 1 + len(places), axis=0) for name, values in row.items()}
    for number, column in enumerate(places, 1):
        changed["input_ids"][number, column] = 5 + (changed["input_ids"][number, column] + 1) % 1500
    before, *after = np.asarray(model(changed)["masked_lm_logits"])[:, : len(columns)]
    for column, logits in zip(places, after, strict=True):
        moved = np.abs(logits - before).max(axis=1)
        # The first part knows nothing of the second. Tokens that are not predicted are known in their part.
        knows = ranks[columns] > ranks[column] if column in columns else (columns > 16) | (column <= 16)
        # On some processors, the products of a row depend in their last bits on its place in the batch.
        assert (moved[~knows] < 1e-6).all()
        assert (moved[knows] > 1e-6).all()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reuse_len": 28}, "reuse_len must be at most 27, .* in max_seq_length=32. Received: 28"),
        ({"perm_size": 32}, "perm_size must be at most reuse_len=16 and divide .*, 16 and 16 tokens. Received: 32"),
        ({"perm_size": 5}, "divide both parts of a row, 16 and 16 tokens. Received: 5"),
        ({"perm_size": 0, "reuse_len": 20}, "divide both parts of a row, 20 and 12 tokens. Received: 20"),
        ({"mask_alpha": 1, "mask_beta": 2}, "mask_alpha must be at least mask_beta"),
        ({"max_predictions_per_seq": 33}, "do not fit into a part of 16 tokens. Use at most 32"),
        ({"sentence_task": "none", "max_ngram_size": 3}, "have no max_ngram_size and no sentence_task. Leave it out"),
        ({"reuse_len": 0}, "num_streams are for XLNet's rows. Add reuse_len"),
    ],
)
def test_options_that_contradict_each_other_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        dataclasses.replace(OPTIONS, **changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Records of a text of 1,800 words, in three streams."""
    folder = tmp_path_factory.mktemp("permutation")
    draw = np.random.default_rng(0)
    words = ["the", "fox", "dog", "runs", "em", "##bed"]
    tiny.vocabulary(*words).save(folder / "vocab.txt")
    sentences = [" ".join(draw.choice(words[:4], 6)) for _ in range(300)]
    (folder / "text.txt").write_text("\n".join(sentences))
    files = {"output_dir": folder / "records", "num_shards": 1, "options": OPTIONS}
    create_pretraining_data(str(folder / "text.txt"), folder / "vocab.txt", **files)
    return folder


def test_batches_have_the_rows_in_the_order_of_the_streams(folder):
    config = config_of("xlnet", vocab_size=11, max_position_embeddings=32)
    files = str(folder / "records")
    batches = list(pretraining_dataset(files, 3, config=config, in_streams=True).take(40).as_numpy_iterator())
    steps = np.array([batch["stream_row"][:, 0] for batch in batches])
    length = int(steps.max()) + 1
    np.testing.assert_array_equal(steps, np.repeat(np.arange(40)[:, None] % length, 3, axis=1))
    later = pretraining_dataset(files, 3, config=config, in_streams=True, start_step=5)
    for name, values in next(later.as_numpy_iterator()).items():
        np.testing.assert_array_equal(values, batches[5][name])
    with pytest.raises(InputError, match="its rows continue in batches of 3 rows .num_streams., but a batch has 4"):
        pretraining_dataset(files, 4, in_streams=True)
    with pytest.raises(InputError, match="records are XLNet's, .* but the model is a bert. Make records without reuse"):
        pretraining_dataset(files, 3, config=config_of("bert", vocab_size=11))


def test_a_memory_needs_rows_that_continue(folder, run_here, refused_here):
    options = {"options": dataclasses.replace(OPTIONS, num_streams=0), "num_shards": 1}
    text, vocabulary, shuffled = str(folder / "text.txt"), folder / "vocab.txt", folder / "shuffled"
    create_pretraining_data(text, vocabulary, output_dir=shuffled, **options)
    with pytest.raises(InputError, match="its rows do not continue in the next batch, as a memory .mem_len. needs"):
        pretraining_dataset(str(shuffled), 3, in_streams=True)
    flags = (f"--input_file={text}", f"--vocab_file={vocabulary}", f"--output_dir={folder}/short", "--num_shards=1")
    flags += ("--max_seq_length=32", "--reuse_len=16", "--num_streams=100", "--num_processes=1")
    printed = refused_here(create_pretraining_data_command, *flags)
    assert "has 1800 tokens of text, but 100 stream(s) of rows of 32 need at least 2900" in printed.err
    code, printed = run_here(create_pretraining_data_command, *flags, "--max_ngram_size=3")
    assert "With reuse_len, rows are XLNet's, which have no max_ngram_size" in printed.err
    code, printed = run_here(create_pretraining_data_command, *flags, "--masked_lm_prob=0.1")
    assert "--masked_lm_prob has no effect with --reuse_len" in printed.err


def test_a_rank_outside_the_order_is_named(tmp_path):
    made = {name: values[0].copy() for name, values in rows().items()}
    made["prediction_order"][3] = 34
    write_records(tmp_path / "a.tfrecord", [serialize(made, OPTIONS.features)])
    with pytest.raises(InputError, match="prediction_order holds 34, but ranks go from 0 to 33"):
        pretraining_dataset(str(tmp_path / "a.tfrecord"), 1)
