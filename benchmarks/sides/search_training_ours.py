"""Our side of `search_training_speed`: the function that `fit` runs for a batch of pairs of texts, on TensorFlow."""

import keras
import tensorflow as tf

from benchmarks.sides.pretraining_work import answer_requests, gpu_memory_of_tensorflow
from benchmarks.sides.search_training_work import arguments_of_side, read_pairs
from keras_bert import MultiVectorEncoder, SparseEncoder
from keras_bert.optimization import AdamW
from keras_bert.records.datasets import rows_dataset
from keras_bert.tasks.fitting import text_task
from keras_bert.tasks.sparse.losses import SpladeLoss
from keras_bert.training.resumable_fit import compile_for_training


def main():
    arguments = arguments_of_side(__doc__)
    keras.utils.set_random_seed(1)
    if arguments.kind == "SPLADE":
        model = SparseEncoder.from_pretrained(arguments.model, max_seq_length=arguments.length)
        model.choose_loss(SpladeLoss(document_regularizer_weight=3e-3, query_regularizer_weight=3e-3))
    else:
        model = MultiVectorEncoder.from_pretrained(arguments.model, document_length=arguments.length)
    task = text_task(model)
    rows = task.rows(task.examples(read_pairs(arguments))).rows
    batch = next(iter(rows_dataset(rows, arguments.batch_size)))
    compile_for_training(model, AdamW(1e-6), with_xla=False)
    iterator = iter(tf.data.Dataset.from_tensors(batch).repeat())
    model.make_train_function()
    about = {"side": f"keras_bert, Keras {keras.__version__}, TensorFlow {tf.__version__}"}

    def wait(logs):
        return [float(value) for value in logs.values()]

    answer_requests(
        about, {"train": lambda: model.train_function(iterator)}, arguments.steps, wait, gpu_memory_of_tensorflow
    )


if __name__ == "__main__":
    main()
