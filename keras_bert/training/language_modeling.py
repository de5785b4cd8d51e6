"""The run of a language model on streams of text, and its evaluation as perplexity or bits per character."""

import dataclasses
import math
import os
from typing import Any

import keras
import tensorflow as tf

from keras_bert.accelerate.backend import require_tensorflow
from keras_bert.encoders.stream_memory import remember
from keras_bert.encoders.transformer_xl.model import TransformerXL
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.records.streams import TokenStream
from keras_bert.tokenization.stream_vocabulary import CHARACTERS
from keras_bert.training.optimizer_choice import take_averages
from keras_bert.training.resumable_fit import MIN_STEPS_FOR_XLA, compile_for_training, resumable_fit
from keras_bert.training.run_card import write_facts
from keras_bert.training.run_folder import RunFolder, exclusive_training
from keras_bert.training.run_options import LanguageModelOptions
from keras_bert.training.starting_point import StartingPoint, check_same_vocabulary, trained_model
from keras_bert.training.strategies import check_batch_size


@exclusive_training
def train_language_model(
    output_dir: str | os.PathLike,
    train_stream: str | os.PathLike,
    start: StartingPoint,
    options: LanguageModelOptions | None = None,
) -> TransformerXL:
    """Trains a `TransformerXL` to predict the next token of a stream.

    Called again with the same arguments, it continues from the newest checkpoint in `output_dir`, with the memory of
    each row. In the scope of a tf.distribute strategy it computes the same as on one device.

    Args:
        output_dir: the folder of the run, see `RunFolder`. The trained model is in its `model` folder.
        train_stream: a folder that `write_stream` wrote.
        start: a checkpoint, or the config of a model to train from scratch.
        options: the options of the run; `LanguageModelOptions()` by default.

    Returns:
        The trained model, with averaged weights if `ema_momentum` is set.

    Raises:
        InputError: the stream is too short for a batch; stream, config and folder do not fit together; or another
            process trains in the folder.
    """
    require_tensorflow("Training a language model")
    options = options or LanguageModelOptions()
    check_batch_size(options.train_batch_size, 1)
    schedule = options.optimizer.schedule(options.learning_rate, options.num_train_steps, options.num_warmup_steps)
    stream = TokenStream.open(train_stream)
    stream.tokens_per_row(options.train_batch_size, options.max_seq_length)
    keras.utils.set_random_seed(options.seed)
    model = dataclasses.replace(start, vocabulary=stream.vocabulary).make(TransformerXL)
    settings = {"run": "language_model", "stream": stream.sha256, **start.settings(model), **options.settings()}
    folder = RunFolder(output_dir, settings, options.keep_checkpoint_max)
    write_facts(folder.path, train_tokens=len(stream.tokens), updates=options.num_train_steps)
    compile_for_training(
        model,
        options.optimizer.make(schedule, beta_2=options.adam_beta_2, bias_correction=True),
        options,
        # The number of targets in a cluster differs from batch to batch, and XLA needs fixed shapes.
        with_xla=options.num_train_steps >= MIN_STEPS_FOR_XLA and not model.config.cutoffs,
    )
    remember(model, model.config.mem_len, options.train_batch_size)
    resumable_fit(
        model,
        lambda step: stream.dataset(options.train_batch_size, options.max_seq_length, step),
        folder,
        options,
        num_train_steps=options.num_train_steps,
        batch_size=options.train_batch_size,
        source=f"the stream {stream.path}",
    )
    take_averages(model)
    folder.save_model(model)
    return model


def evaluate_language_model(
    output_dir: str | os.PathLike,
    eval_stream: str | os.PathLike,
    *,
    init_checkpoint: str | os.PathLike | None = None,
    max_seq_length: int = 128,
    eval_batch_size: int = 8,
    **memory: Any,
) -> dict[str, float]:
    """Evaluates a language model on a stream, with memory, and writes `eval_results.txt`.

    Each row begins without a memory, so a batch size of 1 gives the best and slowest result.

    Args:
        output_dir: the folder of a finished run, or an empty one if `init_checkpoint` is given.
        eval_stream: a folder that `write_stream` wrote, with the vocabulary of the model.
        init_checkpoint: a checkpoint in any format, for when `output_dir` has no model.
        max_seq_length: tokens of a segment.
        **memory: `mem_len`, `clamp_len` and `same_length` replace those of the model's config.

    Returns:
        `loss` (nats per token), `perplexity` of a token, `bits_per_character` if the tokens are characters,
        `num_tokens`, and `global_step`.

    Raises:
        InputError: there is no model, the stream is too short, or its vocabulary is not the model's.
    """
    require_tensorflow("Evaluating a language model")
    folder, stream = RunFolder(output_dir), TokenStream.open(eval_stream)
    model = trained_model(TransformerXL, folder, StartingPoint(init_checkpoint=init_checkpoint), **memory)
    check_same_vocabulary(stream.vocabulary, model.vocabulary, folder.path)
    model.config.check_vocabulary(len(stream.vocabulary))
    loss, num_tokens = stream_loss(model, stream, eval_batch_size, max_seq_length)
    results = {"loss": loss, "perplexity": math.exp(min(loss, 700)), "num_tokens": num_tokens}
    if stream.vocabulary.kind == CHARACTERS:
        results["bits_per_character"] = loss / math.log(2)
    results["global_step"] = folder.latest_step()
    print(folder.write_results(results), end="")
    return results


def stream_loss(model: TransformerXL, stream: TokenStream, batch_size: int, length: int) -> tuple[float, int]:
    """Returns the mean of -log p of the tokens of a stream, in nats, and how many tokens it is of."""

    @tf.function(reduce_retracing=True, autograph=False)
    def step(batch):
        outputs = model(batch, training=False)
        term = model.loss_terms(batch, None, outputs, None)[0]
        return term.numerator, {name: outputs[name] for name in memory}

    memory, total, num_tokens = model.empty_memory(batch_size), 0.0, 0
    for batch in stream.segments(batch_size, length):
        batch = {name: tf.constant(batch[name]) for name in (features.INPUT_IDS, features.TARGET_IDS)}
        loss, memory = step({**batch, **memory})
        total += float(loss)
        num_tokens += int(tf.size(batch[features.TARGET_IDS]))
    if not math.isfinite(total):
        raise InputError(f"The loss on {stream.path} is not a number. Train again with a lower learning rate.")
    return total / num_tokens, num_tokens
