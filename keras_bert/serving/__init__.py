"""Exports a model as a SavedModel that takes texts.

export.py               writes the SavedModel
signatures/             the signatures, one file per kind of model
eight_bit_weights.py    8-bit weights on disk: a quarter of the size
eight_bit_products.py   dense layers with 8-bit matrix products
hub_pair.py             preprocessor and encoder as TF-Hub defines them
canonical_graph.py      makes repeated exports of a model byte-identical
"""
