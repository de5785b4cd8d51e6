"""Our side of `training_speed`: the function that `fit` runs for a batch of a `BertPretrainer`, on TensorFlow."""

import keras
import tensorflow as tf

from benchmarks.sides.pretraining_work import (
    answer_requests,
    arguments_of_side,
    gpu_memory_of_tensorflow,
    random_batch,
)
from keras_bert.config import BertConfig
from keras_bert.optimization import AdamW
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer
from keras_bert.training.resumable_fit import compile_for_training
from keras_bert.training.run_options import RunOptions


def main():
    arguments = arguments_of_side(__doc__)
    keras.utils.set_random_seed(1)
    if arguments.dtype != "float32":
        keras.config.set_dtype_policy(f"mixed_{arguments.dtype}")
    config = BertConfig.from_dict(arguments.config)
    batch = random_batch(arguments.batch_size, arguments.length, arguments.predictions, config.vocab_size)
    if config.type_vocab_size < 2:
        del batch["segment_ids"]
    model = BertPretrainer(config)
    options = RunOptions(gradient_checkpointing=bool(arguments.gradient_checkpointing))
    compile_for_training(model, AdamW(1e-4), options, with_xla=bool(arguments.xla))
    model.optimizer.build(model.trainable_variables)
    model.make_train_function()
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())

    def train():
        return model.train_function(iterator)

    about = {"side": f"keras_bert, Keras {keras.__version__}, TensorFlow {tf.__version__}"}

    def wait(logs):
        return [float(value) for value in logs.values()]

    answer_requests(about, {"train": train}, arguments.steps, wait, gpu_memory_of_tensorflow)


if __name__ == "__main__":
    main()
