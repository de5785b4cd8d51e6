"""A task: how urgent a message is, from 0 to 1.

model.py        the encoder with a dense layer
examples.py     messages with their urgencies
answers.py      the answer, made from outputs of the model or of a server
task.py         messages -> rows, outputs -> answers and scores
signatures.py   what a SavedModel can be asked
onnx.py         the model as ONNX operations
entry.py        tells the library about all of these
"""
