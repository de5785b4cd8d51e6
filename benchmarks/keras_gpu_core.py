"""Our side of `gpu_core`: a `BertPretrainer` on Keras' JAX backend, in mixed_bfloat16. It needs no TensorFlow.

A step is what a user gets: the compiled functions that `model.fit` and `model.predict` run for a batch, made by Keras'
own `make_train_function` and `make_predict_function`, with our loss, metrics and AdamW. Left out is what `fit` does
between them: reading data and callbacks. The batch lies on the device.
"""

import itertools
import os

os.environ["KERAS_BACKEND"] = "jax"

import jax
import jax.numpy as jnp
import keras

from benchmarks.gpu_core_work import answer_requests, arguments_of_side, random_batch
from keras_bert.config import BertConfig
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.optimization import AdamW


class Jobs:
    """The jobs of `answer_requests`; what training changes is kept here between steps."""

    def __init__(self, model, batch, matmul_size: int):
        model.compile(optimizer=AdamW(1e-4), jit_compile=True)
        model.optimizer.build(model.trainable_variables)
        model.make_train_function()
        model.make_predict_function()
        self.model = model
        self.batches = itertools.repeat((jax.device_put(batch),))
        weights = (_values(model.trainable_variables), _values(model.non_trainable_variables))
        rest = (_values(model.optimizer.variables), _values(model.metrics_variables))
        # A step gives the memory of its state away and returns the next one: so each has a state of its own.
        self.train_state = jax.tree.map(jnp.copy, (*weights, *rest))
        self.predict_state = jax.tree.map(jnp.copy, weights)
        self.matrix = jax.random.normal(jax.random.key(1), (matmul_size, matmul_size), "bfloat16")
        self.product = jax.jit(jnp.matmul)

    def forward(self):
        outputs, self.predict_state = self.model.predict_function(self.predict_state, self.batches)
        return outputs

    def train(self):
        logs, self.train_state = self.model.train_function(self.train_state, self.batches)
        return logs, self.train_state

    def matmul(self):
        return self.product(self.matrix, self.matrix)


def _values(variables) -> list[jax.Array]:
    return [variable.value for variable in variables]


def main():
    arguments = arguments_of_side(__doc__)
    keras.config.set_dtype_policy("mixed_bfloat16")
    keras.utils.set_random_seed(1)
    config = BertConfig.from_dict(arguments.config)
    batch = random_batch(arguments.batch_size, arguments.length, arguments.predictions, config.vocab_size)
    jobs = Jobs(BertPretrainer(config), batch, arguments.matmul_size)
    about = {"side": f"Keras {keras.__version__}, jax {jax.__version__}", "platform": jax.default_backend()}
    about["device"] = jax.devices()[0].device_kind
    named = {"forward": jobs.forward, "train": jobs.train, "matmul": jobs.matmul}
    answer_requests(about, named, arguments.steps, jax.block_until_ready)


if __name__ == "__main__":
    main()
