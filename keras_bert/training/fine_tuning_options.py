"""The options of fine-tuning runs and of grids of them. Nothing here imports TensorFlow, so that `--help` is quick."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from keras_bert.program.errors import InputError
from keras_bert.program.options import Options, check_whole, documented, option
from keras_bert.training.distillation import Distillation
from keras_bert.training.run_options import HIGHEST_SEED, RunOptions


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
    loss: str | None = option(
        None, "The loss for rare labels: focal, or with several labels asymmetric.", flag="label_loss"
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
        return super().settings() | {"distillation": self.distillation and self.distillation.settings()}


@dataclasses.dataclass(frozen=True)
class Grid(Options):
    """The settings that the runs of a grid combine; by default those of the paper.

    Each number of epochs needs a run of its own, because the learning rate falls to 0 at the end of the run.

    Raises:
        InputError: a list is empty or has a value twice, or a value is out of range.

    Reference: Devlin et al., 2018, section A.3.
    """

    batch_sizes: Sequence[int] = option(
        (16, 32), "The batch sizes of the grid.", flag="grid_batch_sizes", needs="grid", at_least=1
    )
    learning_rates: Sequence[float] = option(
        (5e-5, 3e-5, 2e-5), "The learning rates of the grid.", flag="grid_learning_rates", needs="grid"
    )
    epochs: Sequence[float] = option(
        (2.0, 3.0, 4.0), "The numbers of epochs of the grid.", flag="grid_epochs", needs="grid"
    )
    seeds: Sequence[int] = (RunOptions.seed,)

    def __post_init__(self):
        super().__post_init__()
        for name, values in dataclasses.asdict(self).items():
            if not values or len(set(values)) < len(values):
                shown = name.replace("_", " ")
                raise InputError(f"The grid needs one or more different {shown}. Received: {list(values)}")
        for seed in self.seeds:
            check_whole("seed", seed, at_least=0, at_most=HIGHEST_SEED)
