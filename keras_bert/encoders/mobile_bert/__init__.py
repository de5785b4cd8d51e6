"""MobileBERT: narrow layers between wide ones.

entry.py   the entry
"""
