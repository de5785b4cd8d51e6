"""Vectors of texts, trained and scored on pairs, triplets, scores or labels.

examples.py    columns of texts with scores or labels
scores.py      retrieval and similarity scores
answers.py     vectors, from the outputs of a server
task.py        the task for `SentenceEncoder`
"""
