"""MobileBERT: narrow layers between wide ones.

config.py               MobileBertConfig
encoder.py              MobileBertEncoder
trigram_embeddings.py   the embeddings, which join neighbours
bottleneck_block.py     one layer
entry.py                the entry
"""
