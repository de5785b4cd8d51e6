"""MPNet: a RoBERTa without segments, and with a bias for the distance of two tokens that all layers share.

encoder.py   MPNetEncoder
onnx.py      the encoder as ONNX operations
entry.py     the entry
"""
