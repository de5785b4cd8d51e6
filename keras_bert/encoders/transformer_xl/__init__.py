"""Transformer-XL: a language model with a memory.

entry.py   the entry
files.py   its files in the official code's and in Hugging Face's form
"""
