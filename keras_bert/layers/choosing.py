"""Chooses what computes the formulas: `layers/formulas.py`, or a faster form of the backend in `accelerate/`."""

from keras_bert.accelerate import backend
from keras_bert.accelerate.backend import kernels, numbered_attention
from keras_bert.layers import formulas


def formulas_for(training: bool):
    """Returns the module with the formulas, for training or for inference.

    Training on TensorFlow uses the kernels. Inference uses the plain operations, because TensorFlow fuses them.
    """
    return kernels if kernels and training else formulas


def layouts_for(training: bool):
    """Returns the module with the faster `swap_middle_axes`: the kernels in inference on TensorFlow."""
    return kernels if kernels and not training else formulas


def attention_for(training: bool):
    """Returns the function `attention`. Inference on other backends than TensorFlow uses the fused one."""
    use_fused = not training and not backend.on_tensorflow()
    return backend.fused_attention if use_fused else formulas_for(training).attention


def reads_numbers(block, length, training: bool) -> bool:
    """Returns whether the attention of a block gets `SequenceNumbers` instead of a bias. Its rows need an int length.

    It never does on TensorFlow.
    """
    attention = getattr(block, "attention", None)
    if not numbered_attention or not getattr(attention, "takes_numbers", False) or not isinstance(length, int):
        return False
    if attention.learns_bias or (training and attention.dropout.rate):
        return False
    return numbered_attention.is_chosen(length, attention.head_size, attention.compute_dtype, training)
