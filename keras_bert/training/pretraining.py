"""The pre-training run: TFRecords in, model folder and `eval_results.txt` out."""

import functools
import math
import os
from collections.abc import Mapping, Sequence

import keras
import numpy as np
import tensorflow as tf

from keras_bert import features
from keras_bert.config import BertConfig
from keras_bert.errors import InputError
from keras_bert.input_pipeline import naming_damaged_records, pretraining_dataset
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.optimization import AdamW, WarmupLinearDecay
from keras_bert.tokenization.vocabulary import Vocabulary
from keras_bert.training.resumable_fit import compile_for_training, resumable_fit
from keras_bert.training.run_folder import KEEP_CHECKPOINT_MAX, RunFolder
from keras_bert.training.starting_point import StartingPoint, trained_model

# Compiling the step takes as long as some dozens of steps.
_MIN_STEPS_FOR_XLA = 200
# Where the records begin: a run that goes on does not count them again.
_INDEX_FILE = "record_index.npz"

METRICS = (
    "loss",
    "masked_lm_accuracy",
    "masked_lm_loss",
    "next_sentence_accuracy",
    "next_sentence_loss",
)


def train_pretrainer(
    output_dir: str | os.PathLike,
    train_files: str | Sequence[str],
    *,
    config: BertConfig | None = None,
    vocabulary: Vocabulary | None = None,
    init_checkpoint: str | os.PathLike | None = None,
    max_seq_length: int | None = None,
    max_predictions_per_seq: int | None = None,
    train_batch_size: int = 32,
    learning_rate: float = 5e-5,
    adam_beta_2: float = 0.999,
    num_train_steps: int = 100_000,
    num_warmup_steps: int = 10_000,
    save_checkpoints_steps: int = 1000,
    keep_checkpoint_max: int = KEEP_CHECKPOINT_MAX,
    steps_per_execution: int = 1,
    seed: int = 12345,
    masking: Mapping[str, object] | None = None,
    tensorboard: bool = False,
    stuck_input_seconds: float = 300.0,
) -> BertPretrainer:
    """Pre-trains a BERT on masked words and next sentences, as google-research/bert `run_pretraining.py` does.

    All that `create_pretraining_data` writes is trained on as it comes: packed rows, records without a sentence task,
    and records without masks, which get new ones in every epoch.

    Called again with the same arguments it goes on from the newest checkpoint in `output_dir`, and returns at once what
    is finished.

    Args:
        output_dir: the run's folder, see `RunFolder`; the trained model is in its `model` folder.
        train_files: TFRecord files, globs or folders, as `pretraining_dataset` takes them.
        config: the model to train from scratch. `None` takes that of `init_checkpoint`.
        vocabulary: goes into the model folder, and masks records without masks. `None` takes that of `init_checkpoint`.
        init_checkpoint: a checkpoint of any format to start from; the casing is taken from it.
        max_seq_length, max_predictions_per_seq, masking: as `pretraining_dataset` takes them.
        adam_beta_2: how long Adam remembers the squares of the gradients; 0.98 is common where training is short.
        keep_checkpoint_max: how many checkpoints are kept, the newest; 0: all.
        steps_per_execution: updates between two returns to Python.
        stuck_input_seconds: after so long a wait for a batch it is said on standard error what is waited for.

    Returns:
        The trained model.

    Raises:
        InputError: files, folder, config and vocabulary do not go together; the message says which.
    """
    schedule = WarmupLinearDecay(learning_rate, num_train_steps, num_warmup_steps)
    if train_batch_size < 1:
        raise InputError(f"train_batch_size must be at least 1. Received: {train_batch_size}")
    keras.utils.set_random_seed(seed)
    model = StartingPoint(config, vocabulary, init_checkpoint).make(BertPretrainer)
    if model.vocabulary is None:
        print("No vocabulary was given: the model folder will have no vocab.txt, so it takes token ids and no text.")
    dataset_from = functools.partial(
        pretraining_dataset,
        train_files,
        train_batch_size,
        max_seq_length=max_seq_length,
        max_predictions_per_seq=max_predictions_per_seq,
        seed=seed,
        config=model.config,
        vocabulary=model.vocabulary,
        masking=masking,
    )
    settings = {
        "run": "pretraining",
        "train_files": train_files if isinstance(train_files, str) else list(train_files),
        "config": model.config.to_dict(),
        "vocabulary": model.vocabulary.sha256 if model.vocabulary else None,
        "init_checkpoint": os.path.abspath(init_checkpoint) if init_checkpoint else None,
        "train_batch_size": train_batch_size,
        "learning_rate": learning_rate,
        "adam_beta_2": adam_beta_2,
        "num_train_steps": num_train_steps,
        "num_warmup_steps": num_warmup_steps,
        "random_seed": seed,
        "max_predictions_per_seq": dataset_from().element_spec[features.MASKED_LM_IDS].shape[1],
        "masking": dict(masking) if masking else None,
        "dtype": keras.mixed_precision.dtype_policy().name,
    }
    folder = RunFolder(output_dir, settings, keep_checkpoint_max)
    optimizer = AdamW(schedule, beta_2=adam_beta_2, bias_correction=False)
    # All batches have one shape. By the length of the whole run, so that a resumed one computes the same.
    with_xla = num_train_steps >= _MIN_STEPS_FOR_XLA
    compile_for_training(model, optimizer, with_xla=with_xla, steps_per_execution=steps_per_execution)
    with naming_damaged_records(train_files):
        resumable_fit(
            model,
            lambda start_step: dataset_from(start_step=start_step, index_path=folder.file(_INDEX_FILE)),
            folder,
            num_train_steps=num_train_steps,
            batch_size=train_batch_size,
            save_checkpoints_steps=save_checkpoints_steps,
            tensorboard=tensorboard,
            source=f"the records {train_files}",
            stuck_input_seconds=stuck_input_seconds,
        )
    if not os.path.isdir(folder.model_path):
        model.save_pretrained(folder.model_path)
    return model


def evaluate_pretrainer(
    output_dir: str | os.PathLike,
    eval_files: str | Sequence[str],
    *,
    vocabulary: Vocabulary | None = None,
    init_checkpoint: str | os.PathLike | None = None,
    max_seq_length: int | None = None,
    max_predictions_per_seq: int | None = None,
    eval_batch_size: int = 8,
    max_eval_steps: int = 100,
    masking: Mapping[str, object] | None = None,
) -> dict[str, float]:
    """Evaluates a pre-trained model and writes `eval_results.txt` with Google's names.

    Records without masks get the same ones every time, as long as `eval_batch_size` stays the same.

    Args:
        output_dir: the folder of a finished run, or an empty one if `init_checkpoint` is given.
        vocabulary: for records without masks, when the model has none of its own.
        init_checkpoint: the model folder to evaluate when `output_dir` has no model.
        max_seq_length, max_predictions_per_seq, masking: as `pretraining_dataset` takes them.
        max_eval_steps: evaluates at most this many batches.

    Returns:
        The results: `METRICS` and `global_step`. Where the records have no sentence task, `next_sentence_accuracy` is
        NaN, and `n/a` in the file.

    Raises:
        InputError: there is no model, or the files do not go with it.
    """
    if max_eval_steps < 1:
        raise InputError(f"max_eval_steps must be at least 1. Received: {max_eval_steps}")
    folder = RunFolder(output_dir)
    model = trained_model(BertPretrainer, folder, init_checkpoint)
    dataset = pretraining_dataset(
        eval_files,
        eval_batch_size,
        max_seq_length=max_seq_length,
        max_predictions_per_seq=max_predictions_per_seq,
        shuffle=False,
        repeat=False,
        config=model.config,
        vocabulary=model.vocabulary or vocabulary,
        masking=masking,
    )
    model.compile(optimizer=None)
    dataset = dataset.take(max_eval_steps)
    with naming_damaged_records(eval_files):
        # Counted first: Keras warns at the end of a dataset of unknown length.
        num_steps = dataset.reduce(np.int64(0), lambda count, _: count + 1)
        found = model.evaluate(
            dataset.apply(tf.data.experimental.assert_cardinality(num_steps)), return_dict=True, verbose=0
        )
    results = {name: float(found[name]) for name in METRICS} | {"global_step": folder.latest_step()}
    written = {name: "n/a" if math.isnan(value) else value for name, value in results.items()}
    print(folder.write_results(written), end="")
    return results
