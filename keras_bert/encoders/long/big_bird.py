"""BigBird. Reference: Zaheer et al., 2020, arXiv 2007.14062; transformers, `models/big_bird/`."""

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.family_formats import HuggingFace
from keras_bert.checkpoints.weight_list import Weight, blocks, embeddings, masked_lm, next_sentence, pooler, projection
from keras_bert.config import BertConfig
from keras_bert.program.foreign_keys import KnownKeys
from keras_bert.registry import SENTENCE_PIECE, Family, size


def weights(config: BertConfig) -> list[Weight]:
    """Returns the weights of a BigBird. Where transformers has the pooler depends on the head."""
    return [
        *embeddings(config, "bert"),
        *projection(config),
        *blocks(config, "bert.encoder.layer.*"),
        *pooler(config),
        *masked_lm(config),
        *next_sentence(config, "cls.seq_relationship"),
    ]


FAMILY = Family(
    defaults={"vocab_size": 50358, "max_position_embeddings": 4096, "do_lower_case": False},
    sizes={"bigbird-base": size(12, 768, 12), "bigbird-large": size(24, 1024, 16)},
    tokenizer=SENTENCE_PIECE,
    extends="bert",
    config="keras_bert.encoders.long.config.LongConfig",
    encoder="keras_bert.encoders.long.encoder.LongEncoder",
    weights=f"{__name__}.weights",
    hugging_face=HuggingFace(
        classes="BigBird",
        prefix="bert",
        tokenizer_class="BigBirdTokenizer",
        poolers={"": ("bert.pooler",), form.CLASSIFIER: ("classifier.dense",)},
        outputs={form.CLASSIFIER: "classifier.out_proj"},
        decoder_bias="cls.predictions.decoder.bias",
        classifier_has_hidden_act=True,
        refused_heads={"span_classifier": "BigBirdForQuestionAnswering has more layers than this span classifier"},
        defaults={"hidden_act": "gelu_new"},
        more=KnownKeys(fixed={"rescale_embeddings": (False,), "use_bias": (True,)}),
    ),
)
