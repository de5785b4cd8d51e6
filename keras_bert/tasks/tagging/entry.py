"""The entry of `TokenClassifier`, see `registry.py`."""

from keras_bert.registry import Export, Head, Setting, Task
from keras_bert.tasks.settings import DOC_STRIDE, labels
from keras_bert.tasks.tagging.decoding import DECODING, INDEPENDENT

TOKEN_CLASSIFIER = Task(
    model="keras_bert.tasks.tagging.model.TokenClassifier",
    heads=(Head("token_classifier", has_labels=True, hugging_face=("ForTokenClassification",), google=""),),
    text_task="keras_bert.tasks.tagging.task.TaggingTask",
    export=Export(
        signatures="keras_bert.tasks.tagging.signatures.tagging_signatures",
        outputs=lambda model: {"": ("batch", "length", len(model.labels))},
        settings={"labels": labels(2), "doc_stride": DOC_STRIDE, "decoding": Setting(INDEPENDENT, DECODING.has)},
        answers="keras_bert.tasks.tagging.answers.tags_answers",
        methods="keras_bert.tasks.tagging.task.LoadedTokenClassifier",
    ),
    onnx="keras_bert.tasks.tagging.signatures.token_classifier",
    hugging_face_onnx="keras_bert.tasks.tagging.signatures.token_classifier",
    hub_task="token-classification",
    example='model.predict(["a text"])',
)
