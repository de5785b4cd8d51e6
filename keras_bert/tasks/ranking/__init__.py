"""Scores of texts for queries. The examples are those of `tasks/embedding`.

entry.py        what checkpoints and exports must know of the task
model.py        CrossEncoder: a score for a query and a text
loss_table.py   its losses by name, and what each needs
losses.py       losses over the scores of the texts of each query
signatures.py   the signatures of its SavedModels
answers.py      ranked texts
task.py         the task for `CrossEncoder`; further methods of its loaded exports
checkpoint.py   what checkpoints say of such a model, and how it starts from them
"""
