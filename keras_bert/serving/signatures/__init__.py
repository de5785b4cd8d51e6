"""The signatures of exported models, one file per kind of model.

signature_inputs.py     shared parts: named inputs, token rows from texts or ids
row_groups.py           runs many rows through the model in groups
examples.py             the same signatures for serialised tf.train.Example
tokenize.py             the tokenizer as a signature
classification.py       labels and scores of texts and pairs
explanation.py          a score for each token of an answer's row
multiple_choice.py      one of several choices
text_to_text.py         texts written for texts
embedding.py            vectors of texts and of tokens
masked_lm.py            likely tokens for [MASK]
masked_text.py          finds [MASK] in texts, in the graph
tagging.py              tags of words and entities of texts
graph_words.py          splits texts into words, in the graph
sentence_rows.py        words -> token rows, in the graph
graph_entities.py       tags -> entities, in the graph
question_answering.py   answers to questions about contexts of any length
answer_windows.py       cuts contexts into windows, in the graph
answer_search.py        two logits per token -> answers with n-best list, in the graph
"""

# The signature with what a model returns for token rows, which `keras_bert.serving.load` calls. Its output is `outputs`
# if the model returns one array.
RAW_OUTPUTS = "raw_outputs"
