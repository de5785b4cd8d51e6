"""The side `ours_jax` of `training_speed`: `fit` of a `BertPretrainer` on JAX, on a GPU if JAX finds one."""

import jax
import keras

from benchmarks.sides.pretraining_work import answer_requests, arguments_of_side, random_batch
from keras_bert.config import BertConfig
from keras_bert.optimization import AdamW
from keras_bert.tasks.pretraining.pretrainer import BertPretrainer


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
    model.compile(optimizer=AdamW(1e-4))

    def train():
        batches = ((batch,) for _ in range(arguments.steps))
        return model.fit(batches, steps_per_epoch=arguments.steps, verbose=0)

    def gpu_memory():
        return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)

    about = {"side": f"keras_bert, Keras {keras.__version__}, JAX {jax.__version__}, {jax.devices()[0].device_kind}"}
    # One call of `fit` makes all steps of a turn, and returns when they are finished.
    answer_requests(about, {"train": train}, 1, lambda history: None, gpu_memory)


if __name__ == "__main__":
    main()
