"""ModernBERT: rotary positions, and layers whose tokens attend to their neighbours only.

entry.py   the entry
keys.py    the keys of its `config.json` that have another form than our fields
onnx.py    `ModernBertEncoder` as ONNX operations
"""
