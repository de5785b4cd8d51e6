"""A program for the tests of distribution: trains a tiny BERT in several layouts and writes the results of each.

    python tests/distributed_runs.py --setting=clipped --output=FOLDER one parts4 mirrored2

A layout is `one` (device), `partsN` (gradient accumulation), `mirroredN`, `mirroredN_partsM`, or `workers` (one of
several processes; TF_CONFIG says which). Logical devices of one CPU replace several devices: sums are the same.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import re
import runpy

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf
from tiny_families import config_of, fewest_layers

from keras_bert import registry
from keras_bert.config import BertConfig
from keras_bert.encoders.stream_memory import StreamMemory, remember
from keras_bert.models.distiller import TERMS, Distiller
from keras_bert.models.encoder_base import make_encoder
from keras_bert.models.trainable_parts import enable_lora, freeze
from keras_bert.optimization import LAMB, AdamW, WarmupLinearDecay
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.embedding.contrastive_losses import OnlineContrastive
from keras_bert.tasks.embedding.mixed_loss import MixedLoss
from keras_bert.tasks.embedding.model import SentenceEncoder
from keras_bert.tasks.embedding.teacher_losses import GISTEmbed
from keras_bert.tasks.masked_lm.model import MaskedLM
from keras_bert.tasks.multi_vector.model import MultiVectorEncoder
from keras_bert.tasks.pretraining.electra_pretrainer import ElectraPretrainer
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.ranking.losses import LambdaLoss, MixedRankingLoss, RankingMarginMSE
from keras_bert.tasks.ranking.model import CrossEncoder
from keras_bert.tasks.sparse.losses import SpladeLoss
from keras_bert.tasks.sparse.model import SparseEncoder
from keras_bert.tasks.tagging.model import TokenClassifier
from keras_bert.tasks.text_to_text.model import TextToText

BATCH, LENGTH, PREDICTIONS, STEPS = 8, 12, 4, 20


def config(dropout=0.0, family="bert") -> BertConfig:
    shape = {"vocab_size": 40, "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    shape |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    shape |= {**fewest_layers(family), "max_position_embeddings": LENGTH}
    shape["max_position_embeddings"] += registry.family(family).defaults.get("position_offset", 0)
    return config_of(family, **shape)


def features() -> dict[str, np.ndarray]:
    """Twenty batches whose rows have very different numbers of masked tokens: none in the first quarter of a batch."""
    draw = np.random.default_rng(0)
    rows = BATCH * STEPS
    lengths = draw.integers(4, LENGTH + 1, rows)
    mask = (np.arange(LENGTH) < lengths[:, None]).astype(np.int32)
    share = np.tile(np.linspace(-0.3, 1.0, BATCH), STEPS)[:, None]
    return {
        "input_ids": draw.integers(5, 40, (rows, LENGTH)).astype(np.int32) * mask,
        "input_mask": mask,
        "segment_ids": draw.integers(0, 2, (rows, LENGTH)).astype(np.int32),
        "masked_lm_positions": np.sort(draw.integers(1, 4, (rows, PREDICTIONS))).astype(np.int32),
        "masked_lm_ids": draw.integers(5, 40, (rows, PREDICTIONS)).astype(np.int32),
        "masked_lm_weights": (draw.random((rows, PREDICTIONS)) < share).astype(np.float32),
        "next_sentence_labels": draw.integers(0, 2, (rows, 1)).astype(np.int32),
    }


def pretraining_data() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(features()).batch(BATCH, drop_remainder=True)


def stream_data() -> tf.data.Dataset:
    """As `pretraining_data`, in rows of XLNet that continue in the next batch, from the 12th on in new streams."""
    x = features()
    draw = np.random.default_rng(4)
    x["input_mask"] = np.ones_like(x["input_mask"])
    x["prediction_order"] = draw.integers(0, LENGTH, x["input_ids"].shape).astype(np.int32)
    x["stream_row"] = np.repeat(np.arange(STEPS) % 11, BATCH)[:, None].astype(np.int32)
    x["reuse_len"] = np.full((BATCH * STEPS, 1), 5, np.int32)
    return tf.data.Dataset.from_tensor_slices(x).batch(BATCH, drop_remainder=True)


def electra_data() -> tf.data.Dataset:
    """As `pretraining_data`, with four different positions in each row."""
    x = features()
    columns = np.tile(np.arange(PREDICTIONS, dtype=np.int32), (len(x["input_ids"]), 1))
    return tf.data.Dataset.from_tensor_slices({**x, "masked_lm_positions": columns}).batch(BATCH, drop_remainder=True)


def tagging_data() -> tf.data.Dataset:
    """Features, tags (some are -1: no tag), and weights of the rows. The last batch is smaller."""
    x = features()
    draw = np.random.default_rng(1)
    tags = draw.integers(-1, 3, x["input_ids"].shape).astype(np.int32)
    x = {name: x[name][:-3] for name in ("input_ids", "input_mask", "segment_ids")}
    weights = draw.random(len(tags)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((x, tags[:-3], weights[:-3])).batch(BATCH)


def classification_data(names=("input_ids", "input_mask", "segment_ids")) -> tf.data.Dataset:
    x = features()
    labels = x["next_sentence_labels"][:-3, 0]
    x = {name: x[name][:-3] for name in names}
    return tf.data.Dataset.from_tensor_slices((x, labels)).batch(BATCH)


def embedding_data() -> tf.data.Dataset:
    """Examples of three texts, some of them equal, with weights; the last batch is smaller."""
    x = features()
    rows = len(x["input_ids"]) // 3 - 2
    x = {name: x[name][: 3 * rows].reshape(rows, 3, LENGTH) for name in names_for("bert")}
    x["text_numbers"] = np.random.default_rng(2).integers(0, 60, (rows, 3)).astype(np.int32)
    x["example_weights"] = np.random.default_rng(3).random(rows).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(x).batch(BATCH)


def mixed_data() -> tf.data.Dataset:
    """Batches of two data sets in turn: two texts and an integer label, and three texts; the last ones are smaller."""
    x = features()
    count = len(x["input_ids"]) // 5 - 1
    ids = {name: x[name] for name in names_for("bert")}
    parts = []
    for number, (first, num_texts) in enumerate([(0, 2), (2 * count, 3)]):
        part = {name: ids[name][first : first + count * num_texts].reshape(count, num_texts, LENGTH) for name in ids}
        labels = np.random.default_rng(number).integers(0, 3, (count, num_texts)).astype(np.float32)
        part["label_ids"] = np.insert(labels[:, : num_texts if number else 1], 0, number, axis=1)
        part["example_weights"] = np.random.default_rng(3).random(count).astype(np.float32)
        parts.append(part)
    starts = range(0, count, BATCH)
    batches = [{name: part[name][start : start + BATCH] for name in part} for start in starts for part in parts]
    spec = {name: tf.TensorSpec([None] * values.ndim, values.dtype) for name, values in batches[0].items()}
    return tf.data.Dataset.from_generator(lambda: batches, output_signature=spec)


def mixed_encoder():
    model = SentenceEncoder(config(), dense=[{"units": 8}])
    model.set_loss_of_examples(MixedLoss(((OnlineContrastive(), 2, ()), (GISTEmbed(), 3, (3, 1)))))
    return model


def mixed_ranker():
    model = CrossEncoder(config())
    model.set_loss_of_examples(MixedRankingLoss(((RankingMarginMSE(), 2, 1), (LambdaLoss(), 3, 3))))
    return model


def multi_vector_data() -> tf.data.Dataset:
    """As `embedding_data`, with masks behind each text to which no token attends."""
    return embedding_data().map(lambda x: {**x, "score_mask": tf.ones_like(x["input_mask"])})


def text_to_text_data() -> tf.data.Dataset:
    """Sources, and targets of very different lengths."""
    x = features()
    mask = (np.arange(LENGTH) < np.random.default_rng(4).integers(2, LENGTH + 1, len(x["input_ids"]))[:, None]) * 1
    x = {name: x[name] for name in names_for("bert")} | {"target_ids": x["input_ids"][::-1], "target_mask": mask}
    return tf.data.Dataset.from_tensor_slices(x).batch(BATCH)


def schedule():
    return WarmupLinearDecay(2e-3, STEPS, 2)


class RegularisedTagger(TokenClassifier):
    """Has losses that depend on the weights only: a regulariser, and `add_loss`."""

    def __init__(self, config, **arguments):
        super().__init__(config, **arguments)
        self.token_classifier.kernel.regularizer = keras.regularizers.L2(0.3)

    def call(self, inputs, training=False):
        self.add_loss(0.2 * keras.ops.sum(keras.ops.square(self.encoder.embeddings.position_embeddings)))
        return super().call(inputs, training=training)


def distilled_pretrainer():
    student, teacher = BertPretrainer(config()), MaskedLM(config(family="distilbert").replace(hidden_size=24))
    return Distiller(student, teacher, [name for name in TERMS if name != "embeddings"])


def three_layers(family="bert", **changes) -> BertConfig:
    """Returns a config with as many layers as share a trace, with larger weights."""
    return config(family=family).replace(num_hidden_layers=3, initializer_range=0.2, **changes)


def classifier(change):
    """A task model of which parts are trained."""
    model = SequenceClassifier(three_layers(), labels=["a", "b"])
    change(model)
    return model


def own_model(change=None, family="bert", model_class=keras.Model):
    """A user's own functional model around an encoder."""
    encoder = make_encoder(three_layers(family))
    if change:
        change(encoder)
    inputs = {name: keras.Input([None], dtype="int32", name=name) for name in names_for(family)}
    return model_class(inputs, keras.layers.Dense(1)(encoder(inputs)["sequence_output"][:, 0]))


@keras.saving.register_keras_serializable()
class OwnLoop(keras.Model):
    """A user's own model with a training loop of its own."""

    def fit(self, data, verbose):
        strategy = tf.distribute.get_strategy() if self.distribute_strategy is None else self.distribute_strategy

        def step(x, y):
            with tf.GradientTape() as tape:
                errors = tf.cast(y, tf.float32)[:, None] - self(x, training=True)
                loss = tf.reduce_sum(tf.square(errors)) / BATCH
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))

        run = tf.function(lambda batch: strategy.run(step, args=batch), autograph=False)
        for batch in strategy.experimental_distribute_dataset(data):
            run(batch)
        return keras.callbacks.History()

    def evaluate(self, data, **arguments):
        return {}


def own_data():
    return classification_data().take(4)


def sgd():
    return keras.optimizers.SGD(0.02)


def recomputed(encoder) -> None:
    encoder.gradient_checkpointing = True


def clipping_adamw():
    # Without a large epsilon, Adam would scale up gradients that are 0 but for rounding.
    return AdamW(1e-2, epsilon=1e-2, global_clipnorm=0.1)


def adamw():
    return AdamW(schedule())


def setting(make_model, make_optimizer=adamw, make_data=pretraining_data, **compile_arguments):
    """Returns a setting: model, optimiser, data, further arguments of `compile`."""
    return make_model, make_optimizer, make_data, compile_arguments


def pretrainer(dropout=0.0, family="bert", **arguments):
    """Returns a function that makes the model."""
    return lambda: BertPretrainer(config(dropout, family), **arguments)


def electra(family="electra", **arguments):
    """Returns a setting whose generator draws tokens, or takes the likeliest ones with `temperature=0`."""
    return setting(
        lambda: ElectraPretrainer(config(family=family), generator_hidden_size=0.5, **arguments),
        lambda: AdamW(schedule(), bias_correction=False, global_clipnorm=1.0),
        electra_data,
    )


SETTINGS = {
    "adamw": setting(pretrainer(), lambda: AdamW(schedule(), bias_correction=False)),
    "clipped": setting(pretrainer(), lambda: AdamW(schedule(), global_clipnorm=0.02)),
    "keras_adam": setting(
        pretrainer(), lambda: keras.optimizers.Adam(2e-3, global_clipnorm=0.02), steps_per_execution=3
    ),
    "lamb": setting(
        pretrainer(),
        lambda: LAMB(WarmupLinearDecay(1e-2, STEPS, 2), global_clipnorm=0.5, use_ema=True, ema_momentum=0.9),
    ),
    "xla": setting(pretrainer(), jit_compile=True),
    "memory": setting(
        pretrainer(family="xlnet"),
        lambda: AdamW(schedule(), bias_correction=False),
        stream_data,
        memory=(7, BATCH),
    ),
    "tagging": setting(lambda: TokenClassifier(config(), labels=["a", "b", "c"]), make_data=tagging_data),
    "regularised": setting(
        lambda: RegularisedTagger(config(), labels=["a", "b", "c"]),
        lambda: keras.optimizers.SGD(0.05),
        lambda: tagging_data().skip(STEPS - 4).take(3),
    ),
    "metrics": setting(
        lambda: SequenceClassifier(config(), labels=["a", "b"]),
        make_data=classification_data,
        metrics=["sparse_categorical_accuracy"],
    ),
    "embedding": setting(lambda: SentenceEncoder(config(), dense=[{"units": 8}]), make_data=embedding_data),
    "mixed_embedding": setting(mixed_encoder, make_data=mixed_data),
    # The gradient of the last bias is 0 but for rounding, which Adam would scale up.
    "mixed_ranking": setting(mixed_ranker, lambda: keras.optimizers.SGD(0.05), mixed_data),
    "sparse": setting(
        lambda: SparseEncoder(config(), static_queries=True),
        make_data=embedding_data,
        loss=SpladeLoss(document_regularizer_weight=0.01),
    ),
    "multi_vector": setting(
        lambda: MultiVectorEncoder(config(), dense=[{"units": 8}], query_expansion={"length": LENGTH}),
        make_data=multi_vector_data,
    ),
    "text_to_text": setting(lambda: TextToText(config()), make_data=text_to_text_data),
    "distilled": setting(distilled_pretrainer),
    "electra_argmax": electra(temperature=0.0),
    "deberta_argmax": electra("deberta-v2", temperature=0.0),
    "electra_draws": electra(),
    "dropout": setting(pretrainer(0.3)),
    "own_lora": setting(lambda: own_model(lambda encoder: enable_lora(encoder, 2)), sgd, own_data, loss="mse"),
    "own_recomputed": setting(lambda: own_model(recomputed), sgd, own_data, loss="mse"),
    "own_loop": setting(lambda: own_model(model_class=OwnLoop), clipping_adamw, own_data),
    "classifier_frozen": setting(lambda: classifier(lambda model: freeze(model, whole_encoder=True)), sgd, own_data),
    "classifier_lora": setting(lambda: classifier(lambda model: enable_lora(model, 2)), sgd, own_data),
}


def names_for(family: str) -> list[str]:
    names = ["input_ids", "input_mask", "segment_ids"]
    return names if config(family=family).type_vocab_size > 1 else names[:2]


def make_devices() -> None:
    """Splits the CPU into four logical devices and hides GPUs. Call it before TensorFlow's first operation."""
    tf.config.set_visible_devices([], "GPU")
    devices = [tf.config.LogicalDeviceConfiguration()] * 4
    tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], devices)


def strategy_and_parts(layout: str):
    if layout == "workers":
        return tf.distribute.MultiWorkerMirroredStrategy(), 1
    match = re.fullmatch(r"(?:one|(?:mirrored(\d+))?_?(?:parts(\d+))?)", layout)
    devices, parts = (int(number) if number else 1 for number in match.groups())
    if not match[1]:
        return None, parts
    # All collective operations of a process would need the same size.
    reduction = tf.distribute.ReductionToOneDevice()
    names = [f"CPU:{number}" for number in range(devices)]
    return tf.distribute.MirroredStrategy(names, cross_device_ops=reduction), parts


def train(setting: str, layout: str) -> dict:
    """Returns `logs` of training and evaluation and `weights`, before and after."""
    make_model, make_optimizer, make_data, arguments = SETTINGS[setting]
    strategy, parts = strategy_and_parts(layout)
    with strategy.scope() if strategy else contextlib.nullcontext():
        keras.utils.set_random_seed(3)
        model = make_model()
        arguments = {"jit_compile": False, **arguments}
        if parts > 1:
            arguments["gradient_accumulation_steps"] = parts
        memory = arguments.pop("memory", None)
        model.compile(make_optimizer(), **arguments)
        if memory:
            remember(model, *memory)
        before = _state(model)
    history = model.fit(make_data(), verbose=0).history
    evaluated = model.evaluate(make_data(), verbose=0, return_dict=True)
    logs = {name: float(values[-1]) for name, values in history.items()}
    logs |= {f"evaluated_{name}": float(value) for name, value in evaluated.items()}
    return {"logs": logs, "before": before, "after": _state(model)}


def _state(model) -> list[np.ndarray]:
    """Returns the weights and the memory between batches, which is assigned too, as from a checkpoint."""
    memory = model.between_batches.variables if getattr(model, "between_batches", None) else []
    for variable in memory:
        variable.assign(variable.value.numpy())
    return [variable.numpy() for variable in model.weights] + [variable.value.numpy() for variable in memory]


def gradients_of_own_model(family: str) -> list[float]:
    """Returns the largest gradient of a user's own model, and for each of its weights the largest difference between
    the gradient of two devices in a graph and that of one device without a graph."""
    with strategy_and_parts("mirrored2")[0].scope():
        keras.utils.set_random_seed(3)
        model = own_model(family=family)
        strategy = tf.distribute.get_strategy()
    x, y = next(iter(classification_data(names_for(family))))

    def gradients(x, y):
        with tf.GradientTape() as tape:
            outputs = model(x, training=True)
            loss = tf.reduce_mean(tf.square(tf.cast(y, tf.float32)[:, None] - outputs))
        found = tape.gradient(loss, model.trainable_variables)
        return [tf.convert_to_tensor(gradient) for gradient in found if gradient is not None]

    def sums(x, y):
        share = strategy.run(lambda *batch: [part / 2 for part in gradients(*batch)], args=(x, y))
        return [strategy.reduce("SUM", part, axis=None) for part in share]

    batch = next(
        iter(strategy.experimental_distribute_dataset(tf.data.Dataset.from_tensors((x, y)).unbatch().batch(BATCH)))
    )
    one, two = gradients(x, y), tf.function(sums, autograph=False)(*batch)
    assert len(one) == len(two)
    largest = max(float(tf.reduce_max(tf.abs(part))) for part in one)
    return [largest, *(float(tf.reduce_max(tf.abs(a - b))) for a, b in zip(one, two, strict=True))]


def memory_of_two_devices():
    """Returns the memory after two steps in which each device adds its number, and after all rows are assigned."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    memory = StreamMemory(strategy, 4, (1, 2, 3), "float32")

    def step():
        number = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
        x = memory.recall({"stream_row": tf.constant([[0], [1]])})
        memory.keep({"memory": x["memory"] + number, "memory_mask": x["memory_mask"] + 1})

    for _ in range(2):
        tf.function(lambda: strategy.run(step), autograph=False)()
    found = [variable.value.numpy() for variable in memory.variables]
    assert [variable.shape for variable in memory.variables] == [(4, 1, 2, 3), (4, 2)]
    for variable, values in zip(memory.variables, found, strict=True):
        variable.assign(np.flip(values, 0))
    return found, [variable.value.numpy() for variable in memory.variables]


def write(path: pathlib.Path, result: dict) -> None:
    arrays = {
        f"{when}-{number:03d}": value for when in ("before", "after") for number, value in enumerate(result[when])
    }
    np.savez(path, logs=json.dumps(result["logs"]), **arrays)


def printed_by(file: str) -> str:
    """Runs a Python program and returns its output."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(file)
    return printed.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--setting", choices=SETTINGS, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("layouts", nargs="+")
    arguments = parser.parse_args()
    if "workers" not in arguments.layouts:
        make_devices()
    for layout in arguments.layouts:
        write(arguments.output / f"{layout}.npz", train(arguments.setting, layout))


if __name__ == "__main__":
    main()
