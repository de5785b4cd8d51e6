"""Answers from a context, or the statement that there is none: SQuAD 1.1 and 2.0.

entry.py              what checkpoints and exports must know of the task
model.py              SpanClassifier: start and end of an answer
signatures.py         the signatures of its SavedModels
answer_windows.py     cuts contexts into windows, in the graph
answer_search.py      two logits per token -> answers with n-best list, in the graph
examples.py           questions with contexts and answers
rows.py               questions and contexts -> windows: token rows that overlap
answer_locations.py   finds given answers among the tokens, and reports those that do not fit
answer_spans.py       two logits per token -> answers with offsets and n-best list
scores.py             exact match, F1 and the best no-answer threshold
task.py               the task for `fit`, `evaluate` and `predict`
predictions.py        the files with answers, as SQuAD's scripts have them
"""
