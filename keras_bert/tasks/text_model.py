"""`TextModel`: the base class of task models that take texts: `fit`, `evaluate`, `predict`, `explain` and `calibrate`.

A task whose verb has further arguments defines the verb with these, and passes the others on:

    def predict(self, x, batch_size=None, *, top_k=5, **options: Unpack[PredictOptions]):
        return super().predict(x, batch_size, top_k=top_k, **options)

`help` and `inspect.signature` then show all arguments, see `models/shown_arguments.py`. A test compares the options
with the methods.
"""

import inspect
import os
from collections.abc import Mapping
from typing import Any, TypedDict

from keras_bert.models.shown_arguments import check_options
from keras_bert.models.task_model import OF_KERAS, TaskModel
from keras_bert.program.user_inputs import holds_texts, listed_texts
from keras_bert.tasks.base import TextTask, text_task
from keras_bert.tasks.evaluation_report import EvaluationReport, report_on
from keras_bert.tasks.examples import complete_examples
from keras_bert.tasks.fitting import compile_for_features, fit_texts, outputs_with_labels


class FitOptions(TypedDict, total=False):
    """What `TextModel.fit` takes besides `x`, `y` and `batch_size`."""

    epochs: int
    verbose: Any
    callbacks: Any
    validation_split: float
    validation_data: Any
    shuffle: bool
    class_weight: Any
    sample_weight: Any
    initial_epoch: int
    steps_per_epoch: int | None
    validation_steps: int | None
    validation_batch_size: int | None
    validation_freq: Any
    max_seq_length: int | None
    seed: int
    skip_missing: bool
    loss: Any


class EvaluateOptions(TypedDict, total=False):
    """What `TextModel.evaluate` takes besides `x`, `y` and `batch_size`."""

    verbose: Any
    sample_weight: Any
    steps: int | None
    callbacks: Any
    return_dict: bool | None
    max_seq_length: int | None
    skip_missing: bool


class PredictOptions(TypedDict, total=False):
    """What `TextModel.predict` takes besides `x` and `batch_size`."""

    verbose: Any
    steps: int | None
    callbacks: Any
    max_seq_length: int | None


class TextModel(TaskModel):
    """A task model that takes texts and features alike.

    Attributes:
        task_class: the `TextTask` that makes rows from texts, and answers from the outputs of the model.
        logits_layer: the name of the attribute with the last layer, in models whose probabilities can be calibrated.
        temperature: what `calibrate` has divided the weights of this layer by; kept for people to read.
    """

    task_class: type[TextTask] | None = None
    logits_layer: str | None = None
    temperature = 1.0

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
        loss: Any = None,
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
            loss: a loss of the task, or its name: `focal` and `asymmetric` for labels, see
                `tasks/classification/losses.py`, and those of models that rank or compare texts. None keeps the one
                chosen before; without one, it is the cross-entropy, or the examples select it.
            **unknown: options of the task's own `fit`; others are refused.

        Returns:
            The `History` of Keras.

        Raises:
            InputError: texts or labels are empty, missing or do not fit the model, or an option is unknown.
        """
        options = {"batch_size": batch_size, "epochs": epochs, "verbose": verbose, "callbacks": callbacks}
        options |= {"validation_split": validation_split, "validation_data": validation_data, "shuffle": shuffle}
        options |= {"class_weight": class_weight, "sample_weight": sample_weight, "initial_epoch": initial_epoch}
        options |= {"steps_per_epoch": steps_per_epoch, "validation_steps": validation_steps}
        options |= {"validation_batch_size": validation_batch_size, "validation_freq": validation_freq}
        of_texts = {"max_seq_length": max_seq_length, "seed": seed, "skip_missing": skip_missing, **unknown}
        x = listed_texts(x)
        with self.chosen_loss(loss):
            if holds_texts(x):
                self._check_own(self.fit, "on texts", unknown)
                return self.fit_on_texts(x, y, **options, **of_texts)
            self._check_own(self.fit, "on features", unknown, of_texts)
            return self.fit_on_features(x, y, **options)

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
            **unknown: options of the task's own `evaluate`; others are refused.

        Raises:
            InputError: as `fit`.
        """
        options = {"batch_size": batch_size, "verbose": verbose, "sample_weight": sample_weight, "callbacks": callbacks}
        of_keras = {OF_KERAS: unknown.pop(OF_KERAS)} if OF_KERAS in unknown else {}
        of_texts = {"max_seq_length": max_seq_length, "skip_missing": skip_missing, **unknown}
        x = listed_texts(x)
        if holds_texts(x):
            self._check_own(self.evaluate, "on texts", unknown, {} if steps is None else {"steps": steps})
            return_dict = True if return_dict is None else return_dict
            return text_task(self).evaluate(x, y, **options, **of_texts, return_dict=return_dict)
        self._check_own(self.evaluate, "on features", unknown, of_texts)
        return self.evaluate_on_features(x, y, **options, steps=steps, return_dict=bool(return_dict), **of_keras)

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
            **unknown: options of the task's own `predict`; others are refused.

        Raises:
            InputError: texts are missing or do not fit the model, or an option is unknown.
        """
        options = {"batch_size": batch_size, "verbose": verbose, "callbacks": callbacks}
        of_texts = {"max_seq_length": max_seq_length, **unknown}
        x = listed_texts(x)
        if holds_texts(x):
            self._check_own(self.predict, "on texts", unknown, {} if steps is None else {"steps": steps})
            return text_task(self).predict(x, **options, **of_texts)
        self._check_own(self.predict, "on features", unknown, of_texts)
        return self.predict_on_features(x, **options, steps=steps)

    def fit_on_texts(self, x: Any, y: Any, **options: Any) -> Any:
        """Trains on texts, see `fit`."""
        return fit_texts(self, x, y, **options)

    def _check_own(self, verb, where: str, further: Mapping[str, Any], refused: Mapping[str, Any] = {}) -> None:
        """Raises `InputError` for a further option that `verb` does not show, or one that has no effect on this `x`."""
        if not further and not refused:
            return
        unknown = [name for name in further if name not in inspect.signature(verb).parameters]
        check_options(verb, where, {name: value for name, value in refused.items() if name not in unknown}, unknown)

    def before_fit(self, arguments: Mapping[str, Any]) -> None:
        """Compiles for this `fit` if the user has not: there is no optimizer, or that of an earlier `fit`."""
        if self.compiled and not (self.is_compiled_for_one_fit and int(self.optimizer.iterations + 0)):
            return None
        if self.task_class is None:
            return super().before_fit(arguments)
        return compile_for_features(self, arguments)

    def training_begins(self) -> None:
        super().training_begins()
        self.temperature = 1.0  # training makes the weights uncalibrated

    def calibrate(self, x: Any, y: Any, batch_size: int | None = None, max_seq_length: int | None = None) -> Any:
        """Calibrates the probabilities on held-out texts, and returns a `Calibration`. The answers stay the same.

        Args:
            x, y: texts and labels that the model was not trained on, as for `evaluate`.
            batch_size, max_seq_length: as for `evaluate`.

        Raises:
            InputError: the model has no probabilities, or the examples determine no temperature.
        """
        from keras_bert.tasks.calibration import calibrate_on_outputs

        return calibrate_on_outputs(outputs_with_labels(self, x, y, batch_size, max_seq_length))

    def divide_logits(self, temperature: float) -> None:
        """Divides the weights of the last layer, and so the logits of all exports, by a temperature."""
        assert self.logits_layer is not None
        for weight in getattr(self, self.logits_layer).weights:
            weight.assign(weight / temperature)
        self.temperature *= temperature

    def get_metrics_result(self) -> dict[str, Any]:
        results = super().get_metrics_result()
        if len(self.loss_names) == 1:
            del results[self.loss_names[0]]  # the same as "loss"
        return results

    def get_config(self) -> dict[str, Any]:
        temperature = {} if self.temperature == 1.0 else {"temperature": self.temperature}
        return {**super().get_config(), **temperature}

    def report(
        self, x: Any, y: Any, path: str | os.PathLike, batch_size: int | None = None, max_seq_length: int | None = None
    ) -> EvaluationReport:
        """Evaluates on texts with labels, and writes a report of tables and pictures, which a notebook shows.

        Args:
            x, y, batch_size, max_seq_length: as for `evaluate`.
            path: a new or empty folder.

        Raises:
            InputError: as `evaluate`, the model has no report, or `path` is not empty or cannot be written.
        """
        return report_on(self, x, y, path, batch_size, max_seq_length)

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
            A list with an `Explanation` for each example, which a notebook shows in colour.

        Raises:
            InputError: the model does not answer on texts, its encoder does not allow the method, or an option or a
                target is not valid.
        """
        check_options(self.explain, unknown=unknown)
        from keras_bert.tasks.explanation.explaining import explain_examples

        options: dict[str, Any] = {"method": method, "steps": steps, "quadrature": quadrature, "baseline": baseline}
        options |= {"batch_size": batch_size, "max_seq_length": max_seq_length}
        return explain_examples(self, complete_examples(text_task(self), x), targets, **options)
