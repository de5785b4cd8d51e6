"""Makes pre-training records: documents -> sequences -> masked records -> shards.

pretraining_plan.py      checks made before writing: output paths, number of files
document_dealing.py      assigns documents to output files, whole or in parts
document_block.py        the documents of a shard, in blocks of bounded size
sentence_pairs.py        documents -> pairs of segments
full_sentences.py        documents -> full sequences without pairs
sequence_packing.py      packs several sequences into one row
token_sequences.py       ranges of tokens -> rows
permutation_rows.py      documents -> rows for XLNet
pretraining_records.py   one block of documents -> finished records; a pure function
record_writer.py         writes TFRecord files: plain, gzip or zstd
shard_pool.py            distributes shards over processes
local_run.py             the run on one machine: tokenises, plans, and writes the missing shards; --verify
record_flags.py          the flags of the commands that make records
record_folder.py         the manifest of a record folder, its progress file, and files on the local disk
beam_runner.py           starts any pipeline of Apache Beam and explains its errors
beam_pipeline.py         the steps of its pipeline, from text to record files
beam_layout.py           what its workers know of the run: options, counts of the text, the place of each document
beam_files.py            file operations on every file system that Beam supports
tfds_metadata.py         metadata that makes a record folder a data set of tensorflow_datasets
"""
