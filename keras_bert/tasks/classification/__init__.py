"""Labels, sets of labels or scores for texts and pairs of texts.

entry.py                 what checkpoints and exports must know of the task
model.py                 SequenceClassifier: labels or scores for a text or a pair of texts
sentence_classifier.py   SentenceClassifier: labels on the vector of a text, also from a few examples
signatures.py            the signatures of its SavedModels, and its models as ONNX operations
examples.py              checked examples and their labels
answers.py               labels and scores, from the outputs of a model or of a server
losses.py                focal and asymmetric loss, for rare labels
thresholds.py            thresholds of several labels, and how they are chosen
loaded.py                what its loaded exports can do beside answering texts
scores.py                accuracy, F1, Matthews, correlations; the main score of each GLUE task
task.py                  the task for `fit`, `evaluate` and `predict`
text_classifier.py       TextClassifier: an estimator of scikit-learn
zero_shot.py             labels without training, by a model for entailment
report.py                confusion matrix, scores per label and the worst errors
glue_submission.py       files for the GLUE leaderboard
"""
