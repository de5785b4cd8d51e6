"""Vectors of texts, trained and scored on pairs, triplets, scores or labels.

entry.py       what checkpoints and exports must know of the task
examples.py    columns of texts with scores or labels
scores.py      retrieval and similarity scores
answers.py     vectors, from the outputs of a server
task.py        the task for `SentenceEncoder`
loaded.py      further methods of its loaded exports
"""
