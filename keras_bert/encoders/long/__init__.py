"""Longformer and BigBird: attention whose time grows linearly with the length of a row.

longformer.py   the entry of Longformer
big_bird.py     the entry of BigBird
"""
