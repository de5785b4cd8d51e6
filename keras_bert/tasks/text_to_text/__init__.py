"""Sources and the targets to write for them: translation, summaries.

examples.py   checked examples
scores.py     BLEU and ROUGE
task.py       the task for `TextToText`
"""
