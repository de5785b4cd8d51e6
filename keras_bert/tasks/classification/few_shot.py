"""Trains a `SentenceClassifier` on a few texts per label, in the manner of SetFit.

First the encoder learns from pairs: the cosine of two texts is trained towards 1 if they have the same label, and
towards 0 if not. A few texts make many pairs. Then a logistic regression is fitted to the vectors of the texts, and
its weights become the dense layer of the model.

Reference: Tunstall et al., 2022, arXiv 2209.11055; the defaults are those of `setfit` 1.2.
"""

import numpy as np


def few_shot_pairs(ids: np.ndarray, max_pairs: int | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns pairs of texts, as many with equal labels as with different ones.

    All pairs of both kinds are taken, a text with itself included. Those of the rarer kind are repeated.

    Args:
        ids: the label id of each text, int `[N]`.
        max_pairs: the largest number of pairs; None for all.
        seed: the seed of their order.

    Returns:
        int `[P, 2]`, the numbers of the texts, and float `[P]`: 1 for equal labels and 0 for different ones.
    """
    generator = np.random.default_rng(seed)
    pairs = generator.permutation(np.stack(np.triu_indices(len(ids)), axis=1))
    is_equal = ids[pairs[:, 0]] == ids[pairs[:, 1]]
    number = max(is_equal.sum(), (~is_equal).sum())
    if max_pairs is not None:
        number = min(number, max(1, max_pairs // 2))
    chosen = [np.resize(kind, (number, 2)) for kind in (pairs[is_equal], pairs[~is_equal])]  # repeats the rarer kind
    return np.concatenate(chosen), np.repeat([1.0, 0.0], number)


def sentence_encoder_of(model):
    """Returns a `SentenceEncoder` with the weights of a classifier."""
    from keras_bert.checkpoints.pretrained import checkpoint_of, model_of
    from keras_bert.tasks.embedding.model import SentenceEncoder

    head = model.sentence_head.get_config()
    arguments = {name: head[name] for name in ("pooling", "dense", "normalize")}
    return model_of(SentenceEncoder, checkpoint_of(model), **arguments)


def fit_dense_layer(model, vectors: np.ndarray, ids: np.ndarray) -> None:
    """Sets the dense layer to a logistic regression on vectors `[N, D]`."""
    from sklearn.linear_model import LogisticRegression

    head = LogisticRegression().fit(vectors, ids)
    kernel, bias = (np.zeros(weight.shape, np.float32) for weight in model.classifier.weights)
    bias[:] = np.finfo(np.float32).min / 2  # labels that do not occur
    if len(head.classes_) == 2:  # one logit, that of the second label
        kernel[:, head.classes_[1]] = head.coef_[0]
        bias[head.classes_] = [0.0, head.intercept_[0]]
    else:
        kernel[:, head.classes_] = head.coef_.T
        bias[head.classes_] = head.intercept_
    model.classifier.set_weights([kernel, bias])
    model.new_parts.set_trained()
