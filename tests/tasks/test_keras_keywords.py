"""Keras' own keywords, callbacks and kinds of data: they mean what they mean in Keras."""

import copy
import functools
import itertools
import pickle
import zipfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from slow_parameters import slow_except
from tasks.test_text_fitting import CONFIG, LABELS, TEXTS, VOCABULARY, new_model
from tiny_families import byte_pairs, sentence_pieces, word_pieces
from tiny_models import model_and_batch

from keras_bert import AdamW, BertPretrainer, InputError, MaskedLM, SentenceEncoder, SequenceClassifier, TokenClassifier
from keras_bert.optimization import WarmupLinearDecay
from keras_bert.tasks.examples import first_held_out
from keras_bert.tasks.fitting import LEARNING_RATE
from keras_bert.tasks.multiple_choice.model import MultipleChoice
from keras_bert.tasks.question_answering.model import SpanClassifier
from keras_bert.tasks.ranking.model import CrossEncoder
from keras_bert.tasks.text_to_text.model import TextToText

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
    "score": (lambda: SequenceClassifier(CONFIG, ["score"], problem_type="regression"), TEXTS, [0.0, 0.9] * 16),
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


@pytest.mark.parametrize("name", slow_except(["tags"], TASKS))
def test_a_validation_split_is_the_last_examples(eagerly, name):
    _, x, y = TASKS[name]
    split = made(name).fit(x, y, batch_size=11, epochs=1, validation_split=0.3, verbose=0).history
    last = (part(x, 22, 32), y[22:]) if y else x[22:]
    args = (part(x, 0, 22), y[:22]) if y else (x[:22],)
    given = made(name).fit(*args, batch_size=11, epochs=1, validation_data=last, verbose=0).history
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
                with pytest.raises(InputError, match=f"={share} of {num_examples} examples leaves none"):
                    first_held_out(num_examples, share)
                continue
            first = first_held_out(num_examples, share)
            assert (len(kept), held_out.tolist()) == (first, list(range(first, num_examples)))


def test_class_weights_do_not_count_in_the_validation_split(eagerly):
    options = {"batch_size": 24, "validation_split": 0.25, "verbose": 0}
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
    """Two batches in a pass: three epochs of one update train on the same batches as one epoch of three."""
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
    short.fit(x, y, batch_size=16, epochs=3, steps_per_epoch=1, callbacks=[batches], verbose=0)
    assert batches.seen == [1, 1, 1]
    whole.fit(x, y, batch_size=16, epochs=1, steps_per_epoch=3, verbose=0)
    for left, right in zip(short.weights, whole.weights, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("name", slow_except(["classes"], TASKS))
def test_a_fit_that_was_killed_and_restored_trains_on_the_texts_of_an_undisturbed_one(eagerly, tmp_path, name):
    _, x, y = TASKS[name]

    class Killed(Exception):
        pass

    def fit(folder, killed_in=None):
        def die(epoch, logs):
            if epoch == killed_in:
                raise Killed

        model = made(name)
        backup = keras.callbacks.BackupAndRestore(tmp_path / folder)
        callbacks = [backup, keras.callbacks.LambdaCallback(on_epoch_begin=die)]
        model.fit(x, y, batch_size=16, epochs=2, callbacks=callbacks, verbose=0)
        return model

    with pytest.raises(Killed):
        fit("killed", killed_in=1)
    restored, undisturbed = fit("killed"), fit("whole")
    for left, right in zip(restored.get_weights(), undisturbed.get_weights(), strict=True):
        np.testing.assert_array_equal(left, right)
    assert len(restored.fit(x, y, batch_size=16, epochs=1, verbose=0).history["loss"]) == 1


class Recorder(keras.callbacks.Callback):
    """Records the names of the called methods, and the arguments of some."""

    def __init__(self):
        super().__init__()
        self.names, self.logs = [], None
        for name in itertools.product(("test", "predict"), ("begin", "batch_begin", "batch_end", "end")):
            setattr(self, f"on_{'_'.join(name)}", functools.partial(self.record, "_".join(name)))

    def record(self, name, *arguments, logs=None):
        self.names.append((name, *arguments[:1]) if "batch" in name else (name,))
        self.logs = logs or (arguments[-1] if arguments else None)


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
        ({"steps_per_epoch": 0}, "steps_per_epoch must be a whole number.* Received: 0"),
        ({"steps_per_epoch": 1.5}, "steps_per_epoch must be a whole number.* Received: 1.5"),
        ({"class_weight": "balanced", "sample_weight": [1.0] * 32}, "sample_weight or class_weight, not both"),
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
    [*((name, WORDS) for name in COPIES), (".keras", byte_pairs()), (".keras", sentence_pieces())],
)
def test_a_copy_of_a_model_keeps_the_vocabulary(copied, vocabulary, tmp_path):
    config = CONFIG.replace(vocab_size=len(vocabulary))
    model = SequenceClassifier(config, labels=["dog", "fox"])
    model.vocabulary = vocabulary
    texts = ["the fox", "a dog, the fox"]
    expected = [answer.probabilities for answer in model.predict(texts)]
    found = COPIES[copied](model, tmp_path)
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


KINDS = ("classes", "score", "tags", "questions", "choices", "vectors", "masks")
X = {
    "input_ids": np.array([[2, 5, 3], [2, 7, 3]] * 4),
    "input_mask": np.ones((8, 3), int),
    "segment_ids": np.zeros((8, 3), int),
}
Y = np.array([0, 1] * 4)


@pytest.mark.parametrize("name", slow_except(["classes", "score"], KINDS))
def test_callbacks_without_a_mode_know_the_direction_of_all_that_fit_logs(name, eagerly, tmp_path):
    _, x, y = TASKS[name]
    x, y = part(x, 0, 8), y and y[:8]
    args, held_out = ((x, y), (x, y)) if y else ((x,), x)
    model = made(name)
    logged = model.fit(*args, validation_data=held_out, batch_size=4, verbose=0).history
    assert "val_loss" in logged
    stops = [keras.callbacks.EarlyStopping(monitor=name, patience=9) for name in logged]
    saves = [keras.callbacks.ModelCheckpoint(tmp_path / "a.keras", name, save_best_only=True) for name in logged]
    model.fit(*args, validation_data=held_out, batch_size=4, verbose=0, callbacks=[*stops, *saves])
    for callback in (*stops, *saves):
        is_less = callback.monitor.endswith(("loss", "error", "perplexity"))
        assert callback.monitor_op is (keras.ops.less if is_less else keras.ops.greater)


def test_reduce_on_plateau_sets_the_rate_of_the_default_optimizer(eagerly):
    _, x, y = TASKS["classes"]
    for fit in (
        lambda model, **options: model.fit(x, y, **options),
        lambda model, **options: model.fit(X, Y, **options),
    ):
        model = made("classes", compiled=False)
        plateau = keras.callbacks.ReduceLROnPlateau(monitor="accuracy", factor=0.5, patience=1, min_delta=2.0)
        for _ in range(2):  # each fit begins with a new optimizer
            rates = fit(model, epochs=3, callbacks=[plateau], verbose=0).history["learning_rate"]
            np.testing.assert_allclose(rates, np.array([1, 1, 0.5]) * LEARNING_RATE, rtol=1e-6)


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 2

    def __getitem__(self, number):
        rows = slice(4 * number, 4 * number + 4)
        return {name: values[rows] for name, values in X.items()}, Y[rows]


def generator():
    while True:
        yield from (Batches()[number] for number in range(2))


# Kind -> the arguments of a `fit` of two epochs with two updates each.
DATA = {
    "arrays": lambda: {"x": X, "y": Y, "batch_size": 4},
    "split": lambda: {"x": X, "y": Y, "batch_size": 3, "validation_split": 0.25},
    "dataset": lambda: {"x": tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)},
    "PyDataset": lambda: {"x": Batches()},
    "generator": lambda: {"x": generator(), "steps_per_epoch": 2},
}


@pytest.mark.parametrize("kind", slow_except(["arrays", "generator"], DATA))
def test_a_fit_on_features_without_compile_has_the_default_optimizer(kind, eagerly):
    model = made("classes", compiled=False)
    for _ in range(2):
        model.fit(**DATA[kind](), epochs=2, verbose=0)
        assert model.is_compiled_for_one_fit
        assert model.optimizer._learning_rate.num_train_steps == int(model.optimizer.iterations) == 4


def test_what_the_default_optimizer_cannot_do_is_refused():
    with pytest.raises(InputError, match="Give steps_per_epoch, or call compile"):
        made("classes", compiled=False).fit(generator())
    with pytest.raises(InputError, match=r"BertPretrainer has no default learning rate. Call compile\(optimizer"):
        BertPretrainer(CONFIG).fit(X)
    model = made("classes", compiled=False)
    model.compile(AdamW(WarmupLinearDecay(1e-3, 4)))
    for callback in (keras.callbacks.ReduceLROnPlateau(), keras.callbacks.LearningRateScheduler(lambda epoch: 1e-3)):
        with pytest.raises(InputError, match=r"has a schedule, WarmupLinearDecay. Call compile with .* a number"):
            model.fit(X, Y, callbacks=[callback])


WEIGHTS = np.array([3.0, 0.0, 0.5, 10.0], "float32")
OF_TEXTS = {name: task for name, task in TASKS.items() if name != "masks"} | {
    "targets": (lambda: TextToText(CONFIG), TEXTS, TEXTS[::-1]),
    "relevances": (lambda: CrossEncoder(CONFIG), (TEXTS, TEXTS[::-1]), [0.0, 1.0] * 16),
    "lists": (lambda: CrossEncoder(CONFIG), (TEXTS, TEXTS[::-1], TEXTS), None),
}


@pytest.mark.parametrize(
    "kind", slow_except(["number", "tags", "span", "choice"], ["classes", "many", "number", "tags", "span", "choice"])
)
@pytest.mark.parametrize("in_features", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_loss_of_arrays_is_linear_in_the_weights_and_metrics_have_none(kind, in_features):
    model, batch = model_and_batch(kind)
    x, y = batch if isinstance(batch, tuple) else (batch, None)
    model.compile(AdamW(0.0), run_eagerly=True)

    def results(weights):
        inputs, given = ({**x, "example_weights": weights}, None) if in_features else (x, weights)
        return model.evaluate(inputs, y, sample_weight=given, batch_size=4, verbose=0, return_dict=True)

    plain = results(None if not in_features else np.ones(4, "float32"))
    of_each = [results(weights)["loss"] for weights in np.eye(4, dtype="float32")]
    assert sum(of_each) == pytest.approx(plain["loss"], rel=1e-5)
    weighted = results(WEIGHTS)
    assert weighted["loss"] == pytest.approx(np.sum(WEIGHTS * of_each), rel=1e-5)
    names = [name for name in plain if not name.endswith("loss")]
    assert [weighted[name] for name in names] == pytest.approx([plain[name] for name in names])


def with_rate_of_0(make, **arguments):
    keras.utils.set_random_seed(2)
    model = make()
    model.vocabulary = VOCABULARY
    model.compile(AdamW(0.0), **arguments)
    return model


@pytest.mark.parametrize("name", slow_except(["classes", "tags", "choices"], OF_TEXTS))
def test_a_weight_of_ten_for_all_texts_makes_the_loss_ten_times_as_large(name):
    make, x, y = OF_TEXTS[name]
    x, y, found = part(x, 0, 4), y and y[:4], []
    for weight, parts in ((None, 1), (10.0, 1), (10.0, 2)):
        weights = None if weight is None else [weight] * 4
        model = with_rate_of_0(make, gradient_accumulation_steps=parts, run_eagerly=True)
        found.append(model.fit(x, y, sample_weight=weights, batch_size=4, verbose=0).history)
    plain = found.pop(0)
    for history in found:
        assert history.pop("loss")[0] == pytest.approx(10 * plain["loss"][0], rel=1e-5)
        assert history == {name: pytest.approx(plain[name], rel=1e-5) for name in history}


def test_class_weights_are_those_of_keras(eagerly):
    """The same logits and labels in a model of Keras give the same numbers, for all kinds of metrics."""

    def metric(name):
        return keras.metrics.SparseCategoricalAccuracy(name=name)

    class_weight = {"negative": 10.0, "positive": 2.0}
    model = with_rate_of_0(TASKS["classes"][0], metrics=[metric("plain")], weighted_metrics=[metric("weighted")])
    logits = np.log([list(answer.probabilities.values()) for answer in model.predict(TEXTS)])
    theirs = keras.Sequential([keras.Input([2]), keras.layers.Dense(2, kernel_initializer="identity")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    theirs.compile(keras.optimizers.SGD(0.0), loss, metrics=[metric("plain")], weighted_metrics=[metric("weighted")])
    ids = np.array([["negative", "positive"].index(label) for label in LABELS])
    expected = theirs.fit(logits, ids, batch_size=8, class_weight={0: 10.0, 1: 2.0}, verbose=0).history
    for numbers in (class_weight, {0: 10.0, 1: 2.0}):
        history = model.fit(TEXTS, LABELS, batch_size=8, class_weight=numbers, verbose=0).history
        assert history["accuracy"] == pytest.approx(history["plain"], rel=1e-6)
        assert {name: history[name] for name in expected} == {
            name: pytest.approx(values, rel=1e-4) for name, values in expected.items()
        }
