"""Tokenizers: text -> token ids, in Python and in the TensorFlow graph.

tokenizer.py               the interfaces of every kind, and special tokens by role
token_lists.py             tokens of many texts as NumPy arrays, by tokenizers in Python
vocabulary.py              vocab.txt, and the settings of WordPiece
wordpiece.py               Google's WordPiece in Python, with character offsets: the reference
wordpiece_files.py         its files: vocab.txt or tokenizer.json, and those with settings
graph_wordpiece.py         the same in the TensorFlow graph, with byte offsets
fast_normalizer.py         its fast path, and the test for texts that the fast path covers
exact_graph.py             its exact path, in core TensorFlow operations
core_wordpiece.py          the same tokenizer by core TensorFlow operations alone
byte_pair.py               byte-level BPE in Python, with character offsets, by the package tokenizers
byte_pair_files.py         the files of BPE: vocab.json and merges.txt, or tokenizer.json
graph_byte_pair.py         byte-level BPE in the TensorFlow graph, with byte offsets
graph_byte_pair_words.py   its first step: splits texts into words, as GPT-2 or Llama 3 does
byte_fallback.py           byte-fallback BPE of Gemma in Python, with character offsets, by the package tokenizers
graph_byte_fallback.py     the same in the TensorFlow graph, with byte offsets
added_tokens.py            cuts added tokens, such as entity markers, out of texts for every kind
graph_added_tokens.py      the same in the TensorFlow graph
nfc.py                     Unicode's normalisation form C in Python
graph_nfc.py               the same in the TensorFlow graph
stream_vocabulary.py       words or characters of running text, for language models
sentence_piece.py          SentencePiece in Python, with character offsets
sentence_piece_files.py    its files in folders of Hugging Face: the model file or tokenizer.json, and settings
sentence_piece_forms.py    how the tokenizers of the classes of Hugging Face differ: ids, special tokens, files
sentence_piece_model.py    its model file: pieces, and the rules that normalise texts
graph_sentence_piece.py    the same in the TensorFlow graph, with byte offsets
tokenizer_json.py          what all kinds share in Hugging Face's files: settings, added tokens, rows
kinds.py                   reads and makes tokenizers of every kind
text_words.py              splits a text into words for taggers
unicode_table.py           look-ups in Unicode 14.0
unicode_14.txt             the Unicode data, which tests/tokenization/generate_unicode_data.py writes
"""
