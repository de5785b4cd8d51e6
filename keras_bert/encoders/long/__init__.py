"""Longformer and BigBird: attention whose time grows linearly with the length of a row.

config.py            LongConfig
encoder.py           LongEncoder, in time linear in the length of rows
block_attention.py   attention between blocks of a row
block_patterns.py    who attends to whom in block attention
longformer.py        the entry of Longformer
big_bird.py          the entry of BigBird
"""
