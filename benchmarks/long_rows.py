"""Measures block attention beside full attention in long rows: an attention layer, forward pass and training step.

    python -m benchmarks.long_rows --lengths=1024,2048,4096

Each model has two layers of BASE's width; one row is a batch. The models take turns. A cell has the milliseconds for
1,000 tokens, the median over the turns; for `full attention` also the ratio of the block attention's time to its time,
turn by turn: the median, the smallest and the largest. `largest tensor` is that of the forward pass, in millions of
numbers.
"""

import functools
import statistics
import time

import numpy as np
from absl import flags

from benchmarks.suite_flags import machine_lines, numbers_of_flag
from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS
MODELS = {"Longformer": "longformer", "BigBird": "big_bird", "full attention": "roberta"}


def define_flags() -> None:
    flags.DEFINE_list("lengths", ["1024", "2048", "4096"], "Tokens of a row.")
    flags.DEFINE_integer("width", 768, "Width of the models, 64 for each head.", lower_bound=64)
    flags.DEFINE_integer("turns", 5, "Turns that are counted.", lower_bound=1)


def new_model(family: str, longest: int):
    from keras_bert.config import BertConfig
    from keras_bert.families import FAMILIES
    from keras_bert.models.sequence_classifier import SequenceClassifier
    from keras_bert.optimization import AdamW

    values = {**FAMILIES[family].defaults, "vocab_size": 1000, "hidden_size": FLAGS.width, "num_hidden_layers": 2}
    values |= {"num_attention_heads": FLAGS.width // 64, "intermediate_size": 4 * FLAGS.width, "model_type": family}
    positions = max(longest, 1024) + values.get("position_offset", 0)
    config = BertConfig.from_dict(values | {"max_position_embeddings": positions})
    model = SequenceClassifier(config, labels=["a", "b"])
    model.compile(optimizer=AdamW(1e-5), jit_compile=False)
    return model


def first_attention(model):
    """Returns a function of features and vectors `[B, S, H]`: the first attention layer, with its projections."""
    from keras_bert.layers.numbered_mask import attention_bias

    encoder = model.encoder

    def attend(batch, hidden):
        tokens = encoder._read(batch)
        is_long = hasattr(encoder, "_patterns")
        who_attends = encoder._patterns(tokens)[0] if is_long else attention_bias(tokens.sequences)
        return encoder.blocks_in_order()[0].attention(hidden, who_attends)

    return attend


def largest_tensor(model, batch) -> float:
    import tensorflow as tf

    specs = {name: tf.TensorSpec(values.shape, tf.int32) for name, values in batch.items()}
    graph = tf.function(model.encoder, autograph=False).get_concrete_function(specs).graph
    return max(output.shape.num_elements() or 0 for op in graph.get_operations() for output in op.outputs) / 1e6


def main() -> None:
    import tensorflow as tf

    lengths = numbers_of_flag("lengths", 16, 1 << 16)
    models = {name: new_model(family, max(lengths)) for name, family in MODELS.items()}
    forwards = {name: tf.function(model.encoder, autograph=False) for name, model in models.items()}
    attentions = {name: tf.function(first_attention(model), autograph=False) for name, model in models.items()}
    print("\n".join([*machine_lines(), "", "| length | what | " + " | ".join(MODELS) + " |", "|---" * 5 + "|"]))
    for length in lengths:
        ids = np.random.default_rng(0).integers(5, 1000, (1, length)).astype("int32")
        batch = {"input_ids": ids, "input_mask": ids * 0 + 1, "segment_ids": ids * 0}
        tensors, label = {name: tf.constant(values) for name, values in batch.items()}, np.array([1])
        hidden = tf.random.stateless_normal((1, length, FLAGS.width), (1, 2))
        work = {
            "attention layer": {name: functools.partial(attentions[name], tensors, hidden) for name in MODELS},
            "forward": {name: functools.partial(forwards[name], tensors) for name in MODELS},
            "training step": {name: functools.partial(models[name].train_on_batch, batch, label) for name in MODELS},
        }
        for what, functions in work.items():
            seconds = {name: [] for name in MODELS}
            for turn in range(-1, FLAGS.turns):
                for name, function in functions.items():
                    start = time.perf_counter()
                    function()
                    if turn >= 0:
                        seconds[name].append((time.perf_counter() - start) * 1000 / length)
            print(f"| {length} | {what} | {' | '.join(cell(seconds, name) for name in MODELS)} |", flush=True)
        sizes = [f"{largest_tensor(models[name], batch):.1f}" for name in MODELS]
        print(f"| {length} | largest tensor | {' | '.join(sizes)} |", flush=True)


def cell(seconds: dict[str, list[float]], name: str) -> str:
    text = f"{1000 * statistics.median(seconds[name]):.0f}"
    if name == "full attention":
        return text
    ratios = [own / full for own, full in zip(seconds[name], seconds["full attention"], strict=True)]
    return f"{text}: {statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
