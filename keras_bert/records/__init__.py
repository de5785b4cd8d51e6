"""Defines, writes, reads and masks records, and makes batches of them.

features.py           the one definition of every record: names, dtypes, lengths
datasets.py           records or token rows -> checks, and tf.data batches for Keras
encoding.py           batches of numbers -> serialised records
files.py              finds record files by name, folder or pattern
form.py               detects the kind of pre-training records in a file
manifests.py          reads the manifests beside record files
values.py             the value ranges of every feature
index.py              counts the records of files and finds where they begin
order.py              the shuffled reading order, which can start at any step
masking.py            selects tokens to predict and replaces them
masked_positions.py   selects single tokens, whole words or spans
dynamic_masking.py    masks records while they are read
permutation.py        draws what a permutation model predicts in a row, and in which order
segments.py           joins segments in the graph: [CLS] a [SEP] b [SEP]
streams.py            running text as one stream of tokens, cut into rows that continue from batch to batch
token_rows.py         token rows without padding: segments joined with NumPy, and batches of rows
mixed_rows.py         rows of several data sets, in batches of one of them each
"""
