"""`TaskVerbs`: `compile`, `fit`, `evaluate`, `predict` and `explain` of task models, on features and on texts.

Each method shows all its arguments. A model with further arguments shows them in a method that calls `_fit` or
`_predict`.
"""

import types
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from keras_bert import registry
from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.models.base import BertModel
from keras_bert.models.fit_callbacks import check_rate_setter, set_directions
from keras_bert.models.verb_options import check_options, split_arguments
from keras_bert.optimization import FOR_ONE_FIT, OneFitDecay
from keras_bert.optimization.schedules import WarmupSchedule
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_whole
from keras_bert.records import features
from keras_bert.tokenization.user_inputs import holds_texts, listed_texts

if on_tensorflow():
    from keras_bert.models.distributed_model import DistributedModel as _Trained
else:
    from keras_bert.models.jax_model import JaxModel as _Trained


# `fit` of Keras gives this to `evaluate`.
_OF_KERAS = "_use_cached_eval_dataset"


class TaskVerbs(_Trained, BertModel):
    """The base class of `TaskModel`: its methods for training and use."""

    loss_names: Sequence[str] = ()
    metric_names: Sequence[str] = ()
    # Why `compile` takes no metrics of Keras; None if it takes them.
    metrics_refusal: str | None = None

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
            loss: None; for models that rank or compare texts also the name of a loss, see their `fit`. None keeps the
                loss that was chosen before; without one, the examples select it.
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
        self._set_loss(loss, loss_weights)
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

    def _set_loss(self, loss: Any, loss_weights: Any) -> None:
        if loss is not None or loss_weights is not None:
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
        self.gradient_accumulation_steps = steps

    def compile_from_config(self, config: Mapping[str, Any]) -> None:
        # Keras calls this when it loads a `.keras` file. Its own version skips models that override `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: Any = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
        *,
        max_seq_length: int | None = None,
        seed: int = 12345,
        skip_missing: bool = False,
        **unknown: Any,
    ) -> Any:
        """Trains on features, as `keras.Model.fit` does, or on texts.

        On texts, rows of similar length form a batch, which is padded to its longest row. A model that the user has
        compiled keeps its optimizer. Any other model gets a new `AdamW` in each call, with the paper's learning rate of
        5e-5: the rate rises for a tenth of the updates of this call and then falls to 0.

        Args:
            x, y: texts and labels as described on the task's page in docs/: lists, arrays, or columns of pandas,
                polars, pyarrow and Hugging Face datasets; a single string counts as a list of one. Or `x` is a
                `tf.data.Dataset` of texts and labels, or of features.
            batch_size: examples per update, 32 by default.
            epochs: passes over the examples, or numbers of `steps_per_epoch` updates.
            verbose: 0 shows nothing, 1 a progress bar, 2 a line for each epoch.
            callbacks: Keras callbacks.
            validation_split: the share of the examples, the last ones before shuffling, to evaluate after each epoch
                instead of training on them. Ignored if there is `validation_data`.
            validation_data: (x, y), (x, y, sample_weight) or a data set, evaluated after each epoch.
            shuffle: whether each epoch has another order. Data sets keep theirs.
            class_weight: label -> weight; on texts also "balanced", which gives every class the same total weight. It
                does not count in validation.
            sample_weight: N weights, one for each example.
            initial_epoch: the number of the first epoch, to continue training.
            steps_per_epoch: updates in an epoch. The next epoch continues the pass over the texts, and a new pass
                begins when all have been seen. By default an epoch is one pass.
            validation_steps: batches of `validation_data` to evaluate; None for all.
            validation_batch_size: examples evaluated at once; by default `batch_size`.
            validation_freq: epochs from one evaluation to the next.
            max_seq_length: texts only. Longer rows are cut, and a note reports it; by default the number of the model's
                positions.
            seed: texts only. The seed of the order of examples; `keras.utils.set_random_seed` sets that of dropout.
            skip_missing: texts only. Whether examples, of validation too, whose text, label or weight is None, NaN or
                an empty text are left out; a note says how many. By default they are an error.
            **unknown: refused.

        Returns:
            The `History` of Keras.

        Raises:
            InputError: texts or labels are empty, missing or do not fit the model, or an option is unknown.
        """
        return self._fit(locals())

    def _fit(self, given: Mapping[str, Any]) -> Any:
        """Trains. `given` are all arguments of this model's `fit`: its `locals()`."""
        arguments, options, unknown = split_arguments(given, keras.Model.fit)
        arguments["x"] = listed_texts(arguments["x"])
        if holds_texts(arguments["x"]):
            check_options(self.fit, "on texts", {}, unknown)
            return self._on_texts().fit_texts(self, **arguments, **options)
        check_options(self.fit, "on features", options, unknown)
        if hasattr(arguments["x"], "element_spec") or isinstance(arguments["x"], types.GeneratorType):
            arguments["shuffle"] = False  # Keras warns that it cannot shuffle these
        self._compile_by_default(arguments)
        self._check_learning_rate()
        set_directions(arguments["callbacks"], {*self.loss_names, *self.metric_names, "loss", "perplexity"})
        check_rate_setter(arguments["callbacks"], self._schedule)
        return super().fit(**_with_weights(arguments))

    def _on_texts(self) -> Any:
        """Returns the module with `fit_texts`, `evaluate_texts` and `predict_texts` for this model."""
        return registry.convenience("fit, evaluate and predict on texts")

    def _compile_by_default(self, arguments) -> None:
        """Compiles for this `fit` on features if the user has not: there is no optimizer, or that of an earlier fit."""
        if self.compiled and not (self.is_compiled_for_one_fit and int(self.optimizer.iterations + 0)):
            return
        task = registry.task_of(self)
        if task is None or task.text_task is None:
            raise InputError(
                f"{type(self).__name__} has no default learning rate. Call compile(optimizer=...) before fit, such as "
                "compile(optimizer=AdamW(1e-4))."
            )
        registry.convenience("compile for one fit").compile_for_features(self, arguments)

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

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool | None = None,
        *,
        max_seq_length: int | None = None,
        skip_missing: bool = False,
        **unknown: Any,
    ) -> Any:
        """Evaluates on features, as `keras.Model.evaluate` does, or returns the official scores for texts and labels.

        Args:
            x, y, sample_weight, max_seq_length, skip_missing: as for `fit`.
            batch_size: examples computed at once, 32 by default.
            verbose: 0 shows no progress.
            steps: features only. The number of batches; None for all.
            callbacks: Keras callbacks; their `on_test_...` methods are called. Batches have texts of similar length.
            return_dict: whether to return a dictionary name -> score. Otherwise it is a list of the values, the loss
                first if there is one. By default a dictionary on texts, and a list on features.
            **unknown: refused.

        Raises:
            InputError: as `fit`.
        """
        return self._evaluate(locals())

    def _evaluate(self, given: Mapping[str, Any]) -> Any:
        """Evaluates. `given` are all arguments of this model's `evaluate`: its `locals()`."""
        arguments, options, unknown = split_arguments(given, keras.Model.evaluate)
        steps, return_dict = arguments.pop("steps"), arguments.pop("return_dict")
        arguments["x"] = listed_texts(arguments["x"])
        if holds_texts(arguments["x"]):
            check_options(self.evaluate, "on texts", {"steps": steps}, unknown)
            return_dict = True if return_dict is None else return_dict
            return self._on_texts().evaluate_texts(self, **arguments, **options, return_dict=return_dict)
        of_keras = {_OF_KERAS: unknown.pop(_OF_KERAS)} if _OF_KERAS in unknown else {}
        check_options(self.evaluate, "on features", options, unknown)
        arguments = _with_weights(arguments) | {"steps": steps, "return_dict": bool(return_dict)}
        return super().evaluate(**arguments, **of_keras)

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
        *,
        max_seq_length: int | None = None,
        **unknown: Any,
    ) -> Any:
        """Returns outputs for features, as `keras.Model.predict` does, or a list with one answer for each text.

        Args:
            x: texts or features, as for `fit`.
            batch_size: examples computed at once, 32 by default.
            verbose: 0 shows no progress.
            steps: features only. The number of batches; None for all.
            callbacks: Keras callbacks; their `on_predict_...` methods are called. Batches have texts of similar length.
            max_seq_length: texts only. Longer texts are cut to this many tokens; by default the number of the model's
                positions.
            **unknown: refused.

        Raises:
            InputError: texts are missing or do not fit the model, or an option is unknown.
        """
        return self._predict(locals())

    def _predict(self, given: Mapping[str, Any]) -> Any:
        """Predicts. `given` are all arguments of this model's `predict`: its `locals()`."""
        arguments, options, unknown = split_arguments(given, keras.Model.predict)
        steps = arguments.pop("steps")
        arguments["x"] = listed_texts(arguments["x"])
        if holds_texts(arguments["x"]):
            check_options(self.predict, "on texts", {"steps": steps}, unknown)
            return self._on_texts().predict_texts(self, **arguments, **options)
        check_options(self.predict, "on features", options, unknown)
        return super().predict(**arguments, steps=steps)

    def explain(
        self,
        x: Any,
        targets: Any = None,
        *,
        method: str = "integrated_gradients",
        steps: int = 50,
        quadrature: str = "gausslegendre",
        baseline: str = "pad",
        batch_size: int | None = None,
        max_seq_length: int | None = None,
        **unknown: Any,
    ) -> list:
        """Explains the answers to texts by a score for each token.

        Args:
            x: texts, as for `predict`.
            targets: what to explain, one for each example, or a single string or number for all; None, for an example
                or for all, is the model's answer. A label for a classifier; a pair (number of the word, tag) for a
                tagger; a pair (start, end) of characters of the context, or "" for no answer, for question answering;
                the number of a choice; a word in place of the first [MASK] of a text.
            method: `integrated_gradients`, or `attention_rollout`, which says where attention comes from: it is the
                same for all labels.
            steps: the points of the integral.
            quadrature: `gausslegendre` or `riemann_trapezoid`, as in captum.
            baseline: tokens are compared with the embedding of `pad` or of `mask`. [CLS] and [SEP] stay.
            batch_size: texts that are predicted at once, 32 by default.
            max_seq_length: as for `predict`.
            **unknown: refused.

        Returns:
            An `Explanation` for each example.

        Raises:
            InputError: the model does not answer on texts, its encoder does not allow the method, or an option or a
                target is not valid.
        """
        check_options(self.explain, unknown=unknown)
        options = {"method": method, "steps": steps, "quadrature": quadrature, "baseline": baseline}
        options |= {"batch_size": batch_size, "max_seq_length": max_seq_length}
        explaining = registry.convenience("explain")
        return explaining.explain_texts(self, x, targets, **options)


def _with_weights(arguments: dict[str, Any]) -> dict[str, Any]:
    """Moves `sample_weight` to the features if the labels are there too: Keras would drop it."""
    x, weights = arguments["x"], arguments["sample_weight"]
    if arguments["y"] is not None or not isinstance(x, Mapping) or weights is None:
        return arguments
    x = {**x, features.EXAMPLE_WEIGHTS: keras.ops.convert_to_numpy(weights)}
    return {**arguments, "x": x, "sample_weight": None}
