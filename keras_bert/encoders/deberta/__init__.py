"""DeBERTa-v2 and -v3: attention that scores contents and distances apart.

config.py        DebertaConfig
block.py         DisentangledBlock: a layer with DisentangledAttention; the first one may have a convolution beside it
embeddings.py    DebertaEmbeddings, and DistanceVectors: the table of distances
encoder.py       DebertaEncoder
entry.py         the entry
onnx.py          the encoder as ONNX operations
"""
