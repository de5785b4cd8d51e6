"""Scores of texts for queries. The examples are those of `tasks/embedding`.

task.py   the task for `CrossEncoder`
"""
