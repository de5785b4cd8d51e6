"""The tokenised corpus: token ids on disk, read through a memory map.

tokenized_corpus.py    the format, and how to read it
corpus_writer.py       appends to a corpus; a killed run leaves a valid one
document_filters.py    leaves out documents that repeat others, or that the vocabulary fits badly
tokenize_text.py       reads, splits and tokenises text in several processes
tokenizer_preload.py   modules that worker processes import in advance
"""
