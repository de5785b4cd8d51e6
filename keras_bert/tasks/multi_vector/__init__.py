"""A vector for each token of queries and documents, compared by MaxSim (ColBERT). The examples are those of
`tasks/embedding`.

entry.py        what checkpoints and exports must know of the task
model.py        MultiVectorEncoder: the model and its losses over a whole batch
losses.py       in-batch negatives and distillation from a teacher's scores, over MaxSim
encoding.py     texts -> vectors -> scores -> ranked texts, for the model and its loaded exports
max_sim.py      MaxSim of vectors in NumPy; the names of the losses over it
task.py         the task for `MultiVectorEncoder`
signatures.py   the signatures of its SavedModels
checkpoint.py   what checkpoints say of such a model, and how it starts from them
bge_m3.py       dense, sparse and token vectors of bge-m3 by one pass
"""
