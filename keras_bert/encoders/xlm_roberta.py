"""XLM-RoBERTa and CamemBERT: RoBERTas with other vocabularies. transformers names their weights as RoBERTa's.

Reference: Conneau et al., 2019, arXiv 1911.02116; Martin et al., 2019, arXiv 1911.03894; transformers,
`models/xlm_roberta/` and `models/camembert/`.
"""

import dataclasses

from keras_bert.encoders.roberta import FAMILY as ROBERTA
from keras_bert.registry import SENTENCE_PIECE, size


def _hugging_face(classes: str):
    # The classes of their configs have BERT's defaults.
    defaults = {**ROBERTA.hugging_face.defaults, "vocab_size": 30522}
    return dataclasses.replace(ROBERTA.hugging_face, classes=classes, defaults=defaults)


FAMILY = dataclasses.replace(
    ROBERTA,
    defaults={**ROBERTA.defaults, "vocab_size": 250002},
    sizes={"xlm-roberta-base": size(12, 768, 12), "xlm-roberta-large": size(24, 1024, 16)},
    tokenizer=SENTENCE_PIECE,
    hugging_face=_hugging_face("XLMRoberta"),
    # KerasHub moves the ids of SentencePiece's own model by one.
    keras_hub=dataclasses.replace(ROBERTA.keras_hub, backbone="XLMRobertaBackbone", has_tokenizer=False),
)

CAMEMBERT = dataclasses.replace(
    FAMILY,
    defaults={**FAMILY.defaults, "vocab_size": 32005},
    sizes={"camembert-base": size(12, 768, 12), "camembert-large": size(24, 1024, 16)},
    hugging_face=_hugging_face("Camembert"),
    keras_hub=None,
)
