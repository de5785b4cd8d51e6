"""Masked tokens in texts: training, filling, scoring and writing.

entry.py                what checkpoints and exports must know of the task
model.py                MaskedLM: predicts masked tokens
signatures.py           the signatures of its SavedModels
onnx.py                 its models as ONNX operations
graph_masks.py          finds [MASK] in texts, in the graph
masked_texts.py         texts with [MASK], and the token rows made from them
answers.py              tokens for [MASK], from the outputs of a model or of a server
task.py                 the task for `fit`, `evaluate` and `predict`, with new masks in every batch
mask_scoring.py         log-probabilities of masked tokens, batch by batch
mask_filling.py         likely tokens for [MASK]; pseudo-perplexity
generation_options.py   the options of writing
text_generation.py      writes text by filling masks repeatedly
loaded.py               further methods of its loaded exports
"""
