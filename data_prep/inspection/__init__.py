"""Looks into records of this and other tools: text, statistics, warnings.

parsed_records.py        parses records into arrays, whatever features they have
bert_rows.py             brings BERT's features into matching shapes
record_text.py           prints one record as readable text
record_statistics.py     counts everything in one pass and bounded memory
record_faults.py         finds numbers that cannot be right
record_surroundings.py   finds the manifest and the vocabulary beside the records
record_report.py         statistics as JSON and as text, with warnings
record_plot.py           statistics as a picture
"""
