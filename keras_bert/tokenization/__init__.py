"""Google's WordPiece tokenizer: text -> token ids, in Python and in the TensorFlow graph.

vocabulary.py              vocab.txt
wordpiece.py               the tokenizer in Python, with character offsets: the reference
graph_wordpiece.py         the same tokenizer in the TensorFlow graph, with byte offsets
fast_normalizer.py         its fast path, and the texts that the fast path covers
exact_graph.py             its exact path, in core TensorFlow operations
text_words.py              splits a text into words for taggers
user_inputs.py             checks texts that users pass: lists, arrays, columns, data sets
unicode_table.py           look-ups in Unicode 14.0
unicode_14.txt             the Unicode data, a generated file
generate_unicode_data.py   writes unicode_14.txt
"""
