"""The entries of `SequenceClassifier` and `SentenceClassifier`, see `registry.py`."""

import dataclasses

from keras_bert.checkpoints.checkpoint import CLASSIFIER
from keras_bert.program.label_types import LABEL_TYPES
from keras_bert.registry import Export, Head, Setting, Task
from keras_bert.tasks.settings import DOC_STRIDE, are_shares_or_none, labels

CLASSIFIER_HEAD = Head(CLASSIFIER, has_labels=True, hugging_face=("ForSequenceClassification",), google="")
SEQUENCE_CLASSIFIER = Task(
    model="keras_bert.tasks.classification.model.SequenceClassifier",
    heads=(CLASSIFIER_HEAD,),
    text_task="keras_bert.tasks.classification.task.ClassificationTask",
    export=Export(
        signatures="keras_bert.tasks.classification.signatures.classifier_signatures",
        outputs=lambda model: {"": ("batch", len(model.labels))},
        settings={
            "labels": labels(1, ["score"]),
            "problem_type": Setting("classification", ("classification", "multi_label", "regression").__contains__),
            "doc_stride": DOC_STRIDE,
            "label_type": Setting("str", LABEL_TYPES.__contains__),
            "thresholds": Setting(None, are_shares_or_none),
            "text_pairs": Setting(False, lambda value: isinstance(value, bool)),  # of LiteRT and ONNX exports
        },
        options=("text_pairs", "zero_shot"),
        answers="keras_bert.tasks.classification.answers.label_answers",
        methods="keras_bert.tasks.classification.loaded.LoadedSequenceClassifier",
    ),
    onnx="keras_bert.tasks.classification.signatures.classifier",
    hugging_face_onnx="keras_bert.tasks.classification.signatures.classifier",
    hub_task="text-classification",
    example='model.predict(["a text"])',
)
SENTENCE_CLASSIFIER = dataclasses.replace(
    SEQUENCE_CLASSIFIER,
    model="keras_bert.tasks.classification.sentence_classifier.SentenceClassifier",
    start="keras_bert.tasks.embedding.checkpoint.start",
    only_ours="a SentenceClassifier, whose labels depend on a pooling. Write it with format='keras_bert', or its "
    "encoder alone: SentenceEncoder.from_pretrained(folder).",
    onnx="keras_bert.tasks.classification.signatures.sentence_classifier",
    hugging_face_onnx=None,
)
