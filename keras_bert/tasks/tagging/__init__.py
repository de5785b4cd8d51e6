"""A tag for each word: named entities, parts of speech.

entry.py             what checkpoints and exports must know of the task
loaded.py            what loaded exports can do, and what a server gets of them
model.py             TokenClassifier: a label for each token
signatures.py        the signatures of its SavedModels
onnx.py              its models as ONNX operations
graph_rows.py        words -> token rows, in the graph
graph_entities.py    tags -> entities, in the graph
examples.py          checked sentences and their tags
annotated_spans.py   spans of characters -> words with tags
rows.py              words with tags -> token rows
tag_schemes.py       BIO, IOB1, BIOES and related schemes
answers.py           entities and tags, from the outputs of a model or of a server
scores.py            F1 of named entities, as conlleval counts it
task.py              the task for `fit`, `evaluate` and `predict`
report.py            scores per entity type and the worst errors
conll.py             predicted tags as the lines of a CoNLL file
"""
