"""The entry of `UrgencyModel`. It loads neither Keras nor TensorFlow."""

from keras_bert.registry import Export, Head, Task

URGENCY = Task(
    model="toys.urgency.model.UrgencyModel",
    heads=(Head("urgency_head", num_outputs=1),),
    text_task="toys.urgency.task.UrgencyTask",
    export=Export(
        signatures="toys.urgency.signatures.urgency_signatures",
        outputs=lambda model: {"": ("batch", 1)},
        answers="toys.urgency.answers.urgency_answers",
    ),
    onnx="toys.urgency.signatures.urgency_model",
    hub_task="text-classification",
    example='model.predict(["a message"])',
)
