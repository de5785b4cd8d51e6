"""The run of a `SentenceClassifier` on a few texts per label."""

import os
from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.accelerate.backend import require_tensorflow
from keras_bert.program.errors import InputError
from keras_bert.tasks.classification.sentence_classifier import SentenceClassifier
from keras_bert.tasks.fitting import text_task
from keras_bert.training.fine_tuning import FineTuningOptions, run_settings
from keras_bert.training.run_card import write_facts
from keras_bert.training.run_folder import RunFolder, exclusive_training
from keras_bert.training.starting_point import StartingPoint


@exclusive_training
def train_few_shot(
    output_dir: str | os.PathLike,
    train: Any,
    *,
    start: StartingPoint,
    options: FineTuningOptions,
    model_arguments: Mapping[str, Any],
) -> SentenceClassifier:
    """Trains a `SentenceClassifier` and writes it to the `model` folder of a run. A finished run returns at once.

    Such a run takes seconds to minutes, so it writes no checkpoints: after an interruption it starts again.

    Args:
        output_dir: the folder of the run, see `RunFolder`.
        train: `TextExamples` with labels.
        start: the initial weights.
        options: of these, epochs, batch size, learning rate, maximum length and seed are used.
        model_arguments: the labels.

    Raises:
        InputError: the examples are pairs, have one label only, or do not fit the folder.
    """
    require_tensorflow("Few-shot training (few_shot)")
    if train.second_texts is not None:
        raise InputError(f"{train.source}: few-shot training takes single texts. Received: pairs")
    keras.utils.set_random_seed(options.seed)
    model = start.make(SentenceClassifier, **model_arguments)
    settings = run_settings(model, text_task(model), train, None, start, options, dict(model_arguments))
    folder = RunFolder(output_dir, settings, options.keep_checkpoint_max)
    write_facts(folder.path, train_examples=len(train))
    if os.path.isdir(folder.model_path):
        print(f"{folder.path}: the training is finished")
        return SentenceClassifier.from_pretrained(folder.model_path)
    model.fit_few_shot(
        train.texts,
        train.labels,
        epochs=max(1, round(options.num_train_epochs)),
        batch_size=options.train_batch_size,
        learning_rate=options.learning_rate,
        max_seq_length=options.max_seq_length,
        seed=options.seed,
    )
    folder.save_model(model)
    return model
