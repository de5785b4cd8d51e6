"""Checks how the vectors of tokens become the vector of a text."""

from keras_bert.config.bert_config import POOLINGS, BertConfig
from keras_bert.program.errors import InputError
from keras_bert.program.options import check_choice


def check_pooling(config: BertConfig, pooling: str) -> None:
    """Raises `InputError` if the pooling is unknown, or if the model's files say that it was trained for another.

    A model whose files say nothing, or the mean, can be pooled as the caller likes.
    """
    check_choice("pooling", pooling, POOLINGS)
    trained_pooling = config.sentence_pooling
    if trained_pooling not in ("mean", pooling):
        raise InputError(
            f"The model was trained to turn texts into vectors by {str(trained_pooling)[:100]!r}, as modules.json in "
            f"its folder says. Received: pooling={pooling!r}. Load it with SentenceEncoder.from_pretrained."
        )
