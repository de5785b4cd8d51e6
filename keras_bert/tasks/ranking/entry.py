"""The entry of `CrossEncoder`, see `registry.py`, and how it starts from a checkpoint."""

import inspect
from collections.abc import Mapping

from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.registry import Export, Setting, Task
from keras_bert.tasks.classification.entry import CLASSIFIER_HEAD
from keras_bert.tasks.ranking.answers import SCORE_ACTIVATIONS
from keras_bert.tasks.settings import PROMPTS, prompt_of

CROSS_ENCODER = Task(
    model="keras_bert.tasks.ranking.model.CrossEncoder",
    heads=(CLASSIFIER_HEAD,),
    text_task="keras_bert.tasks.ranking.task.RankingTask",
    start="keras_bert.tasks.ranking.entry.start",
    told_as="ranking",
    is_told=lambda arguments: bool(arguments and arguments.get("activation")),
    export=Export(
        signatures="keras_bert.tasks.ranking.signatures.cross_encoder_signatures",
        outputs=lambda model: {"": ("batch", 1)},
        settings={"activation": Setting("linear", lambda value: value in SCORE_ACTIVATIONS), **PROMPTS},
        in_graph=lambda model, options: {"activation": "linear", **prompt_of(options)},
        options=("text_pairs", "prompt"),
        answers="keras_bert.tasks.classification.answers.label_answers",
        methods="keras_bert.tasks.ranking.task.LoadedCrossEncoder",
    ),
    onnx="keras_bert.tasks.classification.signatures.classifier",
    hub_task="text-ranking",
    example='model.rank("a query", ["a text", "another text"])',
)


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the constructor arguments of a `CrossEncoder`, and the checkpoint."""
    known = inspect.signature(model_class.__init__).parameters
    stated = {name: value for name, value in (checkpoint.ranking or {}).items() if name in known}
    return {**stated, "problem_type": "regression", **arguments}, checkpoint
