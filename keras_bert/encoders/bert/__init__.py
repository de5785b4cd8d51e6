"""BERT. `encoders/bert/encoder.py` has its encoder, which computes the families that differ by numbers and names only.

entry.py     the entry
encoder.py   BertEncoder: a vector for each token and one for each row
onnx.py      `BertEncoder` as ONNX operations, and what all encoders have in common
"""
