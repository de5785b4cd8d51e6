"""Looks into records of this and other tools: some as text, counts of all.

bert_rows.py           brings BERT's features into matching shapes
record_text.py         prints one record as readable text
record_counts.py       counts what all records hold, in one pass and bounded memory
"""
