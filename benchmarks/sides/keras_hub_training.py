"""The side `keras_hub` of `training_speed`: the function that `fit` runs for a batch of a `BertMaskedLM`.

Like ours it scores the masked tokens only; it has no next-sentence head. Keras' AdamW clips by the norm of all
gradients and leaves biases and layer norms out of the decay.
"""

import keras
import keras_hub
import tensorflow as tf

from benchmarks.sides.pretraining_work import (
    answer_requests,
    arguments_of_side,
    gpu_memory_of_tensorflow,
    random_batch,
)


def main():
    arguments = arguments_of_side(__doc__)
    keras.utils.set_random_seed(1)
    config = arguments.config
    batch = random_batch(arguments.batch_size, arguments.length, arguments.predictions, config["vocab_size"])
    if arguments.folder:
        backbone = keras_hub.models.Backbone.from_preset(arguments.folder)
    else:
        backbone = keras_hub.models.BertBackbone(
            vocabulary_size=config["vocab_size"],
            num_layers=config["num_hidden_layers"],
            num_heads=config["num_attention_heads"],
            hidden_dim=config["hidden_size"],
            intermediate_dim=config["intermediate_size"],
            dropout=config["hidden_dropout_prob"],
            max_sequence_length=config["max_position_embeddings"],
        )
    model_class = getattr(keras_hub.models, type(backbone).__name__.replace("Backbone", "MaskedLM"))
    model = model_class(backbone, preprocessor=None)
    optimizer = keras.optimizers.AdamW(1e-4, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0)
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    accuracy = ["sparse_categorical_accuracy"]
    model.compile(optimizer=optimizer, loss=loss, weighted_metrics=accuracy, jit_compile=bool(arguments.xla))
    optimizer.build(model.trainable_variables)
    model.make_train_function()
    names = {
        "token_ids": "input_ids",
        "padding_mask": "input_mask",
        "segment_ids": "segment_ids",
        "mask_positions": "masked_lm_positions",
    }
    taken = {tensor.name for tensor in model.inputs}
    features = {theirs: batch[ours] for theirs, ours in names.items() if theirs in taken}
    labelled = (features, batch["masked_lm_ids"], batch["masked_lm_weights"])
    iterator = iter(tf.data.Dataset.from_tensors(labelled).repeat())

    def train():
        return model.train_function(iterator)

    about = {"side": f"keras-hub {keras_hub.__version__}, Keras {keras.__version__}, TensorFlow {tf.__version__}"}
    answer_requests(about, {"train": train}, arguments.steps, _wait, gpu_memory_of_tensorflow)


def _wait(logs):
    return [value.numpy() for value in tf.nest.flatten(logs)]


if __name__ == "__main__":
    main()
