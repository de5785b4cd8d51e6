"""The options of a fine-tuning run. Nothing here imports TensorFlow, so that `--help` is quick."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.options import documented, option
from keras_bert.training.distillation import Distillation
from keras_bert.training.run_options import RunOptions


def class_weights(given: Sequence[str]) -> dict[str, float] | str:
    """Reads --class_weights: "balanced", or a list of `label=weight`.

    >>> class_weights(["good=1", "bad=2.5"])
    {'good': 1.0, 'bad': 2.5}
    """
    if list(given) == ["balanced"]:
        return "balanced"
    pairs = [entry.rpartition("=") for entry in given]
    try:
        weights = {label: float(weight) for label, _, weight in pairs}
    except ValueError:
        weights = {}
    if not weights or not all(weights):
        raise InputError(f"--class_weights must be balanced or label=weight,... Received: {','.join(given)}")
    return weights


@documented
@dataclasses.dataclass(frozen=True)
class FineTuningOptions(RunOptions):
    """The options of a fine-tuning run, for every task; see also `RunOptions`.

    Attributes:
        distillation: the teacher of a classifier and what it teaches; None for training on labels only.

    Raises:
        InputError: a number is out of range, or two options contradict each other.
    """

    max_seq_length: int | None = option(
        None,
        "The largest number of tokens in a row; batches are only as long as needed. Default: 128, for question "
        "answering 384, or all positions of a shorter model.",
        at_least=3,
    )
    num_train_epochs: float = option(3.0, "Passes over the training examples.", above=0)
    warmup_proportion: float = option(
        0.1, "The share of the training in which the learning rate rises.", at_least=0, at_most=1
    )
    keep_best: bool = option(False, "Evaluate on the dev examples while training, and keep the best model.")
    eval_steps: int = option(0, "Updates between these evaluations (default: one epoch).", at_least=0)
    patience: int = option(
        0, "Stop after this many evaluations without improvement; 0: never.", flag="early_stopping_patience", at_least=0
    )
    main_score: str | None = option(None, "The score that determines the best model (default: that of the task).")
    class_weight: Mapping[str, float] | str | None = option(
        None,
        "balanced: all classes have the same total weight; or label=weight,label=weight with 1 for other labels.",
        flag="class_weights",
        read=class_weights,
    )
    layer_decay: float = option(
        1.0, "The factor of the learning rate from a layer to the layer below.", above=0, at_most=1
    )
    freeze_embeddings: bool = option(False, "Do not train the embeddings.")
    freeze_layers: int = option(0, "Do not train the embeddings and this many of the first layers.", at_least=0)
    freeze_encoder: bool = option(False, "Train the head only, not the encoder.")
    lora_rank: int = option(0, "The rank of LoRA, usually 4 to 16; 0: no LoRA.", at_least=0)
    lora_alpha: float | None = option(
        None, "LoRA is scaled by lora_alpha / lora_rank (default: 1).", needs="lora_rank", above=0
    )
    lora_parts: Sequence[str] | str = option(
        ("attention",), "The parts with LoRA: attention, feed_forward or both.", needs="lora_rank"
    )
    distillation: Distillation | None = None

    def __post_init__(self):
        super().__post_init__()
        if (self.patience or self.eval_steps) and not self.keep_best:
            raise InputError("eval_steps and patience need keep_best. Add keep_best or leave them out.")
        if self.lora_rank and (self.freeze_embeddings or self.freeze_layers or self.freeze_encoder):
            raise InputError("LoRA freezes the encoder already. Leave out either lora_rank or the freeze options.")

    def settings(self) -> dict[str, Any]:
        """Returns the options that must not change when the run is resumed."""
        changeable = (
            "save_checkpoints_steps",
            "keep_checkpoint_max",
            "steps_per_execution",
            "gradient_accumulation_steps",
            "gradient_checkpointing",
            "tensorboard",
            "callbacks",
            "distillation",
            "optimizer",
        )
        names = [field.name for field in dataclasses.fields(self) if field.name not in changeable]
        settings = {name: getattr(self, name) for name in names}
        distillation = self.distillation and self.distillation.settings()
        return settings | {"distillation": distillation} | self.optimizer.settings()
