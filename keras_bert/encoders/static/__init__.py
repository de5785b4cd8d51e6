"""Static models: a vector for each token, and no layers.

encoder.py   StaticEncoder
entry.py     the entry
"""
