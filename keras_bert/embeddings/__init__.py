"""Uses of text vectors: similarity, search, word senses and summaries.

text_vectors.py          sentence embeddings, and features of tokens
vector_files.py          files of both
vector_index.py          search over sentence embeddings: build, append, update, delete, save, load
index_rows.py            its vectors, texts, ids and metadata
index_files.py           its folder
metadata_columns.py      columns of metadata, and filters
quantised_vectors.py     vectors of 8 bits or 1 bit a number
row_search.py            searches the vectors of an index
exact_search.py          compares all vectors
model_fingerprint.py     tells whether two models give the same vectors
search_scores.py         scores of a search, with and without re-ranking, in a judged collection
neighbour_graph.py       the graph for approximate search, by FAISS
static_distillation.py   a vector for each token, distilled from an encoder
hard_negatives.py        similar texts that are not relevant, for training
summarization.py         selects the most central sentences of a text
word_senses.py           vectors of one word in its sentences
word_sense_files.py      these vectors as table and picture
"""
