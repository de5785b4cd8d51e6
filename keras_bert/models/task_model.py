"""`TaskModel`: the base class of all models with heads, and their training.

Nothing here imports TensorFlow. On TensorFlow, task models train with the step of `distributed_model.py`.
"""

import dataclasses
import inspect
import math
import types
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.config import BertConfig
from keras_bert.models.base import BertModel
from keras_bert.models.fit_callbacks import rate_setter, set_directions
from keras_bert.models.losses import LossTerm
from keras_bert.models.metrics import RatioOfSums
from keras_bert.optimization import FOR_ONE_FIT, OneFitDecay
from keras_bert.optimization.schedules import WarmupSchedule
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.registry import task_of
from keras_bert.tokenization.user_inputs import checked_text, holds_texts

if on_tensorflow():
    from keras_bert.models.distributed_model import DistributedModel
else:

    class DistributedModel(keras.Model):  # type: ignore[no-redef]
        """Trains with Keras' own step. `TaskModel` cannot list `keras.Model` itself before `BertModel` as a base."""


class TaskModel(DistributedModel, BertModel):
    """A model that knows its own loss and metrics: `compile(optimizer=...)`, then `fit`, `evaluate`, `predict`.

    Subclasses set `loss_names` and `metric_names` and compute them in `loss_terms` and `metric_terms`. The loss is the
    sum of the loss terms. `fit` and `evaluate` report each term as the ratio of its sums over all batches. If all
    weights of a term are 0, a loss is reported as 0 and a metric as NaN.
    """

    loss_names: Sequence[str] = ()
    metric_names: Sequence[str] = ()
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

    def compile(
        self,
        optimizer: Any,
        loss: Any = None,
        loss_weights: Any = None,
        gradient_accumulation_steps: int = 1,
        gradient_checkpointing: bool = False,
        **kwargs: Any,
    ) -> None:
        """Configures training. The model computes its own loss; the other arguments are those of `keras.Model.compile`.

        Args:
            gradient_accumulation_steps: the number of parts that each batch is cut into. The parts are computed one
                after the other, so memory is needed for one part only. The result differs by the dropout masks only.
            gradient_checkpointing: whether to keep only the input of each layer and to compute the layer again in the
                backward pass: less memory, more time, the same result except for rounding
                (`benchmarks/training_memory.py`).

        Raises:
            InputError: a loss is given, or an argument does not fit the model or the backend.
        """
        if loss is not None or loss_weights is not None:
            raise InputError(
                f"{type(self).__name__} computes its own loss ({' + '.join(self.loss_names)}). "
                "Call compile(optimizer=...) without loss and loss_weights."
            )
        optimizer = keras.optimizers.get(optimizer)
        inner = getattr(optimizer, "inner_optimizer", optimizer)  # unwraps a LossScaleOptimizer
        if inner is not None and inner.gradient_accumulation_steps:
            raise InputError(
                "The optimizer's gradient_accumulation_steps is not supported: it averages batches without regard to "
                "their numbers of masked tokens. Use batches of the size of an update and compile(optimizer, "
                "gradient_accumulation_steps=N), which computes each batch in N parts."
            )
        self._set_gradient_accumulation(gradient_accumulation_steps, kwargs)
        for layer in self._flatten_layers():
            if hasattr(layer, "gradient_checkpointing"):  # a BertEncoder
                layer.gradient_checkpointing = bool(gradient_checkpointing)
        super().compile(optimizer=optimizer, **kwargs)

    def _set_gradient_accumulation(self, steps: int, compile_arguments) -> None:
        if not isinstance(steps, int) or steps < 1:
            raise InputError(f"gradient_accumulation_steps must be a whole number from 1. Received: {steps!r}")
        if steps > 1 and not on_tensorflow():
            raise InputError("gradient_accumulation_steps works on the TensorFlow backend of Keras only.")
        if steps > 1 and (compile_arguments.get("metrics") or compile_arguments.get("weighted_metrics")):
            raise InputError(
                "Keras' metrics need all predictions of a batch at once, so they do not work with "
                "gradient_accumulation_steps. Leave metrics out; the model reports its own."
            )
        self.gradient_accumulation_steps = steps

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        # Keras calls this when it loads a `.keras` file. Its own version skips models that override `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def fit(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Trains on features, as `keras.Model` does, or on texts, see `tasks/fitting.py`."""
        if holds_texts(x):
            from keras_bert.tasks import fitting

            return fitting.fit_texts(self, x, *args, **kwargs)
        if hasattr(x, "element_spec") or isinstance(x, types.GeneratorType):
            # Keras shuffles by default, and warns that it cannot shuffle these.
            kwargs.setdefault("shuffle", False)
        arguments = inspect.signature(keras.Model.fit).bind_partial(self, x, *args, **kwargs).arguments
        self._compile_by_default(arguments)
        self._check_learning_rate()
        self._prepare_callbacks(arguments.get("callbacks"))
        return super().fit(_with_weights(x, args, kwargs), *args, **kwargs)

    def _compile_by_default(self, arguments) -> None:
        """Compiles for this `fit` on features if the user has not: there is no optimizer, or that of an earlier fit."""
        if self.compiled and not (self.is_compiled_for_one_fit and int(self.optimizer.iterations + 0)):
            return
        task = task_of(self)
        if task is None or task.text_task is None:
            raise InputError(
                f"{type(self).__name__} has no default learning rate. Call compile(optimizer=...) before fit, such as "
                "compile(optimizer=AdamW(1e-4))."
            )
        from keras_bert.tasks import recipe

        recipe.compile_for_features(self, arguments)

    def _prepare_callbacks(self, callbacks) -> None:
        set_directions(callbacks, {*self._reports, "loss", "perplexity"})
        setter, schedule = rate_setter(callbacks), self._schedule
        if setter and isinstance(schedule, keras.optimizers.schedules.LearningRateSchedule):
            raise InputError(
                f"{setter} sets the learning rate, but the optimizer has a schedule, {type(schedule).__name__}. Call "
                "compile with an optimizer that has a number, such as AdamW(5e-5), or leave the callback out."
            )

    @property
    def is_compiled_for_one_fit(self) -> bool:
        """Whether a `fit` compiled the model, for that one call, instead of the user."""
        return isinstance(self._schedule, OneFitDecay) or getattr(self.optimizer, "name", "") == FOR_ONE_FIT

    @property
    def _schedule(self):
        """The learning rate schedule of the optimizer, or its constant rate; None without an optimizer."""
        optimizer = getattr(self.optimizer, "inner_optimizer", self.optimizer)  # unwraps a LossScaleOptimizer
        return getattr(optimizer, "_learning_rate", None)

    def _check_learning_rate(self) -> None:
        """Warns, or raises `InputError`, when the learning rate has fallen to 0 for good."""
        schedule = self._schedule
        if not isinstance(schedule, WarmupSchedule):
            return
        step = int(self.optimizer.iterations + 0)  # + 0 reads a variable that several devices hold
        if schedule.has_ended(step):
            warnings.warn(
                f"The learning rate of this {type(self).__name__} has fallen to 0: its optimizer's schedule is for "
                f"{schedule.num_train_steps} updates, and {step} are done. More training changes nothing; call "
                "compile(optimizer=...) with a new schedule.",
                stacklevel=3,
            )

    def evaluate(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Evaluates on features, as `keras.Model` does, or returns the official scores for texts and labels."""
        if holds_texts(x):
            from keras_bert.tasks import fitting

            return fitting.evaluate_texts(self, x, *args, **kwargs)
        return super().evaluate(_with_weights(x, args, kwargs), *args, **kwargs)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns logits for features, as `keras.Model` does, or one answer for each text."""
        if holds_texts(x):
            from keras_bert.tasks import fitting

            return fitting.predict_texts(self, x, *args, **kwargs)
        return super().predict(x, *args, **kwargs)

    def explain(self, x: Any, targets: Any = None, **options: Any) -> list:
        """Returns an `Explanation` of each answer to texts; see `tasks/explanation/explaining.py` for the options."""
        from keras_bert.tasks.explanation import explaining

        return explaining.explain_texts(self, x, targets, **options)

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


def _with_weights(x, args, kwargs):
    """Returns the features with `sample_weight` among them if the labels are there too: Keras would drop it."""
    has_labels = (args[0] if args else kwargs.get("y")) is not None
    if has_labels or not isinstance(x, Mapping) or kwargs.get("sample_weight") is None:
        return x
    return {**x, features.EXAMPLE_WEIGHTS: keras.ops.convert_to_numpy(kwargs.pop("sample_weight"))}


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


def check_labels(labels, fewest: int = 2) -> tuple[str, ...]:
    """Returns the class names as a tuple. Raises `InputError` for fewer than `fewest` names, or for duplicates."""
    labels = (labels,) if isinstance(labels, str) else tuple(labels)
    if len(labels) < fewest or len(set(labels)) < len(labels) or not all(isinstance(label, str) for label in labels):
        number = "two or more" if fewest > 1 else "one or more"
        raise InputError(f"labels must be {number} different names. Received: {list(labels)}")
    return tuple(checked_text(label, f"label {number}") for number, label in enumerate(labels, start=1))


def check_doc_stride(doc_stride: int | None) -> int | None:
    """Returns `doc_stride`. Raises `InputError` unless it is a whole number from 1, or None."""
    if doc_stride is not None and (not isinstance(doc_stride, int) or isinstance(doc_stride, bool) or doc_stride < 1):
        raise InputError(f"doc_stride must be a whole number from 1, or None. Received: {doc_stride!r}")
    return doc_stride
