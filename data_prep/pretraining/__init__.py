"""Makes pre-training records: documents -> sequences -> masked records -> shards.

pretraining_plan.py      checks made before writing: output paths, number of files, disk space
disk_space.py            estimates the disk space of a long job and reports it
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
record_folder.py         the manifest of a record folder, its progress file and --verify
disk_files.py            file operations on the local disk
beam_pipeline.py         the Apache Beam pipeline
beam_files.py            file operations on every file system that Beam supports
tfds_metadata.py         metadata that makes a record folder a data set of tensorflow_datasets
"""
