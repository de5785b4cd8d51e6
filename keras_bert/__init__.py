"""BERT on Keras 3: from raw text to a served answer.

Importing this package loads neither TensorFlow nor Keras. They load when a name that needs them is first used.

config/         BertConfig: bert_config.json and the published sizes
registry.py     the names of all tasks and model families, and where their entries are
tokenization/   text -> token ids, in Python and in the TensorFlow graph
records/        TFRecords and the batches that are made from them
layers/         the formulas of the paper as Keras layers
models/         what all models share: encoder contract, losses, metrics and the training step
accelerate/     faster forms of the same computations
optimization/   AdamW, LAMB and learning rate schedules
checkpoints/    reads and writes weights in every format
encoders/       one place for each model family: its numbers, its names, and what it computes differently
tasks/          one folder per task: its model, examples, answers, scores, reports and signatures
training/       training runs: resuming, evaluation, several devices
embeddings/     uses of text vectors: similarity, search, word senses, summaries
serving/        exports a model as a SavedModel
tf_serving/     client, development server and checks for TensorFlow Serving
program/        command lines, output files, error messages
"""

import ast
import importlib
import pathlib

from keras_bert.program import missing_modules, quiet_tensorflow

__version__ = "0.2.0"

# Public name -> the module that defines it, as the stub for editors and type checkers says.
_PUBLIC = {
    name.name: statement.module
    for statement in ast.parse(pathlib.Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
    if isinstance(statement, ast.ImportFrom)
    for name in statement.names
}

__all__ = ["__version__", *_PUBLIC]

quiet_tensorflow.quiet_start_up()
missing_modules.explain_left_out_modules()


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'keras_bert' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__():
    return sorted(__all__)
