"""A prompt and several choices, of which one is right.

entry.py        what checkpoints and exports must know of the task
loaded.py       what loaded exports can do, and what a server gets of them
model.py        MultipleChoice: selects one of several choices
signatures.py   the signatures of its SavedModels
onnx.py         its models as ONNX operations
examples.py     checked prompts and choices
rows.py         prompts with choices -> token rows
answers.py      chosen texts, from the outputs of a model or of a server
task.py         the task for `fit`, `evaluate` and `predict`
report.py       how often each position is right and is chosen, and the worst errors
"""
