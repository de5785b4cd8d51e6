"""Learns vocabularies from text, one file for each kind of tokenizer.

word_counts.py            counts words in bounded memory
learn_wordpiece.py        word counts -> vocab.txt of BERT
learn_byte_pair.py        word counts -> vocab.json and merges.txt of RoBERTa
learn_sentence_piece.py   word counts -> spiece.model of ALBERT
new_words.py              word counts -> words to add to an existing vocab.txt
"""
