"""Finds problems for TensorFlow Serving in any SavedModel, without loading it.

checking.py            runs all checks on one version
report.py              findings, and how they print
reading.py             reads the graph, its signatures and its functions
signatures.py          checks names, types and shapes
batching.py            checks that batching, warm-up and requests fit each other
padding.py             checks whether the server's padding changes answers
operations.py          checks for operations that servers lack or refuse
served_operations.py   the operations of each server version
weights.py             checks for variables that are missing, stored twice, or constants
files.py               checks assets and fingerprint
warm_up.py             checks the warm-up requests
version_folders.py     checks the names of version folders
"""
