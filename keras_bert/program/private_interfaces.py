"""The list of all private interfaces of Keras and TensorFlow that this package uses.

They are undocumented and may change in any version. A test tries each, and `private` says which one is missing.
"""

import importlib
from typing import Any

from keras_bert.program.errors import InputError

# Path -> its use here. The code gets these from `private`.
FUNCTIONS = {
    "keras.src.backend.common.global_state.GLOBAL_STATE_TRACKER": "leaving Keras as it was after a failed load",
    "tensorflow.python.framework.op_def_registry.get": "which operations this TensorFlow has",
    "tensorflow_text.python.ops.sentencepiece_tokenizer.gen_sentencepiece_tokenizer": "loading SentencePiece models",
    "tensorflow.python.ops.control_flow_util.GraphOrParentsInXlaContext": "whether XLA compiles",
    "tensorflow.python.saved_model.fingerprinting_utils.write_fingerprint": "the fingerprint of an export",
}
# Public class -> private methods and attributes of its objects. The code uses these directly.
ATTRIBUTES = {
    "keras.Model": (
        "_compile_metrics",
        "_distribute_strategy",
        "_flatten_layers",
        "_non_trainable_variables",
        "_trainable_variables",
    ),
    "keras.layers.Dense": ("_kernel",),
    "keras.optimizers.Optimizer": (
        "_backend_update_step",
        "_clip_gradients",
        "_get_variable_index",
        "_learning_rate",
        "_overwrite_model_variables_with_average_value",
        "_trainable_variables",
        "_update_model_variables_moving_average",
        "_use_weight_decay",
    ),
    "tensorflow.Tensor": ("_as_tf_output",),
    "tensorflow.Variable": ("_handle_name",),
    "tensorflow.compat.v1.Session": ("_call_tf_sessionrun",),
}


def private(path: str) -> Any:
    """Returns what a key of `FUNCTIONS` names. Raises `InputError` if the installed version does not have it."""
    use = FUNCTIONS[path]
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError):
        package = path.partition(".")[0]
        version = getattr(importlib.import_module(package), "__version__", "of unknown version")
        raise InputError(
            f"{package} {version} has no {path}, which keras_bert needs for this: {use}. Install a version of "
            f"{package} that keras_bert was tried with, see setup.py."
        ) from None
