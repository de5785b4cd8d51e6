"""Prepares data offline: reads files, writes files. It has no model code.

The modules here are the commands; the folders hold their parts.

build_vocabulary.py             text -> vocabulary: WordPiece, byte-level BPE or SentencePiece
tokenize_corpus.py              text -> tokenised corpus, made once and read many times
create_pretraining_data.py      text or tokenised corpus -> pre-training records
create_language_model_data.py   text -> stream of words or characters, for language models
beam_pretraining_data.py        pre-training records on many machines, with Apache Beam
create_finetuning_data.py       labelled data sets -> fine-tuning records
inspect_records.py              records -> readable text and counts
text/                           files -> documents and sentences
vocabulary/                     text -> word counts -> vocabulary
tokenized/                      the tokenised corpus, which is memory-mapped
pretraining/                    documents -> pre-training records
finetuning/                     labelled data -> fine-tuning records
inspection/                     reading, printing and counting records
"""
