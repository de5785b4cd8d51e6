"""Sources and the targets to write for them: translation, summaries.

entry.py      what checkpoints and exports must know of the task
examples.py   checked examples
scores.py     BLEU and ROUGE
task.py       the task for `TextToText`
"""
