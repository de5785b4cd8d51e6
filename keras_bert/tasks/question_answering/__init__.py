"""Answers from a context, or the statement that there is none: SQuAD 1.1 and 2.0.

entry.py              what checkpoints and exports must know of the task
model.py              SpanClassifier: start and end of an answer
signatures.py         the signatures of its SavedModels, and its models as ONNX operations
answer_search.py      cuts contexts into windows, and finds answers with n-best list, in the graph
examples.py           questions with contexts and answers
rows.py               questions and contexts -> windows: token rows that overlap, and where given answers are in them
answer_spans.py       two logits per token -> the best spans; the options of answers and of runs
answers.py            answers with an n-best list, from the outputs of a model or of a server
scores.py             exact match, F1 and the best no-answer threshold
task.py               the task for `fit`, `evaluate` and `predict`; further methods of its loaded exports; the files
                      with answers, as SQuAD's scripts have them
"""
