"""BERT. `models/encoder.py` has its encoder, which computes the families that differ by numbers and names only.

entry.py   the entry
onnx.py    `BertEncoder` as ONNX operations, and what all encoders have in common
"""
