"""A tag for each word: named entities, parts of speech.

entry.py             what checkpoints and exports must know of the task
model.py             TokenClassifier: a label for each token
signatures.py        the signatures of its SavedModels, and its models as ONNX operations
graph_tagging.py     words -> token rows, logits -> tags, and tags -> entities, in the graph
examples.py          checked sentences and their tags
annotated_spans.py   spans of characters -> words with tags
rows.py              words with tags -> token rows
tag_schemes.py       BIO, IOB1, BIOES and related schemes
decoding.py          the best sequence of tags that a scheme allows
answers.py           entities and tags, from the outputs of a model or of a server
scores.py            F1 of named entities, as conlleval counts it
task.py              the task for `fit`, `evaluate` and `predict`; further methods of its loaded exports
report.py            scores per entity type and the worst errors; predicted tags as a CoNLL file
"""
