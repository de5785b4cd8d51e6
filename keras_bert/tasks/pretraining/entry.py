"""The entries of models that are trained on text without labels, see `registry.py`."""

import dataclasses

from keras_bert.checkpoints.checkpoint import GENERATOR, MASKED_LM, NEXT_SENTENCE, REPLACED_TOKEN, SPAN_BOUNDARY
from keras_bert.checkpoints.weight_list import Weight, dense, layer_norm
from keras_bert.config import BertConfig
from keras_bert.registry import Head, Task
from keras_bert.tasks.masked_lm.entry import MASKED_LM as MASKED_LM_TASK
from keras_bert.tasks.masked_lm.entry import MASKED_LM_HEAD

_ONNX = "keras_bert.tasks.pretraining.onnx"
_NEXT_SENTENCE = Head(NEXT_SENTENCE, num_outputs=2)


def _replaced_token(config: BertConfig) -> list[Weight]:
    width = config.hidden_size
    return [
        *(layer_norm(f"{REPLACED_TOKEN}/layer_norm", width) if config.family.replaced_tokens_need_first else ()),
        *dense(f"{REPLACED_TOKEN}/dense", width, width),
        *dense(f"{REPLACED_TOKEN}/output_dense", width, 1),
    ]


_REPLACED_TOKEN = Head(REPLACED_TOKEN, weights=_replaced_token)
BERT_PRETRAINER = Task(
    model="keras_bert.tasks.pretraining.pretrainer.BertPretrainer",
    heads=(MASKED_LM_HEAD, _NEXT_SENTENCE),
    export=dataclasses.replace(MASKED_LM_TASK.export, stored_as="MaskedLM", needed_parts=(MASKED_LM,)),
    onnx=f"{_ONNX}.pretrainer",
)
SPAN_PRETRAINER = dataclasses.replace(
    BERT_PRETRAINER,
    model="keras_bert.tasks.pretraining.span_pretrainer.SpanPretrainer",
    heads=(MASKED_LM_HEAD, _NEXT_SENTENCE, Head(SPAN_BOUNDARY)),
)
REPLACED_TOKEN_DETECTOR = Task(
    model="keras_bert.tasks.pretraining.replaced_token_detector.ReplacedTokenDetector",
    heads=(_REPLACED_TOKEN,),
    onnx=f"{_ONNX}.replaced_token_detector",
)
ELECTRA_PRETRAINER = Task(
    model="keras_bert.tasks.pretraining.electra_pretrainer.ElectraPretrainer",
    heads=(_REPLACED_TOKEN, Head(GENERATOR)),
    start="keras_bert.tasks.pretraining.electra_pretrainer.start",
)
TRANSFORMER_XL = Task(
    model="keras_bert.encoders.transformer_xl.model.TransformerXL",
    hub_task="text-generation",
    example='model({"input_ids": np.array([[1, 2, 3]])})["log_probabilities"]',
)
