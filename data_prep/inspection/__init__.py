"""Looks into records of this and other tools: some as text, counts of all.

record_text.py         brings BERT's features into matching shapes, and prints one record as readable text
record_counts.py       counts what all records hold, in one pass and bounded memory
"""
