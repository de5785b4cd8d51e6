"""Uses of text vectors: similarity, search, word senses and summaries.

text_vectors.py          sentence embeddings, and features of tokens
vector_index.py          search over sentence embeddings: build, append, update, upsert, delete, save, load
index_rows.py            its vectors, texts, ids and metadata, in tables of Arrow: checks, filters and changes
index_files.py           its folder, and Arrow files of others
vector_search.py         compares all vectors, or searches their graph
quantised_vectors.py     vectors of 8 bits or 1 bit a number
word_index.py            search by words: BM25, and its folder
postings.py              search over sparse vectors
similar_pairs.py         pairs and groups of similar texts among many
rank_fusion.py           makes one ranking of several
search_scores.py         scores of searches in a judged collection
neighbour_graph.py       the graph for approximate search, by FAISS
hard_negatives.py        similar texts that are not relevant, for training
summarization.py         selects the most central sentences of a text
word_senses.py           vectors of one word in its sentences, as table and picture
vector_maps.py           vectors in fewer dimensions, and pictures of them: a map of an index
"""
