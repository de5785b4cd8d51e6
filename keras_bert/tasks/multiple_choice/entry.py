"""The entry of `MultipleChoice`, see `registry.py`."""

from keras_bert.registry import Export, Head, Task

MULTIPLE_CHOICE = Task(
    model="keras_bert.tasks.multiple_choice.model.MultipleChoice",
    heads=(Head("choice_scorer", num_outputs=1, hugging_face=("ForMultipleChoice",), google=""),),
    text_task="keras_bert.tasks.multiple_choice.task.MultipleChoiceTask",
    export=Export(
        signatures="keras_bert.tasks.multiple_choice.signatures.multiple_choice_signatures",
        outputs=lambda model: {"": ("batch", "choices")},
        answers="keras_bert.tasks.multiple_choice.answers.choice_answers",
        methods="keras_bert.tasks.multiple_choice.task.LoadedMultipleChoice",
    ),
    onnx="keras_bert.tasks.multiple_choice.signatures.multiple_choice",
    hugging_face_onnx="keras_bert.tasks.multiple_choice.signatures.multiple_choice",
    hub_task="multiple-choice",
    example='model.predict((["a prompt"], [["a choice", "another choice"]]))',
)
