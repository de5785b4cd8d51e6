"""Vectors of texts, trained and scored on pairs, triplets, scores or labels.

entry.py                 what checkpoints and exports must know of the task
model.py                 SentenceEncoder: a vector for each text
loss_table.py            the losses by name, and what each needs
losses.py                losses over the vectors of a whole batch, and what they are made of
contrastive_losses.py    losses for pairs that are similar or not
teacher_losses.py        losses that learn from the scores of a teacher, or from a guide
mixed_loss.py            the loss of a batch that is from one of several data sets
signatures.py            the signatures of its SavedModels, and of those of encoders; its models as ONNX operations
examples.py              columns of texts with scores or labels; several data sets
scores.py                retrieval and similarity scores
static_distillation.py   a vector for each token, distilled from an encoder
task.py                  the task for `SentenceEncoder`, what it shares with that of ranking, what teachers give
encoding.py              vectors of texts and their cosines, for the model, its loaded exports and servers
checkpoint.py            what checkpoints say of such a model, and how it starts from them
"""
