"""Scores of texts for queries. The examples are those of `tasks/embedding`.

entry.py    what checkpoints and exports must know of the task
answers.py   ranked texts
task.py     the task for `CrossEncoder`
loaded.py   further methods of its loaded exports
"""
