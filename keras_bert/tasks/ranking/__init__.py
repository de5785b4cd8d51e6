"""Scores of texts for queries. The examples are those of `tasks/embedding`.

answers.py   ranked texts
task.py      the task for `CrossEncoder`
"""
