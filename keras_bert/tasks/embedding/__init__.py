"""Vectors of texts, trained and scored on pairs, triplets, scores or labels.

entry.py          what checkpoints and exports must know of the task
model.py          SentenceEncoder: a vector for each text
whole_batch.py    the base class of models whose loss needs all texts of a batch
losses.py         losses over the vectors of a whole batch
cached_batch.py   their training step on several devices or in several parts
signatures.py     the signatures of its SavedModels, and of those of encoders
onnx.py           its models as ONNX operations
examples.py       columns of texts with scores or labels
answers.py        vectors, from the outputs of a server
scores.py         retrieval and similarity scores
task.py           the task for `SentenceEncoder`
loaded.py         further methods of its loaded exports
start.py          how such a model starts from a checkpoint of another kind
"""
