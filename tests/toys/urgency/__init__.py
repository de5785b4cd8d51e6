"""A task: how urgent a message is, from 0 to 1.

model.py        the encoder with a dense layer
answers.py      the formula of the answer, and its class
task.py         messages -> examples -> rows, outputs -> answers and scores
signatures.py   what a SavedModel can be asked, and the model as ONNX operations
entry.py        tells the library about all of these
"""
