"""The core runs on Keras' JAX backend, without TensorFlow, and gives the same numbers.

It runs if `jax` is installed in this Python or in the one that KERAS_BERT_JAX_PYTHON names.
"""

import json

import keras
import numpy as np
import pytest
import tiny
from family_training import new_model, outputs_before_and_after
from numpy_bert import scatter_weights
from on_jax import needs_jax, output_on_jax
from optimization.test_lamb import paper_steps
from optimization.test_optimization import NAMES, random_problem
from tiny_families import config_of, fewest_layers
from tiny_models import CONFIG as TEXT_CONFIG
from tiny_models import VOCABULARY

from keras_bert import registry
from keras_bert.accelerate import backend
from keras_bert.embeddings.text_vectors import sentence_embeddings
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.sparse.model import SparseEncoder
from keras_bert.tasks.tagging.model import TokenClassifier
from keras_bert.training.fine_tuning import train_few_shot
from keras_bert.training.language_modeling import evaluate_language_model, train_language_model
from keras_bert.training.pretraining import train_pretrainer
from keras_bert.training.pretraining_options import PretrainingRunOptions
from keras_bert.training.starting_point import StartingPoint
from run_scripts import run_classifier

CONFIG = tiny.config(50, dropout=0.0, num_hidden_layers=1)

# Reads weights and records, evaluates, takes two training steps, writes all numbers; then a step with dropout; then it
# answers texts with model folders that TensorFlow has written. Other tasks are trained in
# tests/training/test_jax_commands.py.
PROGRAM = """
import importlib.util, json, pathlib, sys
import keras, numpy as np
from keras_bert.config import BertConfig
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.question_answering.model import SpanClassifier

assert keras.config.backend() == "jax"
folder = pathlib.Path(sys.argv[1])
given = dict(np.load(folder / "input.npz"))
config = BertConfig.from_dict(json.loads(str(given["config"])))
records = {name: array for name, array in given.items() if name in json.loads(str(given["features"]))}
model = BertPretrainer(config)
model.set_weights([given[f"weight{index}"] for index in range(len(model.weights))])
results = {f"logits:{name}": array for name, array in model.predict(records, verbose=0).items()}
model.compile(optimizer=keras.optimizers.SGD(0.1))
for name, value in model.evaluate(records, batch_size=4, verbose=0, return_dict=True).items():
    results[f"metric:{name}"] = value
packed = records | {name.removeprefix("packed:"): array for name, array in given.items() if name.startswith("packed:")}
for name, value in model.evaluate(packed, batch_size=6, verbose=0, return_dict=True).items():
    results[f"packed_metric:{name}"] = value
model.fit(records, batch_size=3, epochs=1, shuffle=False, verbose=0)
for index, weight in enumerate(model.get_weights()):
    results[f"after:{index}"] = weight
np.savez(folder / "output.npz", **results)

keras.config.set_dtype_policy("mixed_bfloat16")
classifier = SequenceClassifier(config.replace(hidden_dropout_prob=0.5), ["no", "yes"])
classifier.compile(optimizer="adam")
loss = classifier.fit(records, np.arange(6) % 2, verbose=0).history["loss"][0]
assert np.isfinite(loss)
reader = SpanClassifier(config)
reader.compile(optimizer="adam")
labels = {"start_positions": np.full((6, 1), 3, "int32"), "end_positions": np.full((6, 1), 4, "int32")}
assert np.isfinite(reader.evaluate(records | labels, verbose=0)[0])
labels["end_positions"][0] = 9
assert np.isnan(reader.evaluate(records | labels, verbose=0)[0])
assert "tensorflow" not in sys.modules, "the core imported TensorFlow"
classifier.save(folder / "classifier.keras")  # Keras imports TensorFlow here, if it is installed
assert keras.models.load_model(folder / "classifier.keras").labels == ("no", "yes")

keras.config.set_dtype_policy("float32")
if importlib.util.find_spec("tensorflow_text"):
    from keras_bert import BertEncoder, TokenClassifier, sentence_embeddings
    texts = json.loads((folder / "texts.json").read_text())
    classifier = SequenceClassifier.from_pretrained(folder / "classifier")
    tagger = TokenClassifier.from_pretrained(folder / "tagger")
    encoder = BertEncoder.from_pretrained(folder / "classifier")
    found = {
        "probabilities": [list(answer.probabilities.values()) for answer in classifier.predict(texts)],
        "scores": classifier.evaluate(texts, [0, 1]),
        "tags": [answer.log_probabilities.tolist() for answer in tagger.predict(texts)],
        "vectors": sentence_embeddings(encoder, texts).tolist(),
    }
    (folder / "answers.json").write_text(json.dumps(found))
"""


# The models of all families: their logits before and after a training step.
FAMILIES_PROGRAM = """
import json, sys
import keras, numpy as np
from family_training import new_model, outputs_before_and_after
from keras_bert.config import BertConfig

assert keras.config.backend() == "jax"
given, found = np.load(sys.argv[1]), {}
for family, config in json.loads(str(given["configs"])).items():
    model = new_model(BertConfig.from_dict(config))
    model.set_weights([given[f"{family} {number}"] for number in range(len(model.weights))])
    found[f"{family} before"], found[f"{family} after"] = outputs_before_and_after(model, given, given["labels"])
np.savez(sys.argv[2], **found)
assert "tensorflow" not in sys.modules
"""


def random_records():
    generator = np.random.default_rng(0)
    masks = [[1] * 9, [1] * 5 + [0] * 4, [0] * 3 + [1] * 6, [1, 1, 1, 2, 2, 2, 2, 3, 0], [1] * 9, [1] * 9]
    weights = [[1.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [1.0, 1.0]]
    records = {
        "input_ids": generator.integers(0, 50, (6, 9)),
        "input_mask": np.array(masks),
        "segment_ids": generator.integers(0, 2, (6, 9)),
        "masked_lm_positions": generator.integers(3, 5, (6, 2)),
        "masked_lm_ids": generator.integers(0, 50, (6, 2)),
        "next_sentence_labels": generator.integers(0, 2, (6, 1)),
    }
    records = {name: array.astype("int32") for name, array in records.items()}
    packed = {
        "cls_positions": np.array([[0, 0, 0], [0, 0, 0], [3, 0, 0], [0, 3, 7]] + [[0, 0, 0]] * 2, "int32"),
        "next_sentence_labels": generator.integers(0, 2, (6, 3)).astype("int32"),
        "next_sentence_weights": np.array([[1, 0, 0]] * 3 + [[1, 1, 1]] + [[1, 0, 0]] * 2, "float32"),
    }
    return records | {"masked_lm_weights": np.array(weights, "float32")}, packed


TEXTS = ["the fox", "", "a dog and the fox, " * 4]


def text_models():
    keras.utils.set_random_seed(1)
    models = SequenceClassifier(TEXT_CONFIG, ["no", "yes"]), TokenClassifier(TEXT_CONFIG, ["O", "B-X", "I-X"])
    for model in models:
        model.vocabulary = VOCABULARY
    return models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of `PROGRAM`, after its run."""
    if keras.config.backend() != "tensorflow":
        pytest.skip("compares with the TensorFlow backend")
    path = tmp_path_factory.mktemp("jax")
    records, packed = random_records()
    model = BertPretrainer(CONFIG)
    scatter_weights(model)
    arrays = {f"weight{index}": weight for index, weight in enumerate(model.get_weights())}
    arrays |= records | {f"packed:{name}": array for name, array in packed.items()}
    np.savez(path / "input.npz", config=json.dumps(CONFIG.to_dict()), features=json.dumps(list(records)), **arrays)
    for name, text_model in zip(("classifier", "tagger"), text_models(), strict=True):
        text_model.save_pretrained(path / name)
    (path / "texts.json").write_text(json.dumps([text for text in TEXTS if text]))
    output_on_jax(PROGRAM, path)
    return path


@needs_jax
def test_predictions_metrics_and_training_steps_equal_those_of_tensorflow(folder):
    theirs, (records, packed) = np.load(folder / "output.npz"), random_records()
    model = BertPretrainer(CONFIG)
    scatter_weights(model)
    starts_with_a_token = records["input_mask"][:, 0] > 0
    logits = model.predict(records, verbose=0)
    for name, rows in (("masked_lm_logits", slice(None)), ("next_sentence_logits", starts_with_a_token)):
        np.testing.assert_allclose(logits[name][rows], theirs[f"logits:{name}"][rows], atol=1e-5)
    model.compile(optimizer=keras.optimizers.SGD(0.1))
    for name, value in model.evaluate(records, batch_size=4, verbose=0, return_dict=True).items():
        assert theirs[f"metric:{name}"] == pytest.approx(value, rel=1e-5), name
    for name, value in model.evaluate(records | packed, batch_size=6, verbose=0, return_dict=True).items():
        assert theirs[f"packed_metric:{name}"] == pytest.approx(value, rel=1e-5), name
    model.fit(records, batch_size=3, epochs=1, shuffle=False, verbose=0)
    for index, weight in enumerate(model.get_weights()):
        np.testing.assert_allclose(theirs[f"after:{index}"], weight, atol=1e-5)


@needs_jax
def test_texts_have_the_answers_that_tensorflow_gives(folder):
    if not (folder / "answers.json").exists():
        pytest.skip("that Python has no tensorflow-text, which tokenises")
    found, texts = json.loads((folder / "answers.json").read_text()), [text for text in TEXTS if text]
    classifier, tagger = text_models()
    answers = [list(answer.probabilities.values()) for answer in classifier.predict(texts)]
    np.testing.assert_allclose(found["probabilities"], answers, atol=1e-5)
    assert found["scores"] == pytest.approx(classifier.evaluate(texts, [0, 1]), abs=1e-5, nan_ok=True)
    for theirs, ours in zip(found["tags"], tagger.predict(texts), strict=True):
        np.testing.assert_allclose(theirs, ours.log_probabilities, atol=1e-5)
    np.testing.assert_allclose(found["vectors"], sentence_embeddings(classifier, texts), atol=1e-5)


# Takes jitted steps of LAMB with averaged weights, then gives the weights their averages.
LAMB_PROGRAM = """
import json, sys
import jax, keras
from keras_bert.optimization import LAMB, PhasedSchedule, WarmupConstant, WarmupPolynomialDecay, WarmupTrapezoid

assert keras.config.backend() == "jax"
problem = json.load(sys.stdin)
variables = [keras.Variable(w, dtype="float64", name=n) for w, n in zip(problem["weights"], problem["names"])]
schedule = PhasedSchedule(
    WarmupPolynomialDecay(0.1, 4, 2, power=0.5), WarmupTrapezoid(0.2, 4, 1, num_decay_steps=2), num_first_steps=4
)
optimizer = LAMB(schedule, weight_decay=0.3, use_ema=True, ema_momentum=0.9)
optimizer.build(variables)
step = jax.jit(optimizer.stateless_apply)
for gradients in problem["gradients"]:
    gradients = [keras.ops.convert_to_tensor(gradient, "float64") for gradient in gradients]
    values = step([v.value for v in optimizer.variables], gradients, [v.value for v in variables])
    for variable, value in zip([*variables, *optimizer.variables], [*values[0], *values[1]]):
        variable.assign(value)
trained = [variable.numpy().tolist() for variable in variables]
optimizer.finalize_variable_values(variables)
json.dump({"trained": trained, "averaged": [variable.numpy().tolist() for variable in variables]}, sys.stdout)
assert "tensorflow" not in sys.modules, "the core imported TensorFlow"
"""


@needs_jax
def test_lamb_its_schedules_and_averaged_weights_are_the_formulas_on_jax_too():
    weights, gradients = random_problem(num_steps=8)
    problem = {
        "names": NAMES,
        "weights": [weight.tolist() for weight in weights],
        "gradients": [[gradient.tolist() for gradient in step] for step in gradients],
    }
    found = json.loads(output_on_jax(LAMB_PROGRAM, input=json.dumps(problem), JAX_ENABLE_X64="1"))
    rates = [0.0, 0.05, 0.1 * 0.5**0.5, 0.1 * 0.25**0.5, 0.0, 0.2, 0.2, 0.1]
    after = [paper_steps(weights, gradients[:count], rates[:count], decay=0.3) for count in range(1, 9)]
    averages = after[0]
    for step_weights in after[1:]:
        averages = [0.9 * average + 0.1 * weight for average, weight in zip(averages, step_weights, strict=True)]
    for name, expected in (("trained", after[-1]), ("averaged", averages)):
        for left, right in zip(found[name], expected, strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-7)


def test_texts_go_through_a_whole_batch_at_a_time_where_the_backend_is_not_tensorflow(monkeypatch):
    # Runs the code path for JAX on TensorFlow, by simulating another backend.
    classifier, tagger = text_models()
    expected = [model.predict(["the fox", "a dog and the fox, " * 4]) for model in (classifier, tagger)]
    vectors = sentence_embeddings(classifier, TEXTS)
    monkeypatch.setattr(backend, "on_tensorflow", lambda: False)
    monkeypatch.setattr(backend, "tensorflow_functions", None)
    found = [model.predict(["the fox", "a dog and the fox, " * 4]) for model in (classifier, tagger)]
    for theirs, ours in zip(expected[0], found[0], strict=True):
        assert theirs.probability == pytest.approx(ours.probability, abs=1e-5)
    for theirs, ours in zip(expected[1], found[1], strict=True):
        np.testing.assert_allclose(theirs.log_probabilities, ours.log_probabilities, atol=1e-5)
    np.testing.assert_allclose(sentence_embeddings(classifier, TEXTS), vectors, atol=1e-5)


def sparse_encoder():
    return tiny.made(SparseEncoder, TEXT_CONFIG, VOCABULARY)


def few_shot(folder):
    train_few_shot(folder, None, start=StartingPoint(), options=None, model_arguments={})


REMEMBERING = PretrainingRunOptions(mem_len=4)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (lambda folder: train_pretrainer(folder, "x", StartingPoint(), REMEMBERING), r"A memory between.*\(mem_len\)"),
        (lambda folder: train_language_model(folder, "x", StartingPoint()), "Training a language model"),
        (lambda folder: evaluate_language_model(folder, "x"), "Evaluating a language model"),
        (few_shot, "Few-shot training"),
        (lambda folder: text_models()[0].explain("the fox"), "Explaining"),
        (lambda folder: sparse_encoder().fit((["the fox", "a"], ["a dog", "fox"])), r"A rise.*\(warmup_ratio\)"),
        (lambda folder: text_models()[0].export_for_serving(folder), "Exporting for serving"),
    ],
)
def test_work_that_needs_tensorflow_is_refused_by_name_before_it_begins(monkeypatch, tmp_path, start, message):
    monkeypatch.setattr(backend, "on_tensorflow", lambda: False)
    with pytest.raises(InputError, match=f"^{message}.* needs TensorFlow as "):
        start(tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_explanations_are_refused_before_the_training(monkeypatch, tmp_path, refused_here):
    monkeypatch.setattr(backend, "on_tensorflow", lambda: False)
    for name in ("train", "test"):
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\nthe fox\tx\na dog\ty\n")
    output = tmp_path / "run"
    flags = [f"--data_dir={tmp_path}", "--init_checkpoint=none", "--do_train", "--do_predict", "--explain=page.html"]
    printed = refused_here(run_classifier, *flags, f"--output_dir={output}")
    assert "error: --explain needs TensorFlow" in printed.err
    assert not output.exists()


@pytest.mark.slow
@needs_jax
def test_every_family_computes_and_learns_as_on_tensorflow(tmp_path):
    generator = np.random.default_rng(1)
    batch = {
        "input_ids": generator.integers(5, 50, (3, 9)).astype("int32"),
        "input_mask": np.array([[1] * 9, [1] * 5 + [0] * 4, [1] * 2 + [0] * 7], "int32"),
        "segment_ids": np.array([[0] * 4 + [1] * 5, [0] * 9, [0] * 9], "int32"),
    }
    labels, given, expected, configs = np.array([0, 1, 1], "int32"), {}, {}, {}
    shape = {name: getattr(CONFIG, name) for name in ("vocab_size", "hidden_size", "num_attention_heads")}
    shape |= {"intermediate_size": 32, "max_position_embeddings": 16}
    shape |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    for family in sorted(registry.FAMILIES.keys() - {"static"}):  # it has no layers, so a task has nothing to train
        config = config_of(family, **shape, **fewest_layers(family))
        configs[family] = config.to_dict()
        model = new_model(config)
        scatter_weights(model)
        given |= {f"{family} {number}": weight for number, weight in enumerate(model.get_weights())}
        expected[f"{family} before"], expected[f"{family} after"] = outputs_before_and_after(model, batch, labels)
    np.savez(tmp_path / "given.npz", configs=json.dumps(configs), labels=labels, **batch, **given)
    output_on_jax(FAMILIES_PROGRAM, tmp_path / "given.npz", tmp_path / "found.npz")
    with np.load(tmp_path / "found.npz") as found:
        for name, logits in expected.items():
            np.testing.assert_allclose(found[name], logits, atol=1e-5, err_msg=name)
            if name.endswith("after"):
                assert np.abs(logits - expected[name.replace("after", "before")]).max() > 1e-3
