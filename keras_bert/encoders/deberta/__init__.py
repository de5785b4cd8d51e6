"""DeBERTa-v2 and -v3: attention that scores contents and distances apart.

config.py        DebertaConfig
attention.py     DisentangledAttention
block.py         DisentangledBlock: a layer; the first one may have a convolution beside it
embeddings.py    DebertaEmbeddings, and DistanceVectors: the table of distances
encoder.py       DebertaEncoder
entry.py         the entry
onnx.py          the encoder as ONNX operations
"""
