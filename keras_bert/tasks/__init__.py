"""Tasks on texts: one folder per task, and the code that all tasks share.

In a task's folder, `examples`, `rows`, `answers`, `decoding`, `scores`, `tag_schemes` and `answer_spans` import neither
models nor TensorFlow, since `data_prep`, loaded exports and clients use them. `task.py` connects them with the model.

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
text_model.py          TextModel: the base class of models that take texts: fit, evaluate, predict, report, explain
base.py                TextTask: the interface of a task; predict and evaluate on texts
examples.py            texts and pairs; checks of examples, missing values, and the last ones held out
label_names.py         labels that users give as names, positions or truth values
settings.py            settings of exports that several tasks have
fitting.py             fit on texts, and its default optimiser
answer_table.py        answers_frame: the answers of any task as a table of pandas
answer_operations.py   the operations that make answers from outputs
served_values.py       texts and places in the outputs of served models
calibration.py         the temperature of a model, and how right its probabilities are
prompts.py             the texts that a model puts before each text
prediction.py          model outputs for many rows, sorted by length; shows how far it is
text_rows.py           texts become token rows, or tokens with offsets; the tokenizer of a model
evaluation_report.py   the report on an evaluation, which notebooks show
text_features.py       texts as features, for scripts that train or wrap a model themselves
report_files.py        tables and pictures for reports
distillation.py        trains a small classifier on what a large one computes for texts
"""
