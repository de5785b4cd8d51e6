"""Tools for exported graphs, which the tasks make their signatures with.

signature_inputs.py     shared parts: named inputs, token rows from texts, ids or serialised tf.train.Example
answer_operations.py    the operations that make answers from outputs, on tensors
row_groups.py           runs many rows through the model in groups
tokenize.py             the tokenizer as a signature
words.py                splits texts into words, in the graph
eight_bit_weights.py    8-bit weights on disk: a quarter of the size
input_divisors.py       keeps the precision of inputs that are rounded to 8 bits
onnx_graph.py           the operations and formulas of ONNX graphs
onnx_layers.py          Keras layers as ONNX operations
onnx_heads.py           what the tasks share of their ONNX operations; finds the class that writes an encoder
onnx_sequences.py       pools the tokens of sequences, of which a row may have several
"""

# The signature with what a model returns for token rows, which `keras_bert.serving.load` calls. Its output is `outputs`
# if the model returns one array.
RAW_OUTPUTS = "raw_outputs"
