"""The entry of `MaskedLM`, see `registry.py`."""

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.weight_list import listed_by_family
from keras_bert.registry import Export, Head, Setting, Task
from keras_bert.tasks.settings import is_count_or_none

MASKED_LM_HEAD = Head(form.MASKED_LM, weights=lambda config: listed_by_family(config, form.MASKED_LM))
MASKED_LM = Task(
    model="keras_bert.tasks.masked_lm.model.MaskedLM",
    heads=(MASKED_LM_HEAD,),
    text_task="keras_bert.tasks.masked_lm.task.MaskedLMTask",
    export=Export(
        signatures="keras_bert.tasks.masked_lm.signatures.fill_mask_signatures",
        outputs=lambda model: {"masked_lm_logits": ("batch", "predictions", model.config.vocab_size)},
        settings={"top_k": Setting(None, is_count_or_none)},
        in_graph=lambda model, options: {"top_k": options.top_k},
        options=("top_k",),
        answers="keras_bert.tasks.masked_lm.answers.filled_texts",
        methods="keras_bert.tasks.masked_lm.task.LoadedMaskedLM",
    ),
    onnx="keras_bert.tasks.masked_lm.signatures.masked_lm",
    hugging_face_onnx="keras_bert.tasks.masked_lm.signatures.token_logits",
    hub_task="fill-mask",
    example='model.predict(["a [MASK]"])',
)
