"""Keras' own keywords on texts: they mean what they mean in Keras."""

import copy
import pickle
import zipfile

import keras
import numpy as np
import pytest
from slow_parameters import slow_except
from tasks.test_text_fitting import CONFIG, LABELS, TEXTS, VOCABULARY, new_model
from tiny_families import byte_pairs, sentence_pieces, word_pieces

from keras_bert.optimization import AdamW
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tasks.held_out import first_held_out
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.multiple_choice.model import MultipleChoice
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.tasks.tagging.model import TokenClassifier

pytestmark = pytest.mark.usefixtures("without_graphs")

WORDS = [text.split() for text in TEXTS]
ANSWERS = [{"text": [text.split()[-1]], "answer_start": [text.rindex(text.split()[-1])]} for text in TEXTS]
# Model, x and y of every task.
TASKS = {
    "classes": (lambda: SequenceClassifier(CONFIG, labels=["negative", "positive"]), TEXTS, LABELS),
    "pairs": (lambda: SequenceClassifier(CONFIG, labels=["negative", "positive"]), (TEXTS, TEXTS[::-1]), LABELS),
    "tags": (lambda: TokenClassifier(CONFIG, ["A", "B"]), WORDS, [list("ABABAB"[: len(words)]) for words in WORDS]),
    "choices": (lambda: MultipleChoice(CONFIG), (TEXTS, [["bad", "good film"]] * 32), [0, 1] * 16),
    "questions": (lambda: SpanClassifier(CONFIG), (["which film"] * 32, TEXTS), ANSWERS),
    "vectors": (lambda: SentenceEncoder(CONFIG), (TEXTS, TEXTS[::-1]), [0.0, 0.9] * 16),
    "masks": (lambda: MaskedLM(CONFIG), TEXTS, None),
}


def made(name, compiled=True):
    keras.utils.set_random_seed(0)
    model = TASKS[name][0]()
    model.vocabulary = VOCABULARY
    if compiled:
        model.compile(AdamW(1e-3))
    return model


def part(column, first, stop):
    return tuple(one[first:stop] for one in column) if isinstance(column, tuple) else column[first:stop]


@pytest.mark.parametrize(
    "name",
    slow_except(["tags"], TASKS),
)
def test_a_validation_split_is_the_last_examples(eagerly, name):
    _, x, y = TASKS[name]
    split = made(name).fit(x, y, batch_size=8, epochs=2, validation_split=0.3, verbose=0).history
    last = (part(x, 22, 32), y[22:]) if y else x[22:]
    args = (part(x, 0, 22), y[:22]) if y else (x[:22],)
    given = made(name).fit(*args, batch_size=8, epochs=2, validation_data=last, verbose=0).history
    assert set(split) == set(given) >= {"loss", "val_loss"}
    for key, values in split.items():
        np.testing.assert_allclose(values, given[key], rtol=1e-6, err_msg=key)


def test_the_split_is_that_of_keras():
    """Keras itself divides arrays of the same length; the numbers of its examples are the values."""
    from keras.src.trainers.data_adapters.array_slicing import train_validation_split

    for num_examples in (2, 3, 10, 32, 101):
        for share in (0.1, 0.25, 0.3, 0.5, 0.99, 1e-9):
            try:
                (kept,), (held_out,) = train_validation_split((np.arange(num_examples),), share)
            except ValueError:
                with pytest.raises(
                    InputError, match=f"validation_split={share} of {num_examples} examples leaves none"
                ):
                    first_held_out(num_examples, share)
                continue
            first = first_held_out(num_examples, share)
            assert (len(kept), held_out.tolist()) == (first, list(range(first, num_examples)))


def test_class_weights_do_not_count_in_the_validation_split(eagerly):
    options = {"batch_size": 8, "validation_split": 0.25, "verbose": 0}
    losses = []
    for class_weight in (None, {"negative": 9.0}):
        model = made("classes", compiled=False)
        model.compile(AdamW(0.0))
        losses.append(model.fit(TEXTS, LABELS, class_weight=class_weight, **options).history)
    assert losses[0]["val_loss"] == pytest.approx(losses[1]["val_loss"], rel=1e-6)
    assert losses[0]["loss"] != pytest.approx(losses[1]["loss"], rel=1e-3)


def test_validation_data_win_over_a_split_as_in_keras(eagerly):
    one = made("classes").fit(TEXTS, LABELS, validation_data=(TEXTS[:4], LABELS[:4]), verbose=0).history
    options = {"validation_data": (TEXTS[:4], LABELS[:4]), "validation_split": 0.5, "validation_batch_size": 1}
    other = made("classes").fit(TEXTS, LABELS, **options, verbose=0).history
    assert one == {key: pytest.approx(values, rel=1e-5) for key, values in other.items()}


@pytest.mark.parametrize("name", ["classes", pytest.param("masks", marks=pytest.mark.slow)])
def test_epochs_of_a_few_steps_continue_the_pass(eagerly, name):
    """Four batches in a pass: three epochs of three updates train on the same batches as one epoch of nine."""
    _, x, y = TASKS[name]

    class Batches(keras.callbacks.Callback):
        def __init__(self):
            super().__init__()
            self.seen = []

        def on_epoch_begin(self, epoch, logs=None):
            self.seen.append(0)

        def on_train_batch_end(self, batch, logs=None):
            self.seen[-1] += 1

    short, whole, batches = made(name), made(name), Batches()
    short.fit(x, y, batch_size=8, epochs=3, steps_per_epoch=3, callbacks=[batches], verbose=0)
    assert batches.seen == [3, 3, 3]
    whole.fit(x, y, batch_size=8, epochs=1, steps_per_epoch=9, verbose=0)
    for left, right in zip(short.weights, whole.weights, strict=True):
        np.testing.assert_array_equal(left, right)


def test_the_default_schedule_ends_with_the_last_of_these_steps(eagerly):
    model = made("classes", compiled=False)
    model.fit(TEXTS, LABELS, batch_size=8, epochs=3, steps_per_epoch=2, verbose=0)
    assert model.optimizer._learning_rate.num_train_steps == int(model.optimizer.iterations) == 6


class Recorder(keras.callbacks.Callback):
    """Records the names of the called methods, and the arguments of some."""

    def __init__(self):
        super().__init__()
        self.names, self.logs = [], None
        for name in ("begin", "batch_begin", "batch_end", "end"):
            for kind in ("test", "predict"):
                setattr(self, f"on_{kind}_{name}", self._recording(f"{kind}_{name}"))

    def _recording(self, name):
        def record(*arguments, logs=None):
            self.names.append((name, *arguments[:1]) if "batch" in name else (name,))
            self.logs = logs or (arguments[-1] if arguments else None)

        return record


def test_callbacks_are_called_as_keras_calls_them(eagerly):
    ids = np.array([[2, 5, 3]] * 5)
    features = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    model = made("classes")
    for call, on_texts, on_features in (
        ("predict", ["good"] * 5, (features,)),
        ("evaluate", (["good"] * 5, [0] * 5), (features, np.zeros(5, int))),
    ):
        ours, theirs = Recorder(), Recorder()
        on_texts = on_texts if isinstance(on_texts, tuple) else (on_texts,)
        result = getattr(model, call)(*on_texts, batch_size=2, callbacks=[ours], verbose=0)
        getattr(model, call)(*on_features, batch_size=2, callbacks=[theirs], verbose=0)
        assert ours.names == theirs.names
        assert len(ours.names) == 8
        if call == "evaluate":
            assert ours.logs == result
    masked, recorder = made("masks"), Recorder()
    scores = masked.evaluate(TEXTS, batch_size=16, callbacks=recorder, verbose=0)
    assert (len(recorder.names), recorder.logs) == (6, scores)


def test_scores_come_as_a_list_with_the_loss_first():
    model = made("classes")
    scores = model.evaluate(TEXTS[:6], LABELS[:6], verbose=0)
    values = model.evaluate(TEXTS[:6], LABELS[:6], verbose=0, return_dict=False)
    assert values == [scores["loss"], *(value for name, value in scores.items() if name != "loss")]
    assert list(scores)[0] != "loss"
    assert made("masks").evaluate(TEXTS, verbose=0, return_dict=False)[0] > 0
    assert isinstance(made("vectors").evaluate((TEXTS, TEXTS[::-1]), [0.0, 0.9] * 16, return_dict=False)[0], float)


def test_a_batch_size_of_none_is_32_as_in_keras():
    model = made("classes")
    assert model.predict(TEXTS, batch_size=None) == model.predict(TEXTS, batch_size=32)
    assert model.predict(TEXTS, 5, verbose=0)[3].probability == pytest.approx(model.predict(TEXTS)[3].probability)
    assert model.evaluate(TEXTS, LABELS, None) == model.evaluate(TEXTS, LABELS, 32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"validation_split": 1.0}, "validation_split must be a number above 0 and below 1. Received: 1.0"),
        ({"validation_split": 0.99}, "validation_split=0.99 of 32 examples leaves none for training"),
        ({"steps_per_epoch": 0}, "steps_per_epoch must be a whole number of at least 1. Received: 0"),
        (
            {"class_weight": "balanced", "sample_weight": [1.0] * 32},
            "Give sample_weight or class_weight, not both",
        ),
    ],
)
def test_wrong_values_are_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        made("classes").fit(TEXTS, LABELS, **arguments)


def in_file(model, folder):
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")


WORDS = word_pieces()
COPIES = {
    ".keras": in_file,
    "pickle": lambda model, folder: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, folder: copy.deepcopy(model),
}


@pytest.mark.parametrize(
    ("copied", "vocabulary"),
    [
        pytest.param(
            COPIES[copied],
            vocabulary,
            id=f"{copied}-{type(vocabulary).__name__}",
            marks=() if copied == ".keras" or vocabulary is WORDS else pytest.mark.slow,
        )
        for copied in COPIES
        for vocabulary in (WORDS, byte_pairs(), sentence_pieces())
    ],
)
def test_a_copy_of_a_model_keeps_the_vocabulary(copied, vocabulary, tmp_path):
    config = CONFIG.replace(vocab_size=len(vocabulary))
    model = SequenceClassifier(config, labels=["dog", "fox"])
    model.vocabulary = vocabulary
    texts = ["the fox", "a dog, the fox"]
    expected = [answer.probabilities for answer in model.predict(texts)]
    found = copied(model, tmp_path)
    assert type(found.vocabulary) is type(vocabulary)
    assert found.vocabulary.sha256 == vocabulary.sha256
    assert [answer.probabilities for answer in found.predict(texts)] == expected
    assert found.encoder.vocabulary is None


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_of_a_model_without_a_vocabulary_has_none(copied, tmp_path):
    assert copied(SequenceClassifier(CONFIG, labels=["a", "b"]), tmp_path).vocabulary is None


def with_vocabulary(folder, content, compression):
    """A `.keras` file whose vocabulary was replaced by a stranger."""
    new_model().save(folder / "model.keras")
    with zipfile.ZipFile(folder / "model.keras") as source, zipfile.ZipFile(folder / "forged.keras", "w") as target:
        for name in source.namelist():
            data = content if name == "assets/vocab.txt" else source.read(name)
            target.writestr(name, data, compression)
    return folder / "forged.keras"


@pytest.mark.parametrize(
    ("content", "compression", "message"),
    [
        (b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\none\n", zipfile.ZIP_STORED, "vocab_size"),
        (b"\x80\x04cos\nsystem\n(S'true'\ntR.", zipfile.ZIP_STORED, "is not UTF-8|UNK"),
        (b"a\n" * (40 << 20), zipfile.ZIP_STORED, "has more than 50,331,648 bytes"),
        (b"\0" * (300 << 20), zipfile.ZIP_DEFLATED, "decompression bomb"),
    ],
    ids=["other size", "pickle", "long", "bomb"],
)
def test_a_forged_vocabulary_in_a_file_is_refused(content, compression, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        keras.models.load_model(with_vocabulary(tmp_path, content, compression))
