"""`SentenceClassifier`: a classifier on the pooled vector of a text, for training on a few texts per label (SetFit).

This training has two steps. First the encoder learns from pairs: the cosine of two texts is trained towards 1 if they
have the same label, and towards 0 if not. A few texts make many pairs. Then a logistic regression is fitted to the
vectors of the texts, and its weights become the dense layer of the model. One temperature makes it about as sure as it
is right; it comes from vectors before the first step, because afterwards the encoder knows the label of each text.

Reference: Tunstall et al., 2022, arXiv 2209.11055; the defaults are those of `setfit` 1.2, which has no temperature.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from keras_bert.checkpoints.pretrained import checkpoint_of, model_of
from keras_bert.config import BertConfig
from keras_bert.layers.text_pooling import TextPooling
from keras_bert.optimization import AdamW, WarmupLinearDecay
from keras_bert.program.errors import InputError
from keras_bert.tasks.base import text_task
from keras_bert.tasks.calibration import fit_temperature
from keras_bert.tasks.classification.examples import label_ids
from keras_bert.tasks.classification.model import SequenceClassifier
from keras_bert.tasks.embedding.losses import CosineRegression
from keras_bert.tasks.embedding.model import SentenceEncoder, naming_the_pooling
from keras_bert.tasks.examples import complete_examples


@keras.saving.register_keras_serializable(package="keras_bert")
class SentenceClassifier(SequenceClassifier):
    """A `SequenceClassifier` whose dense layer reads the vector of a `SentenceEncoder` instead of the pooled output.

    Loaded from a model that was trained for sentence embeddings, it learns from a few texts per label:

        model = SentenceClassifier.from_pretrained("all-MiniLM-L6-v2", labels=["negative", "positive"])
        model.fit_few_shot(texts, labels)
        model.predict(["a lovely film"])[0].label

    `fit`, `evaluate`, `predict`, saving and exporting are those of `SequenceClassifier`.

    Args:
        config, labels, problem_type: as for `SequenceClassifier`.
        pooling, dense, normalize: as for `SentenceEncoder`.

    Call arguments and returns: as for `SequenceClassifier`.

    Raises:
        InputError: as `SequenceClassifier` and `TextPooling`.

    Reference: Tunstall et al., 2022, arXiv 2209.11055 (SetFit).
    """

    kind = "SentenceClassifier"
    uses_pooler = False

    def __init__(
        self,
        config: BertConfig,
        labels: Sequence[str] | None = None,
        problem_type: str = "classification",
        pooling: Sequence[str] | str = ("mean",),
        dense: Sequence[Mapping] = (),
        normalize: bool = True,
        **kwargs: Any,
    ):
        self._head_arguments = (pooling, dense, normalize)
        super().__init__(naming_the_pooling(config, pooling, len(dense)), labels, problem_type, **kwargs)
        self.encoder.pooler.trainable = False  # no gradient reaches it

    def build(self, input_shape: Any = None) -> None:
        self.sentence_head = TextPooling(*self._head_arguments, dtype=self._logits_dtype, name="sentence_head")
        self.sentence_head.build((None, None, self.config.hidden_size))
        self.classifier.build((None, self.sentence_head.output_size(self.config.hidden_size)))
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        vectors = self.sentence_head.text_vectors(self.encoder, inputs, training=training)
        return self.classifier(self.dropout(vectors, training=training))

    def fit_few_shot(
        self,
        texts: Any,
        labels: Any,
        *,
        epochs: int = 1,
        batch_size: int = 16,
        learning_rate: float = 2e-5,
        max_pairs: int | None = None,
        max_seq_length: int | None = None,
        seed: int = 12345,
        skip_missing: bool = False,
        verbose: Any = "auto",
    ) -> None:
        """Trains the encoder on pairs of a few texts per label, and then the dense layer on their vectors.

        The probabilities get a temperature from held-out texts, if each label has two texts or more.

        Args:
            texts: N texts.
            labels: N label names or ids of the model.
            epochs: passes over the pairs.
            batch_size: pairs per update.
            learning_rate: the peak rate. It rises for a tenth of the updates and then falls to 0.
            max_pairs: the largest number of pairs in a pass; None for all. Without a limit their number grows with the
                square of the number of texts.
            max_seq_length: longer texts are cut to this many tokens.
            seed: the seed of the order of the pairs.
            skip_missing: as for `fit`.
            verbose: as for `fit`.

        Raises:
            InputError: only one label occurs, a label is unknown, or the model is of another problem type.
        """
        if self.problem_type != "classification":
            raise InputError(f"Few-shot training needs one label per text. Received: a model for {self.problem_type}")
        examples = complete_examples(text_task(self), texts, labels, skip_missing=skip_missing)
        ids = np.asarray(label_ids(examples, self.labels))
        if len(set(ids.tolist())) < 2:
            raise InputError(
                f"Few-shot training needs texts of two labels or more. Received: {len(ids)} texts with the label "
                f"{examples.labels[0]!r}"
            )
        pairs, scores = few_shot_pairs(ids, max_pairs, seed)
        columns = tuple([examples.texts[number] for number in column] for column in pairs.T)
        body = model_of(SentenceEncoder, checkpoint_of(self), **self._head_settings())
        num_steps = epochs * -(-len(scores) // batch_size)
        schedule = WarmupLinearDecay(learning_rate, num_steps, num_steps // 10)
        before = body.predict(examples.texts, max_seq_length=max_seq_length, verbose=0)
        body.compile(AdamW(schedule), loss=CosineRegression(), jit_compile=False)
        options = {"batch_size": batch_size, "epochs": epochs, "max_seq_length": max_seq_length, "seed": seed}
        body.fit(columns, scores.tolist(), verbose=verbose, **options)
        for own, trained in ((self.encoder, body.encoder), (self.sentence_head, body.sentence_head)):
            own.set_weights(trained.get_weights())
        vectors = body.predict(examples.texts, max_seq_length=max_seq_length, verbose=0)
        fit_dense_layer(self, vectors, ids, held_out_temperature(before, ids))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), **self._head_settings()}

    def _head_settings(self) -> dict[str, Any]:
        head = self.sentence_head.get_config()
        return {name: head[name] for name in ("pooling", "dense", "normalize")}


def few_shot_pairs(ids: np.ndarray, max_pairs: int | None, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns pairs of texts, as many with equal labels as with different ones.

    All pairs of both kinds are taken, a text with itself included, in the order of the seed, or at most `max_pairs`.
    Those of the rarer kind are repeated. `ids` has the label id of each text, int `[N]`.

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


def fit_dense_layer(model, vectors: np.ndarray, ids: np.ndarray, temperature: float = 1.0) -> None:
    """Sets the dense layer to a logistic regression on vectors `[N, D]`, whose logits are divided by a temperature."""
    from sklearn.linear_model import LogisticRegression

    head = LogisticRegression().fit(vectors, ids)
    head.coef_ /= temperature
    head.intercept_ /= temperature
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


def held_out_temperature(vectors: np.ndarray, ids: np.ndarray) -> float:
    """Returns by what to divide the logits of a logistic regression on a few vectors, 1 at most.

    The regularisation keeps logits near 0 however well the labels can be told apart. So each of up to five parts of the
    vectors gets logits from a regression on the others, and the temperature is fitted to these as if two more texts
    had been as often wrong as by chance (Platt, 1999). Where a label has a single text, it is 1.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_predict

    labels, numbers, counts = np.unique(ids, return_inverse=True, return_counts=True)
    if counts.min() < 2:
        return 1.0
    parts = StratifiedKFold(min(5, counts.min()))
    logits = cross_val_predict(LogisticRegression(), vectors, ids, cv=parts, method="decision_function")
    if len(labels) == 2:  # one logit, that of the second label
        logits = np.stack([np.zeros(len(logits)), logits], axis=1)
    try:
        return min(1.0, fit_temperature(logits, numbers, doubt=2 / (len(ids) + 2)))
    except InputError:  # no better than chance
        return 1.0
