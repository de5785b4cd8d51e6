"""The base classes of all models: config, saving and loading, and the training of task models.

Nothing here imports TensorFlow. On TensorFlow, task models train with the step of `distributed_model.py`.
"""

import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Self

import keras

from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.config import BertConfig
from keras_bert.models.losses import LossTerm
from keras_bert.models.metrics import RatioOfSums
from keras_bert.models.new_parts import NewParts
from keras_bert.optimization import OneFitDecay
from keras_bert.optimization.schedules import WarmupSchedule
from keras_bert.program.errors import InputError, UntrainedWarning
from keras_bert.records import features
from keras_bert.tokenization.kinds import find_vocabulary, save_vocabulary
from keras_bert.tokenization.tokenizer import TokenTable
from keras_bert.tokenization.user_inputs import holds_texts

if on_tensorflow():
    from keras_bert.models.distributed_model import DistributedModel
else:

    class DistributedModel(keras.Model):  # type: ignore[no-redef]
        """Trains with Keras' own step. `TaskModel` cannot list `keras.Model` itself before `BertModel` as a base."""


class BertModel(keras.Model):
    """A Keras model made from a `BertConfig`.

    Subclasses build all their weights in `__init__`, so a model can be counted, loaded and saved before its first call.

    Attributes:
        feature_names: the required keys of the input dictionary. Other keys, such as labels, may be in it too.
        feature_axes: the axes of each of these features.
        has_token_outputs: whether the model returns outputs for each token, `[B, S, ...]`, instead of `[B, ...]`.
        uses_pooler: whether the outputs depend on the encoder's pooler.
        new_parts: the `NewParts` that the outputs depend on; empty in a model that was not loaded from a checkpoint.
        config: the `BertConfig`.
        vocabulary: the `TokenTable` that the model's ids belong to, or None. It is saved with the model.
    """

    feature_axes: Sequence[str] = ("batch", "length")
    feature_names: Sequence[str] = (features.INPUT_IDS, features.INPUT_MASK, features.SEGMENT_IDS)
    has_token_outputs: bool = False
    uses_pooler: bool = True
    # The part of the warning that names the random outputs of an untrained model.
    _random_outputs: str = "its answers are random"

    def __init__(self, config: BertConfig, **kwargs: Any):
        super().__init__(**kwargs)
        if not isinstance(config, BertConfig):
            raise InputError(
                f"{type(self).__name__} is made from a BertConfig. Received: {config!r}. "
                "Use BertConfig.from_json_file(path) or BertConfig.from_size(name, vocab_size)."
            )
        self.config = config
        if not self.takes_segments:
            self.feature_names = tuple(name for name in self.feature_names if name != features.SEGMENT_IDS)
        self.vocabulary: TokenTable | None = None
        self.new_parts = NewParts()

    @property
    def takes_segments(self) -> bool:
        """Whether the model takes `segment_ids`: it has at least two segments."""
        return self.config.type_vocab_size > 1

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "config": self.config.to_dict()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], custom_objects: Any = None) -> Self:
        return cls(**{**config, "config": BertConfig.from_dict(config["config"])})

    def save_assets(self, dir_path: str) -> None:
        # Keras calls this for `.keras` files. Pickle and copy.deepcopy have the same content.
        if self.vocabulary is not None:
            save_vocabulary(self.vocabulary, dir_path)

    def load_assets(self, dir_path: str) -> None:
        # The folder is missing if nothing in it was saved.
        vocabulary = find_vocabulary(dir_path) if dir_path and os.path.isdir(dir_path) else None
        if vocabulary is not None:
            self.config.check_vocabulary(len(vocabulary))
        self.vocabulary = vocabulary

    def save_pretrained(
        self,
        path: str | os.PathLike,
        vocabulary: TokenTable | None = None,
        format: str = "keras_bert",
        include_optimizer: bool = False,
    ) -> None:
        """Writes a checkpoint folder.

        Args:
            path: the folder.
            vocabulary: a `TokenTable`; by default the model's own.
            format: `keras_bert` (a model folder), `google` (a TensorFlow 1 checkpoint), `huggingface`, or
                `keras_hub` (a preset).
            include_optimizer: whether to save the moments of `AdamW` too; in Google's format only.

        Raises:
            InputError: the format cannot hold the model, or the files cannot be written.
        """
        from keras_bert.checkpoints import pretrained

        pretrained.save_pretrained(self, path, vocabulary, format, include_optimizer)

    @classmethod
    def from_pretrained(cls, path: str | os.PathLike, **kwargs: Any) -> Self:
        """Reads a checkpoint of any format; see `checkpoints/pretrained.py` for `kwargs`, such as `labels`."""
        from keras_bert.checkpoints import pretrained

        return pretrained.from_pretrained(cls, path, **kwargs)

    def export_for_serving(self, path: str | os.PathLike, **kwargs: Any) -> str:
        """Writes a SavedModel, or a folder for LiteRT or ONNX, and returns its path; see `serving/export.py`."""
        from keras_bert.serving import export

        return export.export_for_serving(self, path, **kwargs)

    def export(
        self,
        filepath: str | os.PathLike,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """As `keras.Model.export`, without a need for `input_signature`: the file takes features of any size."""
        if input_signature is not None or kwargs:
            return super().export(filepath, format, verbose, input_signature, **kwargs)
        from keras_bert.serving import keras_export

        return keras_export.export(self, filepath, format, verbose)

    def predict(self, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.predict`. Warns once when the model is untrained, see `warn_if_untrained`."""
        self.warn_if_untrained()
        return super().predict(*args, **kwargs)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """As `keras.Model.evaluate`. Warns once when the model is untrained, see `warn_if_untrained`."""
        self.warn_if_untrained()
        return super().evaluate(*args, **kwargs)

    def warn_if_untrained(self, parts: Sequence[str] | None = None) -> None:
        """Warns, once for each model, that its answers are random because newly initialised parts are not trained.

        Args:
            parts: the parts, such as `masked_lm_head`, that the answers depend on; by default all that the model uses.

        Raises:
            UntrainedWarning: in commands, where this warning is an error.
        """
        untrained = [part for part in self.new_parts.untrained() if parts is None or part in parts]
        if not set(untrained) - self.new_parts.reported:
            return
        self.new_parts.reported.update(untrained)
        names = " and ".join(part.removeprefix("encoder/") for part in untrained)
        warnings.warn(
            f"This {type(self).__name__} is not trained: {self.new_parts.source} has no {names} for it, so new weights "
            f"were drawn at random, and {self._random_outputs}. Train it first (fit, or a command with --do_train), or "
            f"load a checkpoint that has {names}.",
            UntrainedWarning,
            stacklevel=3,
        )

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        # Checked before `call`: Keras adds several lines to each error that `call` raises.
        self._check_inputs(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def _check_inputs(self, inputs) -> None:
        """Raises `InputError` if a feature is missing or has other axes, or if rows exceed the model's positions."""
        self._check_features(inputs, self.feature_names)
        shape: tuple = getattr(inputs[features.INPUT_IDS], "shape", ())
        if len(shape) != len(self.feature_axes):
            raise InputError(
                f"{features.INPUT_IDS} must be an array [{', '.join(self.feature_axes)}]. Received the shape "
                f"{tuple(shape)}"
            )
        if shape[-1] is not None:
            self.config.check_sequence_length(shape[-1])

    def _check_features(self, inputs, names: Sequence[str]) -> None:
        is_dictionary = isinstance(inputs, Mapping)
        missing = [name for name in names if name not in inputs] if is_dictionary else names
        if missing:
            raise InputError(
                f"{type(self).__name__} takes a dictionary with {', '.join(names)}. Missing: {', '.join(missing)}. "
                f"Received: {', '.join(map(str, inputs)) if is_dictionary else type(inputs).__name__}"
            )

    @property
    def _logits_dtype(self) -> str:
        """The dtype of logits and losses: float32, also in mixed precision; float64 in a float64 model."""
        return keras.backend.result_type(self.compute_dtype, "float32")


class TaskModel(DistributedModel, BertModel):
    """A model that knows its own loss and metrics: `compile(optimizer=...)`, then `fit`, `evaluate`, `predict`.

    Subclasses set `loss_names` and `metric_names` and compute them in `loss_terms` and `metric_terms`. The loss is the
    sum of the loss terms. `fit` and `evaluate` report each term as the ratio of its sums over all batches. If all
    weights of a term are 0, a loss is reported as 0 and a metric as NaN.
    """

    loss_names: Sequence[str] = ()
    metric_names: Sequence[str] = ()
    can_be_static = False  # whether the encoder may be a `StaticEncoder`
    # Import path of the model's `TextTask`; None for a model that takes features only.
    text_task: str | None = None

    def __init__(self, config: BertConfig, **kwargs: Any):
        super().__init__(config, **kwargs)
        if config.is_static and not self.can_be_static:
            raise InputError("A static model has no layers. Load it with SentenceEncoder.from_pretrained.")
        self._reports = {name: RatioOfSums(name=name) for name in self.loss_names}
        self._reports |= {name: RatioOfSums(name=name, empty_value=math.nan) for name in self.metric_names}

    def loss_terms(self, x: Any, y: Any, y_pred: Any, sample_weight: Any) -> list[LossTerm]:
        """Returns the terms of the loss, named as in `loss_names`.

        Args:
            x: the features. Some tasks have the labels among them.
            y: the labels, or None.
            y_pred: what `call` returned.
            sample_weight: float `[B]`, or None.
        """
        raise NotImplementedError

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
        if hasattr(x, "element_spec"):
            # Keras shuffles by default, and warns that it cannot shuffle a tf.data.Dataset.
            kwargs.setdefault("shuffle", False)
        self._check_learning_rate()
        return super().fit(x, *args, **kwargs)

    @property
    def is_compiled_for_one_fit(self) -> bool:
        """Whether a `fit` on texts compiled the model, for that one call, instead of the user."""
        return isinstance(self._schedule, OneFitDecay)

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
        if self.is_compiled_for_one_fit and step:
            raise InputError(
                f"This {type(self).__name__} was compiled by its fit on texts, for that call only. To train it on "
                "features, call compile(optimizer=...) first."
            )
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
        return super().evaluate(x, *args, **kwargs)

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
        terms = self.loss_terms(x, y, y_pred, sample_weight)
        # Reported here, because computing the terms again would cost a pass over all logits.
        self._report(terms)
        return sum(term.value for term in terms) + sum(keras.ops.sum(loss) for loss in self.losses)

    def compute_metrics(self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None) -> dict[str, Any]:
        self._report(self.metric_terms(x, y, y_pred, sample_weight))
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _report(self, terms):
        for term in terms:
            self._reports[term.name].update_state(keras.ops.stop_gradient(term.numerator), term.weight)

    def get_metrics_result(self) -> dict[str, Any]:
        results = super().get_metrics_result()
        # Keras' own "loss" is a mean of the batches' means.
        results["loss"] = sum(self._reports[name].result() for name in self.loss_names)
        return results


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
    return labels


def check_doc_stride(doc_stride: int | None) -> int | None:
    """Returns `doc_stride`. Raises `InputError` unless it is a whole number from 1, or None."""
    if doc_stride is not None and (not isinstance(doc_stride, int) or isinstance(doc_stride, bool) or doc_stride < 1):
        raise InputError(f"doc_stride must be a whole number from 1, or None. Received: {doc_stride!r}")
    return doc_stride
