"""Tools for exported graphs, which the tasks make their signatures with.

signature_inputs.py     shared parts: named inputs, token rows from texts or ids
row_groups.py           runs many rows through the model in groups
examples.py             the same signatures for serialised tf.train.Example
tokenize.py             the tokenizer as a signature
words.py                splits texts into words, in the graph
eight_bit_weights.py    8-bit weights on disk: a quarter of the size
eight_bit_products.py   dense layers with 8-bit matrix products
canonical_graph.py      makes repeated exports of a model byte-identical
onnx_graph.py           the operations and formulas of ONNX graphs
onnx_operations.py      the operations that these graphs have, and the shapes of their results
"""
