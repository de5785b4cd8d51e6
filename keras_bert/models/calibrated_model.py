"""`CalibratedModel`: a task model whose probabilities `calibrate` makes as right as they say."""

from typing import Any

from keras_bert import registry
from keras_bert.config import BertConfig
from keras_bert.models.task_model import TaskModel


class CalibratedModel(TaskModel):
    """A task model whose logits can be divided by a temperature.

    Args:
        config: a `BertConfig`.
        temperature: what `calibrate` has divided the weights of the last layer by; kept for people to read.

    Attributes:
        logits_layer: the name of the attribute that has the last layer.
    """

    logits_layer: str

    def __init__(self, config: BertConfig, temperature: float = 1.0, **kwargs: Any):
        super().__init__(config, **kwargs)
        self.temperature = float(temperature)

    def calibrate(self, x: Any, y: Any, batch_size: int | None = None, max_seq_length: int | None = None) -> Any:
        """Calibrates the probabilities on held-out texts, and returns a `Calibration`. The answers stay the same.

        Args:
            x, y: texts and labels that the model was not trained on, as for `evaluate`.
            batch_size, max_seq_length: as for `evaluate`.

        Raises:
            InputError: the model has no probabilities, or the examples determine no temperature.
        """
        calibration = registry.convenience("calibrate")
        return calibration.calibrate_texts(self, x, y, batch_size, max_seq_length)

    def divide_logits(self, temperature: float) -> None:
        """Divides the weights of the last layer, and so the logits of all exports, by a temperature."""
        for weight in getattr(self, self.logits_layer).weights:
            weight.assign(weight / temperature)
        self.temperature *= temperature

    def make_train_function(self, force: bool = False) -> Any:
        self.temperature = 1.0  # training makes the weights uncalibrated
        return super().make_train_function(force)

    def get_config(self) -> dict[str, Any]:
        temperature = {} if self.temperature == 1.0 else {"temperature": self.temperature}
        return {**super().get_config(), **temperature}
