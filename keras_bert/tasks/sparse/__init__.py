"""Sparse vectors of texts, with a weight for each token of the vocabulary (SPLADE).

entry.py        what checkpoints and exports must know of the task
model.py        SparseEncoder: the encoder with its masked-LM head and a pooling of all logits
losses.py       ranking losses with FLOPS regularisers
encoding.py     texts -> CSR arrays, tokens of vectors, similarity; for the model and its loaded exports
answers.py      tokens and weights, from the outputs of a server
task.py         the task for `SparseEncoder`
signatures.py   the signatures of its SavedModels
checkpoint.py   what checkpoints say of such a model, and how it starts from them
"""
