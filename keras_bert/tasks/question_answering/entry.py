"""The entry of `SpanClassifier`, see `registry.py`."""

from keras_bert.registry import Export, Head, Setting, Task
from keras_bert.tasks.settings import is_count, is_number_or_none

SPAN_CLASSIFIER = Task(
    model="keras_bert.tasks.question_answering.model.SpanClassifier",
    heads=(
        Head(
            "span_classifier",
            num_outputs=2,
            hugging_face=("ForQuestionAnswering", "ForQuestionAnsweringSimple"),
            hugging_face_layer="qa_outputs",
            google="cls/squad/",
        ),
    ),
    text_task="keras_bert.tasks.question_answering.task.QuestionAnsweringTask",
    export=Export(
        signatures="keras_bert.tasks.question_answering.signatures.question_answering_signatures",
        outputs=lambda model: dict.fromkeys(("start_logits", "end_logits"), ("batch", "length")),
        settings={
            "null_threshold": Setting(None, is_number_or_none),
            "doc_stride": Setting(128, is_count),
            "max_query_length": Setting(64, is_count),
        },
        answers="keras_bert.tasks.question_answering.answers.found_answers",
        methods="keras_bert.tasks.question_answering.task.LoadedSpanClassifier",
    ),
    onnx="keras_bert.tasks.question_answering.signatures.span_classifier",
    hugging_face_onnx="keras_bert.tasks.question_answering.signatures.span_classifier",
    hub_task="question-answering",
    example='model.predict((["a question"], ["a text that has the answer"]))',
)
