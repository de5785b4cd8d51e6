"""Statistical tests of pre-training records, on real text.

Seeds are fixed, so a test always passes or never. `LEAST_P` is the lowest probability of an accepted outcome, and so
the probability that a correct implementation fails with a new seed.
"""

import random

import numpy as np
import pytest
import scipy.stats
from example_records import unmasked
from small_corpora import generator

from data_prep.pretraining.document_block import DocumentBlock
from data_prep.pretraining.pretraining_records import PretrainingOptions, block_batches
from data_prep.pretraining.sentence_pairs import draw_sentence_pairs
from data_prep.tokenized.tokenize_text import TextSettings, tokenize_text
from keras_bert.records.masked_positions import MaskingOptions, choose_words
from keras_bert.records.masking import MaskingVocabulary
from keras_bert.tokenization.vocabulary import Vocabulary

LEAST_P = 1e-4
SPECIAL_IDS = [0, 101, 102]  # [PAD], [CLS], [SEP] of the uncased vocabulary


@pytest.fixture(scope="module")
def wikipedia(tmp_path_factory, shared_data):
    """The Wikipedia articles as a block of documents, and the vocabulary."""
    vocabulary = Vocabulary.from_file(shared_data("vocab", "bert-base-uncased-vocab.txt"))
    text, folder = str(shared_data("corpus", "wikipedia_articles.txt")), tmp_path_factory.mktemp("statistics")
    corpus = tokenize_text(text, folder / "corpus", vocabulary, TextSettings(split_sentences=True))
    assert [vocabulary.tokens[number] for number in SPECIAL_IDS] == ["[PAD]", "[CLS]", "[SEP]"]
    return DocumentBlock.gather(corpus, np.arange(corpus.num_documents)), vocabulary


def records(wikipedia, num_batches=None, **options):
    """All records of one pass, or those of its first batches: feature name -> array (N, length)."""
    block, vocabulary = wikipedia
    batches = []
    for batch, _ in block_batches(block, PretrainingOptions(dupe_factor=1, **options), vocabulary, 0, 0):
        batches.append(batch)
        if len(batches) == num_batches:
            break
    return {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}


def assert_follows(counts, expected):
    """Chi-square test of counts against their expectations. Rare outcomes are combined."""
    counts, expected = np.asarray(counts, float), np.asarray(expected, float)
    expected = expected * counts.sum() / expected.sum()
    assert not counts[expected == 0].any()
    order = np.argsort(-expected, kind="stable")
    group = np.minimum(np.arange(len(order)), np.count_nonzero(expected >= 10))
    counts, expected = np.bincount(group, counts[order]), np.bincount(group, expected[order])
    counts, expected = counts[expected > 0], expected[expected > 0]
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert scipy.stats.chi2.sf(statistic, len(counts) - 1) > LEAST_P


def assert_same_law(first, second):
    """Checks that two samples of integers have the same distribution: chi-square on counts, and Kolmogorov-Smirnov."""
    size = int(max(np.max(first), np.max(second))) + 1
    table = np.stack([np.bincount(first, minlength=size), np.bincount(second, minlength=size)])
    is_rare = table.sum(axis=0) < 20
    table = np.concatenate([table[:, ~is_rare], table[:, is_rare].sum(axis=1, keepdims=True)], axis=1)
    assert scipy.stats.chi2_contingency(table[:, table.any(axis=0)]).pvalue > LEAST_P
    assert scipy.stats.ks_2samp(first, second, method="asymp").pvalue > LEAST_P


def draw_pairs(block, seed, max_seq_length=128, short_seq_prob=0.1, in_order=False):
    """Pairs of ranges: starts (N, 2), lengths (N, 2), labels (N,)."""
    options = {"max_seq_length": max_seq_length, "short_seq_prob": short_seq_prob, "in_order": in_order}
    drawn = draw_sentence_pairs(block.sentence_offsets, block.document_offsets, rng=generator(seed), **options)
    return drawn.range_starts.reshape(-1, 2), drawn.range_lengths.reshape(-1, 2), drawn.labels


def document_of_token(block, tokens):
    return np.searchsorted(block.sentence_offsets[block.document_offsets], tokens, side="right") - 1


# Pairs of segments.


def google_pair_lengths(documents, max_seq_length, short_seq_prob, rng):
    """Google's pairing of segments for documents as lists of sentence lengths, reimplemented from the description.

    Returns (document, length of A, length of B, is random) for each example."""
    most = max_seq_length - 3
    for number, sentences in enumerate(documents):
        target = most if rng.random() >= short_seq_prob else rng.randint(2, most)
        chunk, next_sentence = [], 0
        while next_sentence < len(sentences):
            chunk.append(sentences[next_sentence])
            next_sentence += 1
            if next_sentence < len(sentences) and sum(chunk) < target:
                continue
            split = rng.randint(1, len(chunk) - 1) if len(chunk) > 1 else 1
            is_random = len(chunk) == 1 or rng.random() < 0.5
            length_a, length_b = sum(chunk[:split]), sum(chunk[split:])
            if is_random:
                next_sentence -= len(chunk) - split
                other = number
                while other == number:
                    other = rng.randrange(len(documents))
                length_b = 0
                for sentence in documents[other][rng.randrange(len(documents[other])) :]:
                    length_b += sentence
                    if length_b >= target - length_a:
                        break
            while length_a + length_b > most:
                if length_a > length_b:
                    length_a -= 1
                else:
                    length_b -= 1
            yield number, length_a, length_b, is_random
            chunk = []


def google_and_our_pairs(block, max_seq_length, short_seq_prob, num_passes):
    """Pairs as rows (document, length of A, length of B, is random), of Google's algorithm and of ours."""
    lengths = np.split(np.diff(block.sentence_offsets), block.document_offsets[1:-1])
    documents = [document.tolist() for document in lengths]
    theirs, ours = [], []
    for seed in range(num_passes):
        pairs = google_pair_lengths(documents, max_seq_length, short_seq_prob, random.Random(seed))
        theirs.append(np.array(list(pairs)) + [seed * len(documents), 0, 0, 0])
        starts, lengths, labels = draw_pairs(block, seed, max_seq_length, short_seq_prob)
        ours.append(np.column_stack([document_of_token(block, starts[:, 0]), lengths, labels]))
        ours[-1][:, 0] += seed * len(documents)
    return np.concatenate(theirs), np.concatenate(ours)


def assert_same_pairs(theirs, ours, max_seq_length):
    for column in (1, 2, 3):
        assert_same_law(ours[:, column], theirs[:, column])
    assert_same_law(ours[:, 1] + ours[:, 2], theirs[:, 1] + theirs[:, 2])
    # The joint distribution of both lengths and the label, on a grid of 5 x 5 x 2.
    cells = [np.minimum(pairs[:, 1:3] * 5 // max_seq_length, 4) @ [10, 2] + pairs[:, 3] for pairs in (ours, theirs)]
    assert_same_law(*cells)


@pytest.mark.parametrize(("max_seq_length", "num_passes"), [(128, 2), (512, 4)])
def test_lengths_and_labels_are_those_of_googles_algorithm(wikipedia, max_seq_length, num_passes):
    theirs, ours = google_and_our_pairs(wikipedia[0], max_seq_length, 0.0, num_passes)
    assert len(ours) == pytest.approx(len(theirs), rel=0.005)
    assert_same_pairs(theirs, ours, max_seq_length)


@pytest.mark.parametrize("short_seq_prob", [0.1, 1.0])
def test_short_documents_give_the_lengths_and_labels_of_googles_algorithm(wikipedia, short_seq_prob):
    # Every ten sentences are a document. The pairs of a document are dependent, so one pair of each is compared.
    block, _ = wikipedia
    bounds = np.append(np.arange(0, block.num_sentences, 10), block.num_sentences)
    block = DocumentBlock(block.tokens, block.sentence_offsets, bounds)
    samples = []
    for seed, pairs in enumerate(google_and_our_pairs(block, 128, short_seq_prob, 2)):
        pairs = pairs[np.argsort(generator(seed).random(len(pairs)))]
        documents, first, counts = np.unique(pairs[:, 0], return_index=True, return_counts=True)
        assert len(documents) == 2 * block.num_documents
        samples.append((pairs[first], counts))
    (theirs, their_counts), (ours, our_counts) = samples
    assert_same_pairs(theirs, ours, 128)
    assert_same_law(our_counts, their_counts)


def test_half_of_the_pairs_are_swapped_and_the_others_in_order(wikipedia):
    block, _ = wikipedia
    starts, lengths, labels = draw_pairs(block, seed=0, in_order=True)
    documents = document_of_token(block, starts)
    assert (documents[:, 0] == documents[:, 1]).all()
    assert (starts[:, 0] > starts[:, 1]).tolist() == (labels == 1).tolist()
    assert scipy.stats.binomtest(int(labels.sum()), len(labels), 0.5).pvalue > LEAST_P
    # The first segment in the text has the same length distribution with and without a swap, and the second follows it.
    # (Cutting shortens the second segment first.)
    is_uncut = lengths.sum(axis=1) < 125
    in_text_order = np.where((labels == 1)[:, None], starts[:, ::-1], starts)[is_uncut]
    first_lengths = np.where(labels == 1, lengths[:, 1], lengths[:, 0])[is_uncut]
    assert_same_law(first_lengths[labels[is_uncut] == 0], first_lengths[labels[is_uncut] == 1])
    assert (in_text_order[:, 0] + first_lengths == in_text_order[:, 1]).all()


# Masks.


def words_of_rows(original, vocabulary):
    """For each row its words, as lists of positions; a ## token at the front of a segment begins one."""
    for row in original.tolist():
        words = []
        is_inside = False
        for position, number in enumerate(row):
            if number in SPECIAL_IDS:
                is_inside = False
                continue
            if is_inside and vocabulary.tokens[number].startswith("##"):
                words[-1].append(position)
            else:
                words.append([position])
            is_inside = True
        yield words


def draw_spans(words, budget, most_words, p, rng):
    """Draws spans as docs/pretraining_data.md describes, word by word. Returns lists of positions."""
    lengths = range(1, most_words + 1)
    weights = [(1 - p) ** (length - 1) for length in lengths]
    used, spans = set(), []
    for number in rng.sample(range(len(words)), len(words)):
        length = rng.choices(lengths, weights)[0]
        span = []
        for following in range(number, min(number + length, len(words))):
            word = words[following]
            in_segment = following == number or word[0] == words[following - 1][-1] + 1
            if following in used or not in_segment or len(span) + len(word) > budget:
                break
            used.add(following)
            span += word
        if span:
            spans.append(span)
            budget -= len(span)
    return spans


@pytest.mark.parametrize(
    ("max_ngram_size", "p"),
    [(6, 0.5), *(pytest.param(*one, marks=pytest.mark.slow) for one in [(1, 0.2), (3, 0.2), (10, 0.2)])],
)
def test_words_and_spans_are_those_of_the_written_law(wikipedia, max_ngram_size, p):
    _, vocabulary = wikipedia
    made = records(wikipedia, num_batches=6, max_ngram_size=max_ngram_size, ngram_geometric_p=p)
    original, is_predicted = unmasked(made)
    lengths = made["input_mask"].sum(axis=1).tolist()
    rng = random.Random(0)
    ours, theirs = [], []
    for row, words in enumerate(words_of_rows(original, vocabulary)):
        budget = min(20, max(1, round(lengths[row] * 0.15)), lengths[row] - 3)
        spans = draw_spans(words, budget, max_ngram_size, p, rng)
        theirs.append(facts_of(words, {position for span in spans for position in span}))
        ours.append(facts_of(words, set(np.flatnonzero(is_predicted[row]).tolist())))
        assert is_predicted[row].sum() <= budget
    for column in range(len(ours[0])):
        assert_same_law([facts[column] for facts in ours], [facts[column] for facts in theirs])


def facts_of(words, predicted):
    """Returns statistics of the choice in one row: numbers of tokens, of words, of words of several pieces and of runs
    of words; the longest run; the position of the first; how many are at the front of a segment."""
    flags = []
    for word in words:
        if flags and word[0] != flags[-1][1] + 1:
            flags.append((False, word[0] - 1, False))  # between the segments
        inside = [position in predicted for position in word]
        assert all(inside) or not any(inside)
        flags.append((inside[0], word[-1], len(word) > 1))
    runs, run = [], 0
    for is_chosen, _, _ in [*flags, (False, 0, False)]:
        if is_chosen:
            run += 1
        elif run:
            runs.append(run)
            run = 0
    chosen = [flag for flag in flags if flag[0]]
    first = next((place for place, flag in enumerate(flags) if flag[0]), 0)
    at_front = flags[0][0] + any(
        flags[place][0] and not flags[place - 1][0] and flags[place - 1][1] == flags[place][1] - 1
        for place in range(1, 3)
    )
    num_several = sum(flag[2] for flag in chosen)
    return len(predicted), len(chosen), num_several, len(runs), max(runs, default=0), first // 4, at_front


def first_spans(rows, columns, **options):
    """Draws spans in rows of a single segment of one-token words. The first span of a row is cut at its end only.

    Returns what `choose_words` does, and the start and the length of the first span of each row.
    """
    is_text, options = np.ones((rows, columns), bool), MaskingOptions(**options)
    numbers, budgets = np.ones((rows, columns), int), np.full((rows, 1), options.max_ngram_size)
    chosen, spans = choose_words(is_text, np.zeros_like(is_text), numbers, budgets, options, generator(0))
    # Spans are numbered in the order in which they are drawn: in the first round, by their rows.
    is_first = spans < rows
    starts = np.full(rows, columns)
    np.minimum.at(starts, spans[is_first], chosen[is_first] % columns)
    return chosen, starts, np.bincount(spans[is_first], minlength=rows)


@pytest.mark.parametrize(("max_ngram_size", "p"), [(10, 0.2), (5, 0.5), (3, 1e-9)])
def test_span_lengths_are_geometric_cut_off_and_scaled(max_ngram_size, p):
    columns = 100
    chosen, starts, lengths = first_spans(40_000, columns, max_ngram_size=max_ngram_size, ngram_geometric_p=p)
    # Starts are distributed uniformly over all words.
    assert_follows(np.bincount(starts, minlength=columns), np.ones(columns))
    is_free = starts <= columns - max_ngram_size
    law = np.concatenate([[0.0], (1 - p) ** np.arange(max_ngram_size)])
    assert_follows(np.bincount(lengths[is_free], minlength=max_ngram_size + 1), law)
    if (max_ngram_size, p) == (10, 0.2):
        # As in the paper: "the mean span length is 3.8".
        assert lengths[is_free].mean() == pytest.approx(3.8, abs=0.05)
    # Near the end, a longer span gets only the remaining words.
    at_end = np.bincount(lengths[starts == columns - 2], minlength=3)
    assert_follows(at_end, [0, law[1], law[2:].sum()])
    assert (np.bincount(chosen // columns) == max_ngram_size).all()


def test_span_lengths_of_albert_have_a_chance_as_one_to_their_words():
    _, starts, lengths = first_spans(40_000, 100, max_ngram_size=3, ngram_distribution="inverse")
    assert_follows(np.bincount(lengths[starts <= 100 - 3], minlength=4), [0, 6, 3, 2])


@pytest.mark.parametrize("max_ngram_size", [0, 4])
def test_actions_are_drawn_once_for_each_word_or_span(wikipedia, max_ngram_size):
    _, vocabulary = wikipedia
    masking_vocabulary = MaskingVocabulary.of(vocabulary)
    options = {"do_whole_word_mask": True, "max_ngram_size": max_ngram_size, "whole_word_actions": True}
    made = records(wikipedia, num_batches=20, **options)
    original, is_predicted = unmasked(made)
    action = np.where(made["input_ids"] == vocabulary.mask_id, 0, np.where(made["input_ids"] == original, 1, 2))
    # Neighbouring pieces of a word have the same action, except for random tokens that equal the original.
    is_piece = masking_vocabulary.is_continuation[original] & is_predicted
    is_piece[:, 1:] &= is_predicted[:, :-1]
    row, column = np.nonzero(is_piece)
    assert len(row) > 5_000
    assert (action[row, column] != action[row, column - 1]).sum() <= 2
    # The shares of words are 80, 10 and 10 %. A row may have several words of a span: only its first target is counted.
    first = np.argmax(is_predicted, axis=1)
    counts = np.bincount(action[np.arange(len(first)), first], minlength=3)
    assert_follows(counts, [0.8, 0.1, 0.1])
    if max_ngram_size:
        # In spans, neighbouring words mostly have the same action; by chance it would be 66 %.
        row, column = np.nonzero(is_predicted[:, 1:] & is_predicted[:, :-1])
        assert (action[row, column] == action[row, column + 1]).mean() > 0.9


def test_without_whole_word_actions_every_piece_has_its_own(wikipedia):
    _, vocabulary = wikipedia
    made = records(wikipedia, num_batches=20, do_whole_word_mask=True)
    original, is_predicted = unmasked(made)
    is_masked = made["input_ids"] == vocabulary.mask_id
    is_piece = MaskingVocabulary.of(vocabulary).is_continuation[original] & is_predicted
    is_piece[:, 1:] &= is_predicted[:, :-1]
    row, column = np.nonzero(is_piece)
    table = np.bincount(2 * is_masked[row, column] + is_masked[row, column - 1], minlength=4)
    assert_follows(table, [0.04, 0.16, 0.16, 0.64])


# Rows.


@pytest.mark.parametrize("max_sequences_per_row", [1, 4])
def test_records_come_in_random_order(wikipedia, max_sequences_per_row):
    made = records(wikipedia, max_sequences_per_row=max_sequences_per_row, dynamic_masking=True)
    used = (made["input_mask"] > 0).sum(axis=1)
    place = np.arange(len(used))
    # Neither lengths nor sentence labels nor tokens say where in the file a record is.
    for values in (used, made["input_mask"].max(axis=1), made["next_sentence_labels"][:, 0], made["input_ids"][:, 1]):
        if values.min() < values.max():
            assert scipy.stats.spearmanr(place, values).pvalue > LEAST_P
            assert scipy.stats.spearmanr(values[1:], values[:-1]).pvalue > LEAST_P
