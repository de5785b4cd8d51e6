"""Finds out whether TensorFlow Serving can load a SavedModel, and pad its requests. The model is not loaded.

checking.py            runs both checks on one version
report.py              findings, and how they print
reading.py             reads the graph, its signatures and its functions
operations.py          checks for operations that servers lack
served_operations.py   the operations of each server version
padding.py             checks whether the server's padding changes answers
"""
