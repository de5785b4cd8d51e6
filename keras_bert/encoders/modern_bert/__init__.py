"""ModernBERT: rotary positions, and layers whose tokens attend to their neighbours only.

config.py    ModernBertConfig
encoder.py   ModernBertEncoder
keys.py      the keys of its `config.json` that have another form than our fields
onnx.py      `ModernBertEncoder` as ONNX operations
entry.py     the entry
"""
