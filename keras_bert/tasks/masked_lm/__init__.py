"""Masked tokens in texts: training, filling, scoring and writing.

entry.py             what checkpoints and exports must know of the task
model.py             MaskedLM: predicts masked tokens
signatures.py        the signatures of its SavedModels, and its models as ONNX operations
masked_texts.py      texts with [MASK], and the token rows made from them
answers.py           tokens for [MASK], from the outputs of a model or of a server
task.py              the task for `fit`, `evaluate` and `predict`; further methods of its loaded exports
mask_filling.py      log-probabilities of masked tokens, likely tokens for [MASK], pseudo-perplexity
text_generation.py   writes text by filling masks repeatedly, and its options
"""
