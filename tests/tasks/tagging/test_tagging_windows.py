"""Sentences beyond the model's length, tagged in rows that overlap: training, `predict` and exports.

The expected rows and the row of each word are found here by trying all of them, in plain Python.
"""

import keras
import loaded_commands
import numpy as np
import pytest
import tensorflow as tf
from tiny_checkpoints import VOCABULARY, random_checkpoint
from tiny_models import made_signatures

from keras_bert import GraphTokenizer, TokenClassifier
from keras_bert.checkpoints.formats import write_checkpoint
from keras_bert.records import features
from keras_bert.tasks.base import text_task
from keras_bert.tasks.tagging.graph_tagging import sentence_rows
from keras_bert.tasks.tagging.rows import tagged_rows

pytestmark = pytest.mark.usefixtures("without_graphs")

LABELS = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")
TOKENIZER = GraphTokenizer(VOCABULARY)
# The words and their numbers of pieces: the quick brown fox fox ##est ##est ##est
PIECES = {"the": 1, "quick": 1, "brown": 1, "fox": 1, "foxest": 2, "foxestest": 3, "foxestestestest": 5}


def expected_windows(lengths, room, stride):
    """Returns the windows of a sentence, as lists of word numbers, from the words' numbers of pieces."""
    begins = [sum(lengths[:word]) for word in range(len(lengths))]
    windows, first = [], 0
    while True:
        window = [word for word in range(first, len(lengths)) if sum(lengths[first : word + 1]) <= room]
        windows.append(window)
        if window[-1] == len(lengths) - 1:
            return windows
        near = [word for word in range(first + 1, len(lengths)) if begins[word] - begins[first] <= min(stride, room)]
        first = max(near, default=first + 1)


def window_of(word, windows, lengths):
    """The rule of SQuAD's script for one word: the smaller side, plus a hundredth of the window's length."""
    best, best_score = None, None
    for number, window in enumerate(windows):
        if word not in window:
            continue
        left = sum(lengths[other] for other in window if other < word)
        right = sum(lengths[other] for other in window if other > word)
        score = min(left, right) * 100 + sum(lengths[other] for other in window)
        if best is None or score > best_score:
            best, best_score = number, score
    return best


def random_sentences(seed, number=60, longest=30):
    draw = np.random.default_rng(seed)
    return [draw.choice(list(PIECES), length).tolist() for length in draw.integers(1, longest, number)]


@pytest.fixture
def folder(tmp_path):
    write_checkpoint(random_checkpoint("token_classifier", labels=LABELS), tmp_path / "folder")
    return tmp_path / "folder"


@pytest.mark.parametrize(("length", "stride"), [(12, 3), (8, 1), (8, 4), (7, 5), (9, 7), (10, 100)])
def test_each_word_has_its_label_in_the_row_with_the_most_context(length, stride):
    sentences = random_sentences(length + stride, number=20)
    tags = [list(range(len(words))) for words in sentences]  # the label of a word is its number
    rows, counts = tagged_rows(sentences, tags, TOKENIZER, length, 7, stride)
    batch = rows.padded(length)
    rows = iter(zip(batch["input_ids"], batch["label_ids"], batch["sentence_id"][:, 0], strict=True))
    num_cut = 0
    for number, words in enumerate(sentences):
        lengths = [PIECES[word] for word in words]
        windows = expected_windows(lengths, length - 2, stride)
        num_cut += len(windows) > 1
        for part, window in enumerate(windows):
            ids, labels, sentence = next(rows)
            pieces = TOKENIZER.tokenize_words([words[word] for word in window]).values.numpy().tolist()
            row = [VOCABULARY.cls_id, *pieces, VOCABULARY.sep_id]
            assert ids.tolist() == row + [VOCABULARY.pad_id] * (length - len(row))
            expected = np.full(length, features.NO_LABEL)
            for place, word in enumerate(window):
                if window_of(word, windows, lengths) == part:
                    expected[1 + sum(lengths[other] for other in window[:place])] = word
            assert labels.tolist() == expected.tolist(), (words, windows)
            assert sentence == 7 + number
    assert next(rows, None) is None
    assert counts["cut_sentences"] == num_cut > 5
    labels = batch["label_ids"][batch["label_ids"] != features.NO_LABEL]
    assert labels.tolist() == sum(tags, []), "every word has one label, in order"


@pytest.mark.parametrize("stride", [None, 1, 3, 50])
def test_the_graph_makes_the_same_rows(stride):
    words = [*PIECES, "\u200d", "fox" + "est" * 20]  # no pieces, and too many
    draw = np.random.default_rng(3)
    sentences = [draw.choice(words, length).tolist() for length in draw.integers(1, 30, 60)]
    flat = tf.constant([word for sentence in sentences for word in sentence])
    splits = tf.constant(np.cumsum([0, *map(len, sentences)]))
    for length in (3, 5, 10):
        rows, _ = tagged_rows(sentences, None, TOKENIZER, length, doc_stride=stride)
        batch = rows.padded(length)
        rows, first_tokens = sentence_rows(flat, splits, TOKENIZER.tokenize_words, VOCABULARY, length, stride)
        mask = batch["input_mask"].astype(bool)
        np.testing.assert_array_equal(rows.values, batch["input_ids"][mask])
        np.testing.assert_array_equal(rows.row_lengths(), mask.sum(axis=1))
        np.testing.assert_array_equal(first_tokens, np.flatnonzero(batch["label_ids"][mask] >= 0))


def test_a_word_has_the_logits_of_its_window_in_python_and_in_exports(folder):
    length, stride = 8, 3
    model = TokenClassifier.from_pretrained(folder, doc_stride=stride)
    plain = TokenClassifier.from_pretrained(folder)
    sentences = random_sentences(1, number=8)
    answers = model.predict(sentences, max_seq_length=length, verbose=0)
    for words, answer in zip(sentences, answers, strict=True):
        lengths = [PIECES[word] for word in words]
        windows = expected_windows(lengths, length - 2, stride)
        of_windows = plain.predict([[words[word] for word in window] for window in windows], verbose=0)
        for word in range(len(words)):
            best = window_of(word, windows, lengths)
            expected = of_windows[best].log_probabilities[windows[best].index(word)]
            np.testing.assert_allclose(answer.log_probabilities[word], expected, atol=1e-5)
    served = made_signatures(model, {"max_seq_length": length})
    words = tf.ragged.constant(sentences)
    outputs = served["words"](words=words.to_tensor(""), num_words=tf.cast(words.row_lengths(), tf.int32))
    for number, answer in enumerate(answers):
        found = outputs["probabilities"][number][: len(answer.tags)]
        np.testing.assert_allclose(found, answer.probabilities, atol=1e-5)
        assert [tag.decode() for tag in outputs["tags"][number].numpy() if tag] == list(answer.tags)
    texts = [" ".join(words) for words in sentences]
    entities = served["serving_default"](text=tf.constant(texts))
    for number, answer in enumerate(model.predict(texts, max_seq_length=length, verbose=0)):
        starts = [start for start in entities["starts"][number].numpy().tolist() if start >= 0]
        assert starts == [entity.start for entity in answer.entities]


def test_the_loss_counts_each_word_once(eagerly, folder, capsys):
    words = ["the", "quick", "brown", "fox"] * 5
    tags = ["O", "B-PER", "I-PER", "B-LOC"] * 5
    keras.utils.set_random_seed(1)
    model = TokenClassifier.from_pretrained(folder, doc_stride=2)
    scores = model.evaluate([words], [tags], max_seq_length=8, verbose=0)
    assert "cut between words into several rows that overlap" in capsys.readouterr().err
    (answer,) = model.predict([words], max_seq_length=8, verbose=0)
    ids = [LABELS.index(tag) for tag in tags]
    assert scores["loss"] == pytest.approx(-answer.log_probabilities[np.arange(20), ids].mean(), rel=1e-5)
    task = text_task(model)
    rows = task.rows(task.examples([words], [tags]), 8).rows
    assert len(rows) == 8
    assert (rows.tokens["label_ids"] != features.NO_LABEL).sum() == 20
    batch = rows.batch(np.arange(8))
    model.compile(optimizer=keras.optimizers.Adam(3e-3))
    batches = tf.data.Dataset.from_tensors(batch)
    in_training = super(TokenClassifier, model).evaluate(batches, verbose=0, return_dict=True)
    assert in_training["loss"] == pytest.approx(scores["loss"], rel=1e-5)
    history = model.fit([words], [tags], max_seq_length=8, epochs=5, batch_size=8, verbose=0).history["loss"]
    assert history[-1] < history[0] - 0.005


def test_the_stride_is_saved(folder, tmp_path):
    TokenClassifier.from_pretrained(folder, doc_stride=3).save_pretrained(tmp_path / "saved")
    assert TokenClassifier.from_pretrained(tmp_path / "saved").doc_stride == 3
    plain = TokenClassifier.from_pretrained(folder)
    assert plain.doc_stride is None
    assert "doc_stride" not in plain.get_config()


@pytest.mark.slow
def test_the_command_trains_and_predicts_with_overlapping_rows(folder, tmp_path):
    lines = "".join(f"{word} {tag}\n" for word, tag in zip(["the", "fox"] * 10, ["O", "B-PER"] * 10, strict=True))
    (tmp_path / "train.conll").write_text(lines + "\n" + lines)
    files = [f"--train_file={tmp_path}/train.conll", f"--test_file={tmp_path}/train.conll"]
    flags = [f"--init_checkpoint={folder}", "--max_seq_length=8", f"--output_dir={tmp_path}/out", "--doc_stride=3"]
    parts = ["--do_train", "--do_predict", "--num_train_epochs=1"]
    result = loaded_commands.run("run_scripts.run_ner", *files, *flags, *parts)
    assert result.returncode == 0, result.stderr
    assert TokenClassifier.from_pretrained(tmp_path / "out/model").doc_stride == 3
    assert "2 of 2 sentences are longer than 8 tokens" in result.stdout
    assert len((tmp_path / "out/test_predictions.conll").read_text().splitlines()) == 42
