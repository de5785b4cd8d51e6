"""What processes that tokenise need, imported once in the server that they are forked from.

Importing TensorFlow takes longer than tokenising 40 MB. The import alone starts none of its threads, so that a fork is
safe; and it must not find a GPU, which no process could use after a fork, and which tokenising does not need.
"""

import os

from keras_bert.program.quiet_tensorflow import quiet_tensorflow

os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
quiet_tensorflow()

import tensorflow_text  # noqa: E402, F401

import keras_bert.tokenization.graph_byte_pair  # noqa: E402
import keras_bert.tokenization.graph_wordpiece  # noqa: E402, F401
