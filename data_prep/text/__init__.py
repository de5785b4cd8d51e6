"""Reads text: files -> documents and sentences.

corpus.py               reads files, folders, patterns, .gz, .jsonl and .parquet, one document at a time
text_chunks.py          cuts text files into chunks of about 2 MB, the unit of parallel work
tfds_text.py            reads text from tensorflow_datasets by name
text_lines.py           reads text files line by line
column_files.py         reads the rows of Parquet, Arrow and Feather files
remote_files.py         lists and opens files by URL: gs://, s3:// and others
sentences.py            splits paragraphs into sentences
ordered_map.py          maps a function over items in several processes and keeps their order
"""
