"""`ChosenLoss`: the choice of a loss by `compile`, by `fit` or by the examples."""

from typing import Any


class ChosenLoss:
    """Methods of task models that have several losses. It is a base before `TaskModel`.

    Attributes:
        loss_choice: the loss that the user has given to `compile` or `fit`; None for that of the examples.
    """

    loss_choice: Any = None
    _loss_of_examples: Any = None

    @staticmethod
    def as_loss(loss: Any) -> Any:
        """Returns a loss by its name; a loss or None is returned as it is. Raises `InputError`."""
        raise NotImplementedError

    def _set_loss(self, loss: Any, loss_weights: Any) -> None:
        super()._set_loss(None, loss_weights)  # type: ignore[misc]
        self.choose_loss(loss)

    def choose_loss(self, loss: Any) -> None:
        """Sets the loss of the user; None keeps the earlier one."""
        self.loss_choice = self.as_loss(loss) or self.loss_choice

    def set_loss_of_examples(self, loss: Any) -> None:
        """Sets the loss that is used when the user has chosen none."""
        self._loss_of_examples = loss

    def get_compile_config(self) -> dict[str, Any]:
        # A loss is chosen anew for each training.
        found = super().get_compile_config() or {}  # type: ignore[misc]
        return {name: value for name, value in found.items() if name != "loss"}
