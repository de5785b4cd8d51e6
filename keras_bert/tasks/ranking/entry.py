"""The entry of `CrossEncoder`, see `registry.py`."""

from keras_bert.registry import Export, Setting, Task
from keras_bert.tasks.classification.entry import CLASSIFIER_HEAD
from keras_bert.tasks.ranking.answers import SCORE_ACTIVATIONS
from keras_bert.tasks.settings import PROMPTS, prompt_of

CROSS_ENCODER = Task(
    model="keras_bert.tasks.ranking.model.CrossEncoder",
    heads=(CLASSIFIER_HEAD,),
    text_task="keras_bert.tasks.ranking.task.RankingTask",
    start="keras_bert.tasks.ranking.checkpoint.start",
    read="keras_bert.tasks.ranking.checkpoint.read",
    write="keras_bert.tasks.ranking.checkpoint.write",
    told_by="activation",
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
    hugging_face_onnx="keras_bert.tasks.classification.signatures.classifier",
    hub_task="text-ranking",
    example='model.rank("a query", ["a text", "another text"])',
)
