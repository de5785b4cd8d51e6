"""Finds problems for TensorFlow Serving in any SavedModel, without loading it.

checking.py            runs all checks on one version
report.py              findings, and how they print
reading.py             reads the graph, its signatures and its functions
signatures.py          checks tensors, types and shapes
batching.py            checks that batching, warm-up and requests fit each other
padding.py             checks whether the server's padding changes answers
operations.py          checks for operations that servers lack or refuse
served_operations.py   the operations of each server version
weights.py             checks for variables that are missing or damaged
assets.py              checks for assets that are missing
warm_up.py             checks the warm-up requests
version_folders.py     finds the version that a server would load
"""
