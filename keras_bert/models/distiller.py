"""`Distiller`: a small model learns from a large one."""

import dataclasses
from collections.abc import Mapping, Sequence

import keras
from keras import ops

from keras_bert.models.encoder_base import ATTENTION_SCORES
from keras_bert.models.losses import LossTerm, example_weights
from keras_bert.models.observed_encoder import observed
from keras_bert.models.task_model import FeatureModel
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_number
from keras_bert.records import features

# The terms of the loss.
LABELS, SOFT_TARGETS, PREDICTIONS = "labels", "soft_targets", "predictions"
COSINE, SCORES, HIDDEN_STATES, EMBEDDINGS = "cosine", "attention_scores", "hidden_states", "embeddings"
TERMS = (LABELS, SOFT_TARGETS, PREDICTIONS, COSINE, SCORES, HIDDEN_STATES, EMBEDDINGS)
_OF_LAYERS = (COSINE, SCORES, HIDDEN_STATES, EMBEDDINGS)
_HIGHEST_WEIGHT = 1e6


def checked_terms(terms: Mapping[str, float] | Sequence[str]) -> dict[str, float]:
    """Returns name -> weight of the terms of a loss.

    Args:
        terms: names and weights, or a list of `name` (weight 1) and `name:weight`.

    Raises:
        InputError: a name is unknown, a weight is not a positive number, or there is no term.

    Example:
        >>> checked_terms(["soft_targets:5", "cosine"])
        {'soft_targets': 5.0, 'cosine': 1.0}
    """
    pairs = terms.items() if isinstance(terms, Mapping) else [(*str(term).split(":", 1), "1")[:2] for term in terms]
    found = {}
    for name, weight in pairs:
        try:
            found[name] = float(weight)
        except ValueError:
            found[name] = 0.0
        if name not in TERMS or not 0 < found[name] <= _HIGHEST_WEIGHT:
            raise InputError(
                f"A term of distillation is one of {', '.join(TERMS)}, with a weight above 0, as in soft_targets:5. "
                f"Received: {name}:{weight}"
            )
    if not found:
        raise InputError(f"Distillation needs one or more terms of {', '.join(TERMS)}. Received: none")
    return found


def needs_layers(terms: Mapping[str, float]) -> bool:
    """Returns whether terms compare layers, so that the teacher has to compute every batch with the student."""
    return any(name in _OF_LAYERS for name in terms)


def label_order(teacher, student) -> list[int]:
    """Returns the numbers of the teacher's labels in the order of the student's.

    Raises:
        InputError: two classifiers differ in labels or `problem_type`.
    """
    if teacher.problem_type != student.problem_type or set(teacher.labels) != set(student.labels):
        raise InputError(
            f"Teacher and student must have the same labels. The teacher has {', '.join(teacher.labels)} "
            f"({teacher.problem_type}), the student {', '.join(student.labels)} ({student.problem_type})."
        )
    return [teacher.labels.index(label) for label in student.labels]


@keras.saving.register_keras_serializable(package="keras_bert")
class Distiller(FeatureModel):
    """Trains a student on what a teacher computes. Afterwards, use the attribute `student`.

    The loss is the weighted sum of these terms. Each is a mean over examples, masked tokens, or real tokens, so padding
    does not count.

        labels            the student's own loss.
        soft_targets      T^2 KL(softmax(teacher / T) || softmax(student / T)) of the logits.
        predictions       the cross-entropy of softmax(teacher / T) and softmax(student / T).
        cosine            1 - the cosine of the two last vectors of a token.
        attention_scores  squared differences of the scores before the softmax, of all pairs of tokens that may attend
                          to each other, averaged over the heads and summed over the layers.
        hidden_states     squared differences of the vectors behind the layers, averaged over their width and summed
                          over the layers.
        embeddings        the same for the inputs of the first layer.

    Logits are those of a `SequenceClassifier`, or of the masked tokens of a `MaskedLM` or `BertPretrainer`. For
    `multi_label`, their terms are computed for the sigmoid of each label and averaged over the labels. For `regression`
    they are the squared difference, without T.

    If the two models have vectors of other widths, one dense layer projects all of the student's. It is trained and
    then thrown away.

    Args:
        student: a task model.
        teacher: a task model with the same vocabulary; it is neither trained nor saved. For `soft_targets` and
            `predictions` of a classifier it is not needed: its logits, computed once, can be the feature
            `teacher_logits`, float `[B, labels]`.
        terms: see `checked_terms`; by default half soft targets and half labels.
        layer_map: for each of the student's layers, the number of the teacher's layer that it learns from, counted
            from 0; by default the teacher's layers at equal distances, the last one included.
        temperature: T; the higher, the more the teacher's small probabilities count.

    Call arguments and returns: those of the student.

    Raises:
        InputError: a term, the layer map or the temperature is not valid, or teacher and student do not fit together.

    Example:
        teacher = SequenceClassifier.from_pretrained("teacher")
        distiller = Distiller(student, teacher, ["soft_targets", "hidden_states", "attention_scores"])
        distiller.compile(optimizer=AdamW(5e-5))
        distiller.fit(dataset)   # dictionaries with input_ids, ..., label_ids
        student.save_pretrained("student")

    Reference: Hinton et al., 2015, arXiv 1503.02531, section 2; Sanh et al., 2019, arXiv 1910.01108, section 3: 5 soft
    targets + 2 labels + 1 cosine; Jiao et al., 2019, arXiv 1909.10351, section 3.
    """

    def __init__(self, student, teacher=None, terms=None, *, layer_map=None, temperature: float = 2.0, **kwargs):
        terms = checked_terms({SOFT_TARGETS: 0.5, LABELS: 0.5} if terms is None else terms)
        check_number("temperature", temperature, above=0)
        taught = tuple(f"{name}_loss" for name in terms if name != LABELS)
        self.loss_names = taught + (tuple(student.loss_names) if LABELS in terms else ())
        self.metric_names = tuple(student.metric_names) if LABELS in terms else ()
        super().__init__(student.config, **kwargs)
        self.student = student
        self.terms = terms
        self.temperature = temperature
        # In a function, so that Keras neither trains nor saves it.
        self._teacher = lambda: teacher
        self.layer_map, self._label_order, self.projection = (), None, None
        if teacher is not None:
            self._match(teacher, layer_map)
        elif needs_layers(terms) or layer_map is not None:
            raise InputError(f"The terms {', '.join(_OF_LAYERS)} and layer_map need a teacher. Received: none")
        self.built = True  # the student is built

    def _match(self, teacher, layer_map):
        """Checks that the terms can be computed for a teacher, and prepares them."""
        student, terms = self.student, self.terms
        _check_same_vocabulary(teacher, student)
        if hasattr(student, "labels") and hasattr(teacher, "labels"):
            self._label_order = label_order(teacher, student)
        if not needs_layers(terms):
            return
        encoders = {"student": student.encoder, "teacher": teacher.encoder}
        self.layer_map = checked_layer_map(layer_map, *(len(one.blocks_in_order()) for one in encoders.values()))
        if SCORES in terms:
            _check_scores(encoders)
        widths = [encoder.config.hidden_size for encoder in encoders.values()]
        if widths[0] != widths[1] and {COSINE, HIDDEN_STATES, EMBEDDINGS} & set(terms):
            self.projection = keras.layers.Dense(
                widths[1],
                kernel_initializer=keras.initializers.TruncatedNormal(stddev=student.config.initializer_range),
                dtype=self.dtype_policy,
                name="projection",
            )
            self.projection.build((None, None, widths[0]))

    def call(self, inputs, training=False):
        if not needs_layers(self.terms):
            return self.student(inputs, training=training)
        # Read by `loss_terms`, which follows in the same step.
        with observed(self.student.encoder, SCORES in self.terms) as self._seen:
            return self.student(inputs, training=training)

    def training_begins(self):
        self.student.training_begins()

    def loss_terms(self, x, y, y_pred, sample_weight):
        teacher_outputs, seen = self._teach(x)
        weights = example_weights(x, sample_weight)
        found = []
        for name, factor in self.terms.items():
            if name == LABELS:
                terms = self.student.loss_terms(x, y, y_pred, sample_weight)
            elif name in _OF_LAYERS:
                terms = [LossTerm(f"{name}_loss", *self._compared_layers(name, x, seen, weights))]
            else:
                terms = [LossTerm(f"{name}_loss", *self._compared_logits(name, x, y_pred, teacher_outputs, weights))]
            found += [dataclasses.replace(term, numerator=factor * term.numerator) for term in terms]
        return found

    def metric_terms(self, x, y, y_pred, sample_weight):
        return self.student.metric_terms(x, y, y_pred, sample_weight) if LABELS in self.terms else []

    def _teach(self, x):
        """Returns the teacher's outputs for a batch, and what its layers computed, or None."""
        teacher = self._teacher()
        if teacher is None:
            return x[features.TEACHER_LOGITS], None
        if teacher.takes_segments and features.SEGMENT_IDS not in x:
            x = x | {features.SEGMENT_IDS: ops.zeros_like(x[features.INPUT_IDS])}
        if not needs_layers(self.terms):
            return teacher(x, training=False), None
        with observed(teacher.encoder, SCORES in self.terms) as seen:
            return teacher(x, training=False), seen

    def _compared_logits(self, name, x, student, teacher, weights):
        """Returns the numerator and the weight of a term of the logits."""
        if isinstance(student, Mapping):  # of masked tokens
            student, teacher = student["masked_lm_logits"], teacher["masked_lm_logits"]  # [B, P, V]
            masked = ops.cast(x[features.MASKED_LM_WEIGHTS], "float32")
            weights = masked if weights is None else masked * ops.expand_dims(weights, 1)
        elif self._label_order is not None:
            teacher = ops.take(teacher, self._label_order, axis=-1)
        teacher = ops.stop_gradient(ops.cast(teacher, student.dtype))
        losses = self._divergences(name, teacher, student)  # [B] or [B, P]
        weights = ops.ones_like(x[features.INPUT_IDS][:, 0]) if weights is None else weights
        weights = ops.cast(weights, losses.dtype)
        return ops.sum(losses * weights), ops.sum(weights)

    def _divergences(self, name, teacher, student):
        """Returns the divergence of each example or masked token: float `[..., C]` -> `[...]`."""
        problem_type = getattr(self.student, "problem_type", None)
        if problem_type == "regression":
            return ops.mean(ops.square(teacher - student), axis=-1)
        teacher, student = teacher / self.temperature, student / self.temperature
        # A cross-entropy is the divergence and the entropy of the teacher.
        factor, has_entropy = (self.temperature**2, 0.0) if name == SOFT_TARGETS else (1.0, 1.0)
        if problem_type == "multi_label":
            both = ((teacher, student), (-teacher, -student))  # the logits of "has the label" and "does not have it"
            parts = [ops.sigmoid(t) * ((1 - has_entropy) * ops.log_sigmoid(t) - ops.log_sigmoid(s)) for t, s in both]
            return factor * ops.mean(parts[0] + parts[1], axis=-1)
        differences = (1 - has_entropy) * ops.log_softmax(teacher) - ops.log_softmax(student)
        return factor * ops.sum(ops.softmax(teacher) * differences, axis=-1)

    def _compared_layers(self, name, x, seen, weights):
        """Returns the numerator and the weight of a term of the layers."""
        tokens = ops.cast(ops.cast(x[features.INPUT_MASK], "int32") > 0, "float32")  # [B, S]
        if weights is not None:
            tokens = tokens * ops.expand_dims(weights, 1)
        ours, theirs = self._seen, seen
        if name == SCORES:
            parts = [_score_errors(ours.scores[i], theirs.scores[j], tokens) for i, j in enumerate(self.layer_map)]
            return sum(part[0] for part in parts), parts[0][1]
        pairs = [(i + 1, j + 1) for i, j in enumerate(self.layer_map)]
        pairs = {EMBEDDINGS: [(0, 0)], COSINE: [(-1, -1)], HIDDEN_STATES: pairs}[name]
        compare = _cosine_distances if name == COSINE else _squared_errors
        losses = sum(compare(self._projected(ours.states[i]), _constant(theirs.states[j])) for i, j in pairs)  # [B, S]
        return ops.sum(losses * tokens), ops.sum(tokens)

    def _projected(self, states):
        states = states if self.projection is None else self.projection(states)
        return ops.cast(states, "float32")

    def get_config(self):
        raise NotImplementedError("A Distiller is only for training. Save its student.")


def checked_layer_map(layer_map: Sequence[int] | None, num_layers: int, num_teacher_layers: int) -> tuple[int, ...]:
    """Returns the number of the teacher's layer for each of the student's layers; see `Distiller`.

    Raises:
        InputError: the map has another length or names a layer that the teacher does not have.

    Example:
        >>> checked_layer_map(None, 4, 12)
        (2, 5, 8, 11)
    """
    if layer_map is None:
        if num_layers > num_teacher_layers:
            raise InputError(
                f"The student has {num_layers} layers and the teacher {num_teacher_layers}. Give layer_map, the "
                "teacher's layer for each of the student's."
            )
        return tuple((number + 1) * num_teacher_layers // num_layers - 1 for number in range(num_layers))
    layer_map = tuple(layer_map)
    if len(layer_map) != num_layers or not all(number in range(num_teacher_layers) for number in layer_map):
        raise InputError(
            f"layer_map must have {num_layers} numbers from 0 to {num_teacher_layers - 1}: the teacher's layer for "
            f"each of the student's layers. Received: {list(layer_map)}"
        )
    return layer_map


def _check_same_vocabulary(teacher, student) -> None:
    ours, theirs = student.vocabulary, teacher.vocabulary
    differs = ours is not None and theirs is not None and ours.sha256 != theirs.sha256
    if differs or student.config.vocab_size != teacher.config.vocab_size:
        raise InputError(
            f"The teacher has another vocabulary than the student ({teacher.config.vocab_size} and "
            f"{student.config.vocab_size} tokens), so it cannot read the same rows. Use a teacher with the student's "
            "vocabulary."
        )


def _check_scores(encoders) -> None:
    for what, encoder in encoders.items():
        if ATTENTION_SCORES not in encoder.supports:
            raise InputError(
                f"The {what} is a {type(encoder).__name__}, which has no score for each pair of tokens. Leave out the "
                f"term {SCORES}."
            )
    heads = {what: encoder.config.num_attention_heads for what, encoder in encoders.items()}
    if heads["student"] != heads["teacher"]:
        raise InputError(
            f"The term {SCORES} needs as many attention heads in the student as in the teacher. Received: "
            f"{heads['student']} and {heads['teacher']}. Leave it out."
        )


def _constant(values):
    return ops.cast(ops.stop_gradient(values), "float32")


def _squared_errors(student, teacher):
    """Float `[B, S, H]` twice -> `[B, S]`."""
    return ops.mean(ops.square(student - teacher), axis=-1)


def _cosine_distances(student, teacher):
    """Float `[B, S, H]` twice -> `[B, S]`."""
    products = ops.sum(student * teacher, axis=-1)
    squares = ops.sum(ops.square(student), axis=-1) * ops.sum(ops.square(teacher), axis=-1)
    return 1.0 - products * ops.rsqrt(ops.maximum(squares, 1e-24))


def _score_errors(student, teacher, tokens):
    """Returns the sum of the squared errors of a layer's scores, averaged over the heads, and the number of pairs.

    Args:
        student, teacher: pairs of scores `[B, N, S, S]` and their bias, see `ObservedEncoder`.
        tokens: float `[B, S]`, the weights of the tokens that attend.
    """
    may_attend = [ops.cast(ops.equal(bias, 0), "float32") for _, bias in (student, teacher)]  # [B, 1, S or 1, S]
    pairs = ops.expand_dims(tokens, (1, 3)) * (may_attend[0] * may_attend[1])  # [B, 1, S, S]
    errors = ops.square(ops.cast(student[0], "float32") - _constant(teacher[0]))
    return ops.sum(ops.mean(errors, axis=1, keepdims=True) * pairs), ops.sum(pairs)
