"""Looks into records of this and other tools: text, statistics, warnings.

parsed_records.py        parses records of any tool into arrays
bert_features.py         maps their feature names to BERT's inputs and labels
record_text.py           prints one record as readable text
record_statistics.py     counts everything in one pass and bounded memory
repeated_texts.py        counts repeated texts by their hashes
record_surroundings.py   finds the manifest and the vocabulary beside the records
record_report.py         statistics as JSON and as text, with warnings
record_plot.py           statistics as a picture
"""
