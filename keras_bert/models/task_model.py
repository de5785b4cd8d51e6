"""`TaskModel`: the base class of all models with heads, with their losses and metrics.

Nothing here imports TensorFlow. The training step is in `distributed_model.py`, or on JAX in `jax_model.py`.
"""

import contextlib
import dataclasses
import inspect
import math
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras

from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.accelerate.traced_functions import forget_stale_steps
from keras_bert.config import BertConfig
from keras_bert.models.base import BertModel
from keras_bert.models.fit_callbacks import check_rate_setter, set_directions, verbose_of_thread
from keras_bert.models.losses import (
    LossTerm,
    RatioOfSums,
    compared_parts,
    example_weights,
    with_weights,
    without_weights,
)
from keras_bert.models.shown_arguments import check_options
from keras_bert.optimization import FOR_ONE_FIT, OneFitDecay
from keras_bert.optimization.schedules import WarmupSchedule
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.program.user_inputs import holds_texts, listed_texts
from keras_bert.records import features

if on_tensorflow():
    from keras_bert.models import distributed_model
else:
    from keras_bert.accelerate.jax_devices import divided_among_devices
    from keras_bert.models import jax_model


# `fit` of Keras gives this to `evaluate`.
OF_KERAS = "_use_cached_eval_dataset"


class TaskModel(BertModel):
    """A model that knows its own loss and metrics: `compile(optimizer=...)`, then `fit`, `evaluate`, `predict`.

    These three are those of `FeatureModel` and of `tasks.text_model.TextModel`.

    On TensorFlow, `fit` and `evaluate` give the same results under every tf.distribute strategy. Create the model in
    the scope of the strategy.

    Subclasses set `loss_names` and `metric_names` and compute them in `loss_terms` and `metric_terms`. The loss is the
    sum of the loss terms. `fit` and `evaluate` report each term as the ratio of its sums over all batches. If all
    weights of a term are 0, a loss is reported as 0 and a metric as NaN.

    Attributes:
        between_batches: None, or an object for what a batch in training leaves to the next one, on TensorFlow only. On
            each device, `recall(data)` returns the share of a batch with it, and `keep(predictions)` stores what the
            outputs leave. `variables` is the state that checkpoints of a run have. Set it after `compile`.
    """

    # Whether the weights of examples are counted, as in Google's pre-training: sum(weight * loss) / sum(weight).
    # Otherwise they have the meaning of Keras: sum(weight * loss) / count, and metrics have no weights.
    counts_weights = False
    # Whether the loss compares all texts of a batch. Then the model has `loss_term` and `vector_size`, see
    # `whole_batch_step.py`.
    compares_batch = False
    loss_names: Sequence[str] = ()
    metric_names: Sequence[str] = ()
    # Why `compile` takes no metrics of Keras; None if it takes them.
    metrics_refusal: str | None = None
    gradient_accumulation_steps = 1
    # For models with several losses: returns a loss by its name; a loss or None as it is. Raises `InputError`.
    as_loss: Callable[[Any], Any] | None = None
    # Their losses for examples of a kind that name none; and the one loss from those of several data sets.
    default_losses: Mapping[str, Any] = {}
    mixed_loss: Callable[[Sequence[Any], Any], Any] | None = None
    loss_choice: Any = None  # the loss that the user has given to `compile` or `fit`; None for that of the examples
    _loss_of_examples: Any = None
    between_batches: Any = None
    can_be_static = False  # whether the encoder may be a `StaticEncoder`

    def __init__(self, config: BertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        if config.is_static and not self.can_be_static:
            raise InputError("A static model has no layers. Load it with SentenceEncoder.from_pretrained.")
        self._reports = {name: RatioOfSums(name=name) for name in self.loss_names}
        self._reports |= {name: RatioOfSums(name=name, empty_value=math.nan) for name in self.metric_names}

    def logits_dense(self, units: int, name: str) -> keras.layers.Dense:
        """Returns a dense layer that computes logits, not yet built."""
        initializer = keras.initializers.TruncatedNormal(stddev=self.config.initializer_range)
        return keras.layers.Dense(units, kernel_initializer=initializer, dtype=self._logits_dtype, name=name)

    def compile(
        self,
        optimizer: Any,
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: bool | str = "auto",
        auto_scale_loss: bool = True,
        *,
        gradient_accumulation_steps: int = 1,
        gradient_checkpointing: bool = False,
    ) -> None:
        """Configures training. The model computes its own loss and metrics.

        Args:
            optimizer: a Keras optimizer or its name, such as `AdamW(2e-5)`.
            loss: None; or the name of a loss, for models whose `fit` has one. None keeps the loss that was chosen
                before.
            loss_weights: None.
            metrics, weighted_metrics: Keras metrics to report beside the model's own; several models take none.
            run_eagerly: whether to run without compiling, to find errors.
            steps_per_execution: the number of batches between two returns to Python.
            jit_compile: whether to compile with XLA; "auto" lets Keras decide.
            auto_scale_loss: whether float16 gets a `LossScaleOptimizer`.
            gradient_accumulation_steps: the number of parts that each batch is cut into. The parts are computed one
                after the other, so memory is needed for one part only. The result differs by the dropout masks only.
            gradient_checkpointing: whether to keep only the input of each layer and to compute the layer again in the
                backward pass: less memory, more time, the same result except for rounding
                (`benchmarks/training_memory.py`).

        Raises:
            InputError: a loss is given, or an argument does not fit the model or the backend.
        """
        self.choose_loss(loss, loss_weights)
        if self.metrics_refusal and (metrics or weighted_metrics):
            raise InputError(f"{self.metrics_refusal} Call compile(optimizer=...) without metrics.")
        optimizer = keras.optimizers.get(optimizer)
        inner = getattr(optimizer, "inner_optimizer", optimizer)  # unwraps a LossScaleOptimizer
        if inner is not None and inner.gradient_accumulation_steps:
            raise InputError(
                "The optimizer's gradient_accumulation_steps is not supported: it averages batches without regard to "
                "their numbers of masked tokens. Use batches of the size of an update and compile(optimizer, "
                "gradient_accumulation_steps=N), which computes each batch in N parts."
            )
        self._set_gradient_accumulation(gradient_accumulation_steps, bool(metrics or weighted_metrics))
        for layer in self._flatten_layers():
            if hasattr(layer, "gradient_checkpointing"):  # a BertEncoder
                layer.gradient_checkpointing = bool(gradient_checkpointing)
        super().compile(
            optimizer=optimizer,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            run_eagerly=run_eagerly,
            steps_per_execution=steps_per_execution,
            jit_compile=jit_compile,
            auto_scale_loss=auto_scale_loss,
        )

    def choose_loss(self, loss: Any, loss_weights: Any = None) -> None:
        """Sets the loss of the user; None keeps the earlier one. Raises `InputError` if the model has no such loss."""
        if loss_weights is None and self.as_loss is not None:
            self.loss_choice = self.as_loss(loss) or self.loss_choice
        elif loss is not None or loss_weights is not None:
            raise InputError(
                f"{type(self).__name__} computes its own loss ({' + '.join(self.loss_names)}). "
                "Call compile(optimizer=...) without loss and loss_weights."
            )

    def _set_gradient_accumulation(self, steps: int, has_metrics: bool) -> None:
        check_whole("gradient_accumulation_steps", steps, at_least=1)
        if steps > 1 and has_metrics:
            raise InputError(
                "Keras' metrics need all predictions of a batch at once, so they do not work with "
                "gradient_accumulation_steps. Leave metrics out; the model reports its own."
            )
        if steps > 1 and self.compares_batch and not on_tensorflow():
            raise InputError(
                f"{type(self).__name__} compares the texts of a whole batch, so gradient_accumulation_steps needs "
                f"TensorFlow as the backend of Keras. Received: {steps}. Leave it out, or use KERAS_BACKEND=tensorflow."
            )
        self.gradient_accumulation_steps = steps

    @contextlib.contextmanager
    def chosen_loss(self, loss: Any) -> Iterator[None]:
        """Sets the loss of the user for the block; if the block raises `InputError`, the earlier loss is set again."""
        before = self.loss_choice
        self.choose_loss(loss)
        try:
            yield
        except InputError:  # what is refused changes nothing
            self.loss_choice = before
            raise

    def set_loss_of_examples(self, loss: Any) -> None:
        """Sets the loss that is used when the user has chosen none."""
        self._loss_of_examples = loss

    def get_compile_config(self) -> dict[str, Any] | None:
        # A loss is chosen anew for each training.
        found = super().get_compile_config()
        return found and {name: value for name, value in found.items() if name != "loss"}

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        # Keras calls this when it loads a `.keras` file. Its own version skips models that override `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def fit_on_features(self, x: Any, y: Any, **options: Any) -> Any:
        """Trains on features; `options` are those of `keras.Model.fit`. Returns the `History` of Keras."""
        if hasattr(x, "element_spec") or isinstance(x, types.GeneratorType):
            options["shuffle"] = False  # Keras warns that it cannot shuffle these
        self.before_fit({"x": x, **options})
        self._initial_epoch = None  # a BackupAndRestore of an earlier fit has set it
        self._check_learning_rate()
        callbacks, weights = options.get("callbacks"), options.pop("sample_weight", None)
        set_directions(callbacks, {*self.loss_names, *self.metric_names, "loss", "perplexity"})
        check_rate_setter(callbacks, self._schedule)
        x, weights = with_weights(x, y, weights)
        options["validation_data"] = self._shared_by_workers(options.get("validation_data"))
        return super().fit(self._shared_by_workers(x), y, sample_weight=weights, **options)

    def evaluate_on_features(
        self, x: Any, y: Any, sample_weight: Any = None, verbose: Any = "auto", **options: Any
    ) -> Any:
        """Evaluates on features; `options` are those of `keras.Model.evaluate`."""
        self.warn_if_untrained()  # before Keras says that the model is not compiled
        x, weights = with_weights(x, y, sample_weight)
        options["verbose"] = verbose_of_thread(verbose)
        return super().evaluate(self._shared_by_workers(x), y, sample_weight=weights, **options)

    def predict_on_features(self, x: Any, verbose: Any = "auto", **options: Any) -> Any:
        """Returns the outputs for features; `options` are those of `keras.Model.predict`."""
        return super().predict(self._shared_by_workers(x), verbose=verbose_of_thread(verbose), **options)

    def _shared_by_workers(self, x):
        return distributed_model.shared_by_workers(self, x) if on_tensorflow() else x

    def before_fit(self, arguments: Mapping[str, Any]) -> None:
        """Prepares the updates of one `fit` on features; `arguments` are those of `keras.Model.fit`.

        Raises:
            InputError: the model is not compiled, and has no default learning rate.
        """
        if not self.compiled:
            raise InputError(
                f"{type(self).__name__} has no default learning rate. Call compile(optimizer=...) before fit, such as "
                "compile(optimizer=AdamW(1e-4))."
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
                stacklevel=4,
            )

    def training_begins(self) -> None:
        """Notes that the weights change from now on."""
        self.new_parts.set_trained()

    def make_train_function(self, force: bool = False) -> Any:
        self.training_begins()  # Keras calls this when `fit` or `train_on_batch` begins
        if not on_tensorflow():
            return super().make_train_function(force)
        forget_stale_steps(self)
        return distributed_model.train_function(self, super().make_train_function, force)

    if on_tensorflow():

        def make_test_function(self, force: bool = False) -> Any:
            return distributed_model.test_function(self, super().make_test_function, force)

        def _maybe_symbolic_build(self, iterator: Any = None, data_batch: Any = None) -> None:
            distributed_model.build_metrics(self, iterator, data_batch)

    else:

        def train_step(self, state: tuple, data: Any) -> tuple[dict, tuple]:
            return jax_model.train_step(self, super().train_step, state, data)

        def test_step(self, state: tuple, data: Any) -> tuple[dict, tuple]:
            return super().test_step(state, divided_among_devices(data))

        def predict_step(self, state: tuple, data: Any) -> tuple[Any, list]:
            return super().predict_step(state, divided_among_devices(data))

        def _get_jax_state(self, purge_model_variables: bool = False, **names: bool) -> tuple:
            return jax_model.state_for_step(self, super()._get_jax_state, purge_model_variables, **names)

        def jax_state_sync(self) -> None:
            if not jax_model.has_lost_state(self):  # Keras' error about it would hide why the step failed
                super().jax_state_sync()

        def held_values(self) -> dict[int, Any]:
            return jax_model.held_values(self)

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        """Returns the terms of the loss, weighted means, named as in `loss_names`; see also `trained_loss_terms`.

        Args:
            x: the features. Some tasks have the labels among them.
            y: the labels, or None.
            y_pred: what `call` returned.
            sample_weight: float `[B]`, or None.
        """
        return [self.loss_term(*compared_parts(x, y, y_pred, sample_weight))]

    def loss_term(self, vectors: Any, labels: Any, text_numbers: Any, weights: Any) -> LossTerm:
        """Returns the loss of a whole batch, of a model that `compares_batch`.

        Args:
            vectors: what `call` returned for all texts of the batch, float `[B, C, ...]`, or `[B, ...]` for single
                texts.
            labels: `[B, ...]`, or None.
            text_numbers: int `[B, C]`, equal for equal texts; or None: all texts differ.
            weights: float `[B]`, the weights of the examples; None for 1.
        """
        raise NotImplementedError

    def trained_loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        """Returns the loss terms as training counts them; see `counts_weights`. Arguments are those of `loss_terms`."""
        terms = self.loss_terms(x, y, y_pred, sample_weight)
        if self.counts_weights or sample_weight is None and features.EXAMPLE_WEIGHTS not in x:
            return terms
        # Of these terms only the weights are used. TensorFlow prunes the rest.
        counts = self.loss_terms(without_weights(x), y, y_pred, None)
        pairs = zip(terms, counts, strict=True)
        return [dataclasses.replace(term, weight=counted.weight) for term, counted in pairs]

    def reported_metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        """Returns the metric terms as training reports them; see `counts_weights`."""
        if self.counts_weights:
            return self.metric_terms(x, y, y_pred, sample_weight)
        return self.metric_terms(without_weights(x), y, y_pred, None)

    def metric_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        """Returns the terms that are reported but not optimised, named as in `metric_names`."""
        return []

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


class FeatureModel(TaskModel):
    """A task model that takes features only, such as a pre-trainer. It is compiled before it is trained."""

    def fit(self, x: Any = None, y: Any = None, batch_size: int | None = None, **options: Any) -> Any:
        """As `keras.Model.fit`. The loss is the model's own, and example weights work in features too.

        Raises:
            InputError: texts are given, the model is not compiled, or an option is unknown.
        """
        x = self._features(x, self.fit, options)
        return self.fit_on_features(x, y, batch_size=batch_size, **options)

    def evaluate(self, x: Any = None, y: Any = None, batch_size: int | None = None, **options: Any) -> Any:
        """As `keras.Model.evaluate`.

        Raises:
            InputError: texts are given, or an option is unknown.
        """
        x = self._features(x, self.evaluate, options)
        return self.evaluate_on_features(x, y, batch_size=batch_size, **options)

    def predict(self, x: Any, batch_size: int | None = None, **options: Any) -> Any:
        """As `keras.Model.predict`.

        Raises:
            InputError: texts are given, or an option is unknown.
        """
        x = self._features(x, self.predict, options)
        return self.predict_on_features(x, batch_size=batch_size, **options)

    def _features(self, x, verb, options):
        """Returns `x`. Raises `InputError` if it has texts, or if `verb` does not have one of the options."""
        known = inspect.signature(verb).parameters
        check_options(verb, "on features", unknown=[name for name in options if name not in (*known, OF_KERAS)])
        x = listed_texts(x)
        if holds_texts(x):
            raise InputError(f"{type(self).__name__} takes features, not texts. Received: texts.")
        return x


def labels_of(model: Any, x: Any, y: Any) -> Any:
    """Returns the labels: `y`, or the feature `label_ids`. Raises `InputError` without labels."""
    if y is None and isinstance(x, Mapping):
        y = x.get(features.LABEL_IDS)
    if y is None:
        raise InputError(
            f"{type(model).__name__} is trained on pairs (features, label ids), or on features that hold "
            f"{features.LABEL_IDS}. Received no labels."
        )
    return y
