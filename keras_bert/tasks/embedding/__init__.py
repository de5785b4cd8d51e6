"""Vectors of texts, trained and scored on pairs, triplets, scores or labels.

entry.py                what checkpoints and exports must know of the task
model.py                SentenceEncoder: a vector for each text
loss_table.py           the losses by name, and what each needs
loss_parts.py           what these losses are made of
losses.py               losses over the vectors of a whole batch
contrastive_losses.py   losses for pairs that are similar or not
teacher_losses.py       losses that learn from the scores of a teacher, or from a guide
mixed_loss.py           the loss of a batch that is from one of several data sets
signatures.py           the signatures of its SavedModels, and of those of encoders
onnx.py                 its models as ONNX operations
examples.py             columns of texts with scores or labels; several data sets
answers.py              vectors, from the outputs of a server
scores.py               retrieval and similarity scores
teachers.py             computes what a loss learns from another model
task.py                 the task for `SentenceEncoder`; what it shares with that of ranking
similarity.py           cosines of vectors
options.py              refuses unknown options of `encode`, with hints
loaded.py               further methods of its loaded exports
start.py                how such a model starts from a checkpoint of another kind
"""
