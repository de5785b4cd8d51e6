"""Chooses the module that computes the formulas: `layers/formulas.py`, or `accelerate/kernels.py` on TensorFlow."""

from keras_bert.accelerate import backend, fused_attention
from keras_bert.accelerate.backend import kernels
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
    return fused_attention.attention if use_fused else formulas_for(training).attention
