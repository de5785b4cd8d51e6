"""Tasks on texts: one folder per task, and the code that all tasks share.

In a task's folder, `examples`, `rows`, `answers`, `scores`, `tag_schemes` and `answer_spans` import neither models
nor TensorFlow, since `data_prep`, loaded exports and clients use them. `task.py` connects them with the model.

classification/        labels and scores for texts and pairs
tagging/               a tag for each word: named entities, parts of speech
question_answering/    answers from a context
multiple_choice/       one of several choices
text_to_text/          writing a target for a source
embedding/             vectors of texts
sparse/                sparse vectors of texts: SPLADE
ranking/               scores of texts for a query
multi_vector/          a vector for each token of queries and documents
masked_lm/             predicting [MASK], and writing text
pretraining/           models that are trained on text without labels
explanation/           a score for each token of an answer
base.py                TextTask: the interface of a task
example_checks.py      what is checked in examples of several tasks
label_names.py         labels that users give as names, positions or truth values
settings.py            settings of exports that several tasks have
missing_examples.py    reports examples without a text or label, or leaves them out
fitting.py             fit, evaluate and predict on texts
answer_table.py        answers_frame: the answers of any task as a table of pandas
answer_operations.py   the operations that make answers from outputs
served_values.py       texts and places in the outputs of served models
held_out.py            the last examples, held out for validation
calibration.py         the temperature of a model, and how right its probabilities are
recipe.py              the default optimiser of a fit on texts
prediction.py          model outputs for many rows, sorted by length
progress.py            shows how far a computation on texts is
text_rows.py           texts become token rows; the tokenizer of a model
tokenized_texts.py     tokens of many texts with character offsets, as flat arrays
report_files.py        tables and pictures for reports
distillation.py        trains a small classifier on what a large one computes for texts
"""
