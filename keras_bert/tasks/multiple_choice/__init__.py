"""A prompt and several choices, of which one is right.

entry.py        what checkpoints and exports must know of the task
model.py        MultipleChoice: selects one of several choices
signatures.py   the signatures of its SavedModels, and its models as ONNX operations
examples.py     checked prompts and choices, and their token rows
answers.py      chosen choices: the formula, and answers of models and servers
task.py         the task for `fit`, `evaluate` and `predict`, with its report; further methods of its loaded exports
"""
