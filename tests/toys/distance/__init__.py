"""A family: a BERT whose tokens attend less to distant ones, and whose heads attend more or less sharply.

config.py    its numbers
layer.py     the formula of its attention
encoder.py   what its blocks get
onnx.py      the encoder as ONNX operations
entry.py     its weights and names, and all that the library must know
"""
