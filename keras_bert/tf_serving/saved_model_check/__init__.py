"""Finds out whether TensorFlow Serving can load a SavedModel, and pad its requests. The model is not loaded.

checking.py            checks the operations and the padding of one version, and reports
reading.py             reads the graph, its signatures and its functions
served_operations.py   the operations of each server version
"""
