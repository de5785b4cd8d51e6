"""Static models: a vector for each token, and no layers.

entry.py   the entry
"""
