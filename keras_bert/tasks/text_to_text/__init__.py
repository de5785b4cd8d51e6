"""Sources and the targets to write for them: translation, summaries.

entry.py      what checkpoints and exports must know of the task
examples.py   checked examples
scores.py     BLEU and ROUGE
answers.py    written texts, from the outputs of a model or of a server
task.py       the task for `TextToText`
"""
