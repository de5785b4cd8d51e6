"""Transformer-XL: a language model with a memory.

config.py             TransformerXLConfig
model.py              TransformerXL, the whole model
adaptive_softmax.py   token embeddings and softmax in clusters of the vocabulary
files.py              its files in the official code's and in Hugging Face's form
entry.py              the entry
"""
