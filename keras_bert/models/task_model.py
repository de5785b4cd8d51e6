"""`TaskModel`: the base class of all models with heads, with their losses and metrics.

Nothing here imports TensorFlow. On TensorFlow, task models train with the step of `distributed_model.py`.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import keras

from keras_bert.config import BertConfig
from keras_bert.models.losses import LossTerm
from keras_bert.models.metrics import RatioOfSums
from keras_bert.models.task_verbs import TaskVerbs
from keras_bert.program.errors import InputError
from keras_bert.records import features


class TaskModel(TaskVerbs):
    """A model that knows its own loss and metrics: `compile(optimizer=...)`, then `fit`, `evaluate`, `predict`.

    Subclasses set `loss_names` and `metric_names` and compute them in `loss_terms` and `metric_terms`. The loss is the
    sum of the loss terms. `fit` and `evaluate` report each term as the ratio of its sums over all batches. If all
    weights of a term are 0, a loss is reported as 0 and a metric as NaN.
    """

    # Whether the weights of examples are counted, as in Google's pre-training: sum(weight * loss) / sum(weight).
    # Otherwise they have the meaning of Keras: sum(weight * loss) / count, and metrics have no weights.
    counts_weights = False
    can_be_static = False  # whether the encoder may be a `StaticEncoder`

    def __init__(self, config: BertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        if config.is_static and not self.can_be_static:
            raise InputError("A static model has no layers. Load it with SentenceEncoder.from_pretrained.")
        self._reports = {name: RatioOfSums(name=name) for name in self.loss_names}
        self._reports |= {name: RatioOfSums(name=name, empty_value=math.nan) for name in self.metric_names}

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        """Returns the terms of the loss, weighted means, named as in `loss_names`; see also `trained_loss_terms`.

        Args:
            x: the features. Some tasks have the labels among them.
            y: the labels, or None.
            y_pred: what `call` returned.
            sample_weight: float `[B]`, or None.
        """
        raise NotImplementedError

    def trained_loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        """Returns the loss terms as training counts them; see `counts_weights`. Arguments are those of `loss_terms`."""
        terms = self.loss_terms(x, y, y_pred, sample_weight)
        if self.counts_weights or sample_weight is None and features.EXAMPLE_WEIGHTS not in x:
            return terms
        # Of these terms only the weights are used. TensorFlow prunes the rest.
        counts = self.loss_terms(_without_weights(x), y, y_pred, None)
        pairs = zip(terms, counts, strict=True)
        return [dataclasses.replace(term, weight=counted.weight) for term, counted in pairs]

    def reported_metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        """Returns the metric terms as training reports them; see `counts_weights`."""
        if self.counts_weights:
            return self.metric_terms(x, y, y_pred, sample_weight)
        return self.metric_terms(_without_weights(x), y, y_pred, None)

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        """Returns the terms that are reported but not optimised, named as in `metric_names`."""
        raise NotImplementedError

    def make_train_function(self, force: bool = False) -> Any:
        self.new_parts.set_trained()  # Keras calls this when `fit` or `train_on_batch` begins
        return super().make_train_function(force)

    def compute_loss(
        self, x: Any = None, y: Any = None, y_pred: Any = None, sample_weight: Any = None, training: bool = True
    ) -> Any:
        terms = self.trained_loss_terms(x, y, y_pred, sample_weight)
        # Reported here, because computing the terms again would cost a pass over all logits.
        self._report(terms)
        return sum(term.value for term in terms) + sum(keras.ops.sum(loss) for loss in self.losses)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        self._report(self.reported_metric_terms(x, y, y_pred, sample_weight))
        if not isinstance(sample_weight, Mapping):  # one for each label, of a task without Keras' metrics
            sample_weight = example_weights(x, sample_weight)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _report(self, terms):
        for term in terms:
            self._reports[term.name].update_state(keras.ops.stop_gradient(term.numerator), term.weight)

    def get_metrics_result(self) -> dict[str, Any]:
        results = super().get_metrics_result()
        # Keras' own "loss" is a mean of the batches' means.
        results["loss"] = sum(self._reports[name].result() for name in self.loss_names)
        return results


def _without_weights(x):
    return {name: values for name, values in x.items() if name != features.EXAMPLE_WEIGHTS}


def example_weights(x, sample_weight):
    """Returns the weights `[B]` of a batch's examples, or None if all weights are 1.

    A weight is the product of `sample_weight`, as given to `fit`, and of two optional features: `example_weights`, and
    `is_real_example`, which is 0 for examples that only fill up the last batch, as in Google's records.
    """
    found = [] if sample_weight is None else [sample_weight]
    if isinstance(x, Mapping):
        found += [x[name] for name in (features.IS_REAL_EXAMPLE, features.EXAMPLE_WEIGHTS) if name in x]
    weights = None
    for values in found:
        values = keras.ops.reshape(keras.ops.cast(values, "float32"), (-1,))
        weights = values if weights is None else weights * values
    return weights
