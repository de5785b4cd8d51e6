"""`Distiller`: a small classifier learns from the outputs of a large one."""

from keras import ops

from keras_bert.models.base import TaskModel, example_weights
from keras_bert.models.class_names import stored_class
from keras_bert.models.losses import LossTerm
from keras_bert.program.errors import InputError
from keras_bert.records import features


@stored_class
class Distiller(TaskModel):
    """Trains a student on the logits of a teacher. Afterwards, use the attribute `student`.

    The features hold `teacher_logits`, float `[B, labels]`: they are computed once, before training. The loss is

        alpha * T^2 * KL(softmax(teacher / T) || softmax(student / T))  +  (1 - alpha) * (the student's own loss)

    For `multi_label`, the divergence is computed for the sigmoid of each label and averaged over the labels. For
    `regression` it is the squared difference, without T. With `alpha` 1 no labels are needed. Both terms are weighted
    means over the examples.

    Args:
        student: a `SequenceClassifier`.
        alpha: the weight of the divergence from the teacher, 0 to 1.
        temperature: T; the higher, the more the teacher's small probabilities count.

    Call arguments and returns: those of the student.

    Raises:
        InputError: `alpha` is not between 0 and 1, or the temperature is not above 0.

    Example:
        distiller = Distiller(student)
        distiller.compile(optimizer=AdamW(5e-5))
        distiller.fit(dataset)   # dictionaries with input_ids, ..., label_ids and teacher_logits
        student.save_pretrained("student")

    Reference: Hinton et al., 2015, arXiv 1503.02531, section 2; Sanh et al., 2019, arXiv 1910.01108.
    """

    loss_names = ("distillation_loss", "label_loss")

    def __init__(self, student, alpha: float = 0.5, temperature: float = 2.0, **kwargs):
        if not 0 <= alpha <= 1 or not temperature > 0:
            raise InputError(
                f"alpha must be between 0 and 1 and temperature above 0. Received: {alpha} and {temperature}"
            )
        self.metric_names = student.metric_names if alpha < 1 else ()
        super().__init__(student.config, **kwargs)
        self.student = student
        self.alpha = alpha
        self.temperature = temperature
        self.built = True  # the student is built

    def call(self, inputs, training=False):
        return self.student(inputs, training=training)

    def make_train_function(self, force=False):
        self.student.new_parts.set_trained()
        return super().make_train_function(force)

    def loss_terms(self, x, y, y_pred, sample_weight):
        divergences = self._divergences(ops.cast(x[features.TEACHER_LOGITS], y_pred.dtype), y_pred)  # [B]
        weights = example_weights(x, sample_weight)
        weights = ops.ones_like(x[features.TEACHER_LOGITS][:, 0]) if weights is None else weights
        weights = ops.cast(weights, divergences.dtype)
        terms = [LossTerm("distillation_loss", self.alpha * ops.sum(divergences * weights), ops.sum(weights))]
        if self.alpha < 1:
            (own,) = self.student.loss_terms(x, y, y_pred, sample_weight)
            terms.append(LossTerm("label_loss", (1 - self.alpha) * own.numerator, own.weight, own.epsilon))
        return terms

    def metric_terms(self, x, y, y_pred, sample_weight):
        return self.student.metric_terms(x, y, y_pred, sample_weight) if self.alpha < 1 else []

    def _divergences(self, teacher, student):
        """The divergence of each example, float `[B]`."""
        if self.student.problem_type == "regression":
            return ops.mean(ops.square(teacher - student), axis=-1)
        teacher, student = teacher / self.temperature, student / self.temperature
        if self.student.problem_type == "multi_label":
            both = ((teacher, student), (-teacher, -student))  # the logits of "has the label" and "does not have it"
            parts = [ops.sigmoid(t) * (ops.log_sigmoid(t) - ops.log_sigmoid(s)) for t, s in both]
            return self.temperature**2 * ops.mean(parts[0] + parts[1], axis=-1)
        differences = ops.log_softmax(teacher) - ops.log_softmax(student)
        return self.temperature**2 * ops.sum(ops.softmax(teacher) * differences, axis=-1)

    def get_config(self):
        raise NotImplementedError("A Distiller is only for training. Save its student.")
