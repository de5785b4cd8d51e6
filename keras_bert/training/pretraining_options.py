"""The options of a pre-training run. Nothing here imports TensorFlow, so that `--help` is quick."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keras_bert import registry
from keras_bert.program.errors import InputError
from keras_bert.program.options import documented, option, same_option
from keras_bert.training.distillation import Distillation
from keras_bert.training.pretraining_phase import PretrainingPhase
from keras_bert.training.run_options import RunOptions

if TYPE_CHECKING:
    from keras_bert.training.pretraining_evaluation import PretrainingEvaluation


# Name -> import path of the pre-trainer. Its attribute `masking` has its options for records without masks.
OBJECTIVES = {
    "masked_lm": "keras_bert.tasks.pretraining.pretrainer.BertPretrainer",
    "span_boundary": "keras_bert.tasks.pretraining.span_pretrainer.SpanPretrainer",
    "replaced_tokens": "keras_bert.tasks.pretraining.electra_pretrainer.ElectraPretrainer",
}
DEFAULT_OBJECTIVE = "masked_lm"
USUAL, MEGATRON = "bert", "megatron"  # how the weights of a new model begin


def pretrainer_class(objective: str) -> type:
    """Returns the model class of an objective. Raises `InputError` if its name is unknown."""
    if objective not in OBJECTIVES:
        raise InputError(f"Unknown objective {objective!r}. Use one of: {', '.join(OBJECTIVES)}")
    return registry.imported(OBJECTIVES[objective])


@documented
@dataclasses.dataclass(frozen=True)
class PretrainingRunOptions(RunOptions):
    """The options of `train_pretrainer`; see also `RunOptions`.

    Attributes:
        masking: see `pretraining_dataset`.
        model_arguments: constructor arguments of the objective's pre-trainer besides the config.
        second_phase: a second phase with records of another length. Weights and moments are kept. In the paper, nine
            tenths of the updates have short sequences and one tenth long ones.
        evaluation: records to evaluate on while training.
        keep_best: the same, and the model with the lowest loss is kept instead of the last.
        distillation: a teacher with the same vocabulary, and what it teaches.

    Raises:
        InputError: a value is out of range, or there is a teacher for another objective than masked_lm.
    """

    train_batch_size: int = option(32, "Sequences per update.", at_least=1)
    max_seq_length: int | None = same_option(PretrainingPhase, "max_seq_length")
    max_predictions_per_seq: int | None = same_option(PretrainingPhase, "max_predictions_per_seq")
    adam_beta_2: float = option(
        0.999, "Adam's decay rate of the mean of squared gradients; 0.98 helps in short training.", at_least=0, below=1
    )
    num_train_steps: int = option(100_000, "The number of updates.", at_least=1)
    num_warmup_steps: int = option(10_000, "The number of updates in which the learning rate rises.", at_least=0)
    batch_growth: tuple[int, ...] = option(
        (),
        "Growing batch sizes to begin with, such as 64,128 before a train_batch_size of 256 (ModernBERT, arXiv "
        "2412.13663). The run sees as many tokens as without, and the learning rate counts tokens.",
        at_least=1,
    )
    batch_growth_steps: int = option(0, "The number of updates with each batch size of batch_growth.", at_least=0)
    max_train_hours: float | None = option(
        None,
        "End after this many hours, over all interruptions (Cramming, arXiv 2212.14034): the learning rate falls to "
        "its end by then, or by num_train_steps if they are made before.",
        above=0,
    )
    extend_to: int | None = option(
        None,
        "Go on with the finished run in output_dir up to this update. The rest of the command stays the same.",
        at_least=1,
    )
    eval_steps: int = option(
        0, "Updates between the evaluations while training (default: save_checkpoints_steps).", at_least=0
    )
    objective: str = option(
        DEFAULT_OBJECTIVE,
        "What is learnt: masked tokens and, if the records have them, next sentences (masked_lm), also the tokens "
        "of masked spans from the tokens beside them (span_boundary: SpanBERT), or which tokens a small masked LM has "
        "replaced (replaced_tokens: ELECTRA).",
        choices=tuple(OBJECTIVES),
    )
    mem_len: int = option(
        0,
        "XLNet, above 0: the tokens of the rows before that a row attends to, on records with --num_streams equal to "
        "--train_batch_size.",
        at_least=0,
    )
    masked_lm_prob_end: float | None = option(
        None,
        "Records without masks: the share of masked tokens falls linearly from masked_lm_prob to this one over the run "
        "(Yang et al., 2023, arXiv 2208.10806).",
        above=0,
        at_most=1,
    )
    initialization: str = option(
        USUAL,
        "How a new model begins: bert, all kernels with initializer_range, or megatron, the output projections of "
        "attention and feed-forward parts with initializer_range / sqrt(2 * layers) (Shoeybi et al., 2019, arXiv "
        "1909.08053, section 3).",
        choices=(USUAL, MEGATRON),
    )
    stuck_input_seconds: float = option(
        300.0, "Report what the run waits for when a batch takes longer than this.", above=0
    )
    masking: Mapping[str, object] | None = None
    model_arguments: Mapping[str, object] = dataclasses.field(default_factory=dict)
    second_phase: PretrainingPhase | None = None
    evaluation: "PretrainingEvaluation | None" = None
    keep_best: "PretrainingEvaluation | None" = None
    distillation: Distillation | None = None

    def __post_init__(self):
        super().__post_init__()
        if self.max_train_hours is not None:
            self._check_hours()
        if self.distillation and self.objective != DEFAULT_OBJECTIVE:
            raise InputError(
                f"A teacher needs the objective {DEFAULT_OBJECTIVE}. Received: {self.objective}. Leave out one of "
                "the two."
            )
        if self.mem_len and (self.distillation or self.objective != DEFAULT_OBJECTIVE):
            raise InputError(
                f"mem_len needs the objective {DEFAULT_OBJECTIVE} and no teacher. Received: {self.objective}, "
                f"{'a' if self.distillation else 'no'} teacher. Leave out mem_len or the other."
            )

    def _check_hours(self) -> None:
        if self.second_phase or self.extend_to is not None:
            raise InputError(
                "max_train_hours is for a run of one phase that is not extended: the length of a phase and the end of "
                "an extension are numbers of updates. Leave out max_train_hours, or the second phase and extend_to."
            )
        if self.num_warmup_steps >= self.num_train_steps:
            raise InputError(
                "The budget max_train_hours is shorter than the warm-up, which takes its share num_warmup_steps / "
                f"num_train_steps of the hours. Received: {self.num_warmup_steps} / {self.num_train_steps}. About a "
                "tenth is usual."
            )

    @property
    def steps_between_evaluations(self) -> int:
        """The number of updates between two evaluations, with the default filled in."""
        return self.eval_steps or self.save_checkpoints_steps

    def phases(self, train_files: str | Sequence[str]) -> list[PretrainingPhase]:
        """Returns the one or two phases of a run; `train_files` are the records of the first one.

        Raises:
            InputError: a number is out of range, or the devices cannot share a batch evenly.
        """
        from keras_bert.training.strategies import check_batch_size

        names = [field.name for field in dataclasses.fields(PretrainingPhase) if field.name != "train_files"]
        first = PretrainingPhase(train_files, **{name: getattr(self, name) for name in names})
        phases = [first, self.second_phase.like(first)] if self.second_phase else [first]
        sizes = [size for phase in phases for size in phase.batch_sizes]
        if self.mem_len and len(set(sizes)) > 1:
            raise InputError("mem_len needs the same train_batch_size in both phases: each row of a batch is a stream.")
        for size in sizes:
            check_batch_size(size, self.gradient_accumulation_steps)
        return phases

    def settings(self) -> dict[str, Any]:
        """Returns the settings, besides the phases, that must not change when a run is resumed."""
        names = ("adam_beta_2", "seed", "objective", "initialization", "mem_len", "masked_lm_prob_end")
        best = self.keep_best and self.keep_best.settings() | {"eval_steps": self.steps_between_evaluations}
        return {
            **{name: getattr(self, name) for name in (*names, "max_train_hours")},
            "masking": dict(self.masking) if self.masking else None,
            "model_arguments": dict(self.model_arguments),
            "keep_best": best,
            "distillation": self.distillation and self.distillation.settings(),
            **self.optimizer.settings(),
        }
