"""Imports the modules that tokenising processes need, in the server process from which they are forked.

Importing TensorFlow takes longer than tokenising 40 MB. The import alone starts no threads, so a fork is safe. GPUs are
hidden: no process could use one after a fork, and tokenising does not need one.
"""

import os

from keras_bert.program.quiet_tensorflow import quiet_tensorflow

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
quiet_tensorflow()

import tensorflow_text  # noqa: E402, F401

import keras_bert.tokenization.graph_byte_pair  # noqa: E402
import keras_bert.tokenization.graph_wordpiece  # noqa: E402, F401
