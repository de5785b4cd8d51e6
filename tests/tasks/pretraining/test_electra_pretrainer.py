import keras
import numpy as np
import pytest
import tiny_pretraining
from numpy_bert import ACTIVATIONS, NumpyBert, log_likelihood, scatter_weights, softmax, weights_by_name
from pretraining_runs import RUN, pretrain
from training.test_pretraining import train_until_killed

from keras_bert import BertConfig, BertPretrainer, InputError, MaskedLM, ReplacedTokenDetector, SequenceClassifier
from keras_bert.checkpoints.formats import read_checkpoint
from keras_bert.checkpoints.keras_weights_file import keras_layout
from keras_bert.checkpoints.model_weights import model_weights
from keras_bert.checkpoints.tensorflow_checkpoint import read_tensorflow_checkpoint
from keras_bert.layers.token_replacement import draw_tokens
from keras_bert.tasks.pretraining.electra_pretrainer import ElectraPretrainer, generator_config
from keras_bert.training.pretraining import evaluate_pretrainer

pytestmark = pytest.mark.usefixtures("without_graphs")


def micro_config(size="electra-small", **changes):
    shape = {
        "vocab_size": 23,
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 1,
        "intermediate_size": 12,
        "max_position_embeddings": 10,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    shape |= {"position_buckets": 4} if size.startswith("deberta") else {}
    return BertConfig.from_size(size, **{**shape, "embedding_size": 8, **changes})


def records(**options):
    rows = tiny_pretraining.random_records(fewest=1, **options)
    del rows["next_sentence_labels"]
    return rows


def pretrainer(config=None, **arguments):
    arguments = {"generator_hidden_size": 1.0, "generator_layers": 0.5, **arguments}
    model = ElectraPretrainer(config or micro_config(), **arguments)
    scatter_weights(model)
    model.compile(optimizer="sgd")
    return model


def reference(model, x, uniform):
    """The results of `evaluate`, by NumPy and the formulas of google-research/electra, given its random numbers."""
    generator, detector = (
        NumpyBert(weights_by_name(part) | weights_by_name(part.encoder), part.config)
        for part in (model.generator, model.discriminator)
    )
    states, _ = generator.rows(x["input_ids"], x["input_mask"], x["segment_ids"])
    logits = generator.masked_lm_logits(states[-1], x["masked_lm_positions"])
    gumbel = -np.log(-np.log(uniform + 1e-9) + 1e-9)
    sampled = softmax(logits + gumbel).argmax(-1)
    weights, ids = x["masked_lm_weights"], x["masked_lm_ids"]
    replaced, labels = x["input_ids"].copy(), np.zeros_like(x["input_ids"])
    for row, entry in zip(*np.nonzero(weights), strict=True):
        column = x["masked_lm_positions"][row, entry]
        replaced[row, column] = sampled[row, entry]
        labels[row, column] = sampled[row, entry] != ids[row, entry]
    states, _ = detector.rows(replaced, x["input_mask"], x["segment_ids"])
    hidden = ACTIVATIONS["gelu_erf"](detector.dense("replaced_token_head/dense", states[-1]))
    scores = detector.dense("replaced_token_head/output_dense", hidden)[..., 0][x["input_mask"] > 0]
    labels = labels[x["input_mask"] > 0]
    found = scores > 0
    share = labels.mean()
    results = {
        "masked_lm_loss": -np.sum(weights * log_likelihood(logits, ids)) / (weights.sum() + 1e-6),
        "masked_lm_accuracy": np.sum(weights * (logits.argmax(-1) == ids)) / weights.sum(),
        "sampled_masked_lm_accuracy": np.sum(weights * (sampled == ids)) / weights.sum(),
        "disc_loss": np.mean(np.log(1 + np.exp(np.where(labels, -scores, scores)))),
        "disc_accuracy": np.mean(found == labels),
        "disc_precision": np.mean(labels[found]),
        "disc_recall": np.mean(found[labels == 1]),
        "disc_entropy": -share * np.log(share) - (1 - share) * np.log(1 - share),
    }
    return results | {"loss": results["masked_lm_loss"] + model.disc_weight * results["disc_loss"]}


@pytest.mark.parametrize("seed", [0, 1])
def test_loss_and_metrics_are_those_of_the_official_code_given_the_draws(seed):
    model, x = pretrainer(disc_weight=20.0), records(seed=seed)
    uniform = np.asarray(keras.random.uniform((6, 3, 23), seed=0), "float64")  # what an evaluation draws
    results = model.evaluate(x, batch_size=6, verbose=0, return_dict=True)
    assert results == pytest.approx(reference(model, x, uniform), rel=1e-5, abs=1e-6)


def test_tokens_are_drawn_with_the_probabilities_of_the_generator():
    model, x = pretrainer(), records(batch_size=1)
    x = {name: np.repeat(values, 4000, axis=0) for name, values in x.items()}
    outputs = model(x, training=True)
    probabilities = softmax(np.asarray(outputs["masked_lm_logits"], "float64")[0, 0])
    shares = np.bincount(np.asarray(outputs["sampled_ids"])[:, 0], minlength=23) / 4000
    np.testing.assert_allclose(shares, probabilities, atol=5 * np.sqrt(0.25 / 4000))
    # Every training step draws other tokens.
    assert np.any(np.asarray(outputs["sampled_ids"]) != np.asarray(model(x, training=True)["sampled_ids"]))


def test_a_drawn_token_that_is_the_original_one_counts_as_original():
    model, x = pretrainer(temperature=0.0), records()
    best = np.asarray(model(x)["sampled_ids"])
    right = {**x, "masked_lm_ids": best}
    assert not np.any(model(right)["is_replaced"])
    labels = np.asarray(model({**x, "masked_lm_ids": (best + 1) % 23})["is_replaced"])
    assert labels.sum() == x["masked_lm_weights"].sum()
    assert not labels[:, 0].any()
    assert not labels[:, 4:].any()


@pytest.mark.parametrize("embedding_size", [8, 4])
def test_both_models_share_one_variable_for_each_table(embedding_size):
    config = micro_config(embedding_size=embedding_size)
    model = ElectraPretrainer(config, generator_hidden_size=0.5)
    ours, theirs = (part.encoder.embeddings for part in (model.discriminator, model.generator))
    for name in ("token_embeddings", "position_embeddings", "segment_embeddings"):
        assert getattr(ours, name) is getattr(theirs, name)
    assert ours.layer_norm is theirs.layer_norm
    assert theirs.projected_size == (4 if embedding_size == 8 else None)
    tables = [weight for weight in model.trainable_weights if weight.shape[0] == 23 and len(weight.shape) == 2]
    assert len(tables) == 1


def test_the_table_learns_from_both_models(eagerly):
    x = records()
    table = []
    for weight in (1e-9, 50.0):
        keras.utils.set_random_seed(0)
        model = pretrainer(disc_weight=weight, temperature=0.0)
        model.compile(optimizer=keras.optimizers.SGD(0.1))
        before = model.encoder.embeddings.token_embeddings.numpy()
        model.fit(x, batch_size=6, verbose=0)
        table.append(model.encoder.embeddings.token_embeddings.numpy() - before)
    assert np.abs(table[0]).max() > 1e-3  # from the generator alone
    assert np.abs(table[1] - table[0]).max() > 1e-3


@pytest.mark.parametrize("size", ["electra-small", "deberta-v3-base"])
def test_packed_rows_have_the_loss_of_their_sequences_alone(size):
    model, alone = pretrainer(micro_config(size), temperature=0.0), records(batch_size=4, length=5)
    alone["input_mask"][:] = 1
    packed = {name: values.reshape(2, -1) for name, values in alone.items()}
    packed["input_mask"] = np.repeat([[1, 2]], 5, axis=1).reshape(1, -1).repeat(2, axis=0)
    packed["masked_lm_positions"] = packed["masked_lm_positions"] + np.repeat([[0, 5]], 3, axis=1)
    packed["cls_positions"] = np.array([[0, 5]] * 2)
    results = [model.evaluate(x, verbose=0, return_dict=True) for x in (alone, packed)]
    assert results[1] == pytest.approx(results[0], rel=1e-5)


def test_generator_and_discriminator_are_checkpoints_of_their_own(tmp_path):
    model = pretrainer(micro_config(embedding_size=4), generator_hidden_size=0.5)
    x = records()
    expected = model(x)
    model.save_pretrained(tmp_path / "both")
    again = ElectraPretrainer.from_pretrained(tmp_path / "both")
    assert (again.generator_hidden_size, again.generator_layers) == (0.5, 0.5)
    for name, values in again(x).items():
        np.testing.assert_array_equal(values, expected[name])
    classifier = SequenceClassifier.from_pretrained(tmp_path / "both", labels=["a", "b"])
    vectors = classifier.encoder(x)["sequence_output"]
    np.testing.assert_allclose(vectors, model.encoder(x)["sequence_output"], atol=1e-6)
    for format in ("keras_bert", "huggingface"):
        model.discriminator.save_pretrained(tmp_path / f"discriminator_{format}", format=format)
        model.generator.save_pretrained(tmp_path / f"generator_{format}", format=format)
        generator = MaskedLM.from_pretrained(tmp_path / f"generator_{format}")
        np.testing.assert_allclose(generator(x)["masked_lm_logits"], expected["masked_lm_logits"], atol=1e-5)
        discriminator = ReplacedTokenDetector.from_pretrained(tmp_path / f"discriminator_{format}")
        np.testing.assert_allclose(discriminator(x), model.discriminator(x), atol=1e-5)
    kinds = [read_checkpoint(tmp_path / f"{part}_huggingface").kind for part in ("discriminator", "generator")]
    assert kinds == ["Hugging Face ElectraForPreTraining", "Hugging Face ElectraForMaskedLM"]


def test_googles_checkpoint_has_both_models_and_one_set_of_tables(tmp_path):
    model = pretrainer(micro_config(embedding_size=4), generator_hidden_size=0.5)
    model.save_pretrained(tmp_path / "google", format="google")
    variables = read_tensorflow_checkpoint(str(tmp_path / "google" / "bert_model.ckpt"))
    assert {name.split("/")[0] for name in variables} == {
        "electra",
        "discriminator_predictions",
        "generator",
        "generator_predictions",
    }
    assert not [name for name in variables if name.startswith("generator/embeddings")]
    assert "electra/embeddings_project/kernel" in variables
    np.testing.assert_array_equal(
        variables["generator/encoder/layer_0/attention/self/query/kernel"].read(),
        model.generator.encoder.blocks[0].attention.query.kernel,
    )
    np.testing.assert_array_equal(
        variables["generator_predictions/output_bias"].read(), model.generator.masked_lm_head.output_bias
    )


def test_keras_file_brings_back_both_models_and_shared_tables(tmp_path, eagerly):
    model, x = pretrainer(), records()
    model.fit(x, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    for name, values in again(x).items():
        np.testing.assert_array_equal(values, model(x)[name])
    assert again.generator.encoder.embeddings.token_embeddings is again.encoder.embeddings.token_embeddings


def test_a_generator_of_the_same_size_starts_as_the_masked_lm_of_the_checkpoint(tmp_path, capsys):
    start = BertPretrainer(micro_config(intermediate_size=32))
    scatter_weights(start)
    start.save_pretrained(tmp_path / "start")
    x = records()
    model = ElectraPretrainer.from_pretrained(tmp_path / "start", generator_hidden_size=1.0)
    np.testing.assert_allclose(
        model(x)["masked_lm_logits"], start({**x, "next_sentence_labels": None})["masked_lm_logits"], atol=1e-5
    )
    capsys.readouterr()
    ElectraPretrainer.from_pretrained(tmp_path / "start")
    assert "newly initialised are: generator, replaced_token_head" in capsys.readouterr().out


RUN = {
    **RUN,
    "config": tiny_pretraining.CONFIG.replace(model_type="electra", embedding_size=8, embedding_projection=None),
    "objective": "replaced_tokens",
    "model_arguments": {"generator_hidden_size": 0.5},
}


@pytest.mark.slow
def test_a_killed_run_draws_the_same_tokens(tmp_path, monkeypatch):
    path = tiny_pretraining.write_records(tmp_path / "train.tfrecord", masked=False)
    train_until_killed(monkeypatch, 6, tmp_path / "killed", path, **RUN)
    killed, whole = (pretrain(tmp_path / name, path, **RUN) for name in ("killed", "whole"))
    for one, other in zip(killed.weights, whole.weights, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_folder_is_evaluated_by_its_objective_only(tmp_path):
    path = tiny_pretraining.write_records(tmp_path / "train.tfrecord", masked=False)
    model = ElectraPretrainer(RUN["config"], generator_hidden_size=0.5)
    model.save_pretrained(tmp_path / "run" / "model", tiny_pretraining.VOCABULARY)
    first, second = (evaluate_pretrainer(tmp_path / "run", path, objective="replaced_tokens") for _ in range(2))
    assert first == pytest.approx(second, rel=0, abs=0, nan_ok=True)
    assert {"loss", *ElectraPretrainer.loss_names, *ElectraPretrainer.metric_names} <= set(first)
    with pytest.raises(InputError, match="holds a ElectraPretrainer, but a BertPretrainer is needed"):
        evaluate_pretrainer(tmp_path / "run", path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"generator_hidden_size": 0.0}, "generator_hidden_size must be a number above 0 and at most 1"),
        ({"generator_hidden_size": 4}, "at most 1. Received: 4"),
        ({"disc_weight": 0.0}, "disc_weight must be a number above 0. Received: 0.0"),
        ({"temperature": -1.0}, "temperature must be a number of at least 0. Received: -1.0"),
        ({"config": BertConfig.from_size("modernbert-base")}, "cannot share the embeddings of the family 'modernbert'"),
        ({"config": BertConfig.from_size("mobilebert")}, "cannot share the embeddings of the family 'mobilebert'"),
    ],
)
def test_what_cannot_be_honoured_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        ElectraPretrainer(**{"config": micro_config(), **arguments})


def test_the_generator_has_the_official_sizes():
    small = generator_config(BertConfig.from_size("electra-small"), 0.25, 1.0)
    base = generator_config(BertConfig.from_size("electra-base"), 0.33333, 1.0)
    found = [
        (config.embedding_size, config.hidden_size, config.num_hidden_layers, config.intermediate_size)
        for config in (small, base)
    ]
    assert found == [(128, 64, 12, 256), (768, 256, 12, 1024)]
    assert (small.num_attention_heads, base.num_attention_heads) == (1, 4)


@pytest.mark.parametrize(
    ("size", "layers", "fraction", "embedding_size"),
    [
        ("electra-small", 0.3, 0.5, 4),  # both models project their tables
        ("electra-small", 0.3, 0.5, 8),  # the discriminator does
        ("electra-small", 1.0, 0.5, 16),  # the generator does
        ("electra-small", 1.0, 1.0, 16),
        ("deberta-v3-base", 0.3, 0.5, 8),
        ("deberta-v3-base", 0.3, 1.0, 16),
    ],
)
def test_a_folder_holds_every_weight_of_both_models(embedding_size, fraction, size, layers):
    config = micro_config(size, hidden_size=16, num_hidden_layers=3, embedding_size=embedding_size)
    arguments = {"generator_hidden_size": fraction, "generator_layers": layers}
    assert set(keras_layout(ElectraPretrainer, config, arguments)) == set(
        model_weights(ElectraPretrainer(config, **arguments))
    )


def test_the_temperature_divides_the_logits():
    logits = np.random.default_rng(0).normal(0, 3, (4, 50, 7)).astype("float32")
    drawn = [np.asarray(draw_tokens(*draw, seed=7)) for draw in ((logits, 2.0), (logits / 2, 1.0), (logits, 1.0))]
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert np.any(drawn[0] != drawn[2])
