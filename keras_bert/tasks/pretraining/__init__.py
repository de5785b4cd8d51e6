"""Models that are trained on text without labels.

entry.py   what checkpoints and exports must know of them
"""
