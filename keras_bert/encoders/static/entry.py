"""Static models: a vector for each token and no layers, so the sizes of layers mean nothing. `SentenceEncoder` alone
computes them."""

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.weight_list import Weight
from keras_bert.config import BertConfig
from keras_bert.registry import Family


def weights(config: BertConfig) -> list[Weight]:
    """Returns the only weight of a static model."""
    return [Weight(form.TOKEN_EMBEDDINGS, (config.vocab_size, config.hidden_size))]


FAMILY = Family(
    defaults={
        "num_hidden_layers": 1,
        "num_attention_heads": 1,
        "intermediate_size": 1,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "type_vocab_size": 0,
        "max_position_embeddings": 32_768,
    },
    is_static=True,
    encoder="keras_bert.encoders.static.encoder.StaticEncoder",
    weights=f"{__name__}.weights",
)
