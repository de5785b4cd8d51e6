"""The entry of `TextToText`, see `registry.py`."""

from keras_bert.checkpoints import checkpoint as form
from keras_bert.registry import Export, Head, OwnFolder, Task
from keras_bert.tasks.masked_lm.entry import MASKED_LM_HEAD

TEXT_TO_TEXT = Task(
    model="keras_bert.tasks.text_to_text.model.TextToText",
    heads=(Head(form.CROSS_ATTENTION), MASKED_LM_HEAD),
    text_task="keras_bert.tasks.text_to_text.task.TextToTextTask",
    start="keras_bert.tasks.text_to_text.checkpoint.start",
    own_folder=OwnFolder(
        model_type="encoder-decoder",
        head=form.CROSS_ATTENTION,
        read="keras_bert.tasks.text_to_text.checkpoint.read_folder",
        write="keras_bert.tasks.text_to_text.checkpoint.write_folder",
    ),
    export=Export(
        signatures="keras_bert.tasks.text_to_text.signatures.text_to_text_signatures",
        outputs=lambda model: dict.fromkeys(("texts", "scores"), ("batch", "alternatives")),
        options=("num_beams", "max_new_tokens", "length_penalty", "num_answers"),
        answers="keras_bert.tasks.text_to_text.answers.written_texts",
    ),
    hub_task="text2text-generation",
    example='model.predict(["a text"])',
)
