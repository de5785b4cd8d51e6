"""`MobileBertEncoder`: MobileBERT, with narrow layers between wide vectors."""

import keras

from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.encoders.mobile_bert.bottleneck_block import BottleneckBlock
from keras_bert.encoders.mobile_bert.config import LAYER_NORM
from keras_bert.encoders.mobile_bert.trigram_embeddings import TrigramEmbeddings
from keras_bert.layers.heads import Pooler
from keras_bert.models.bert_layers import make_block
from keras_bert.models.encoder_base import PADDING


@keras.saving.register_keras_serializable(package="keras_bert")
class MobileBertEncoder(BertEncoder):
    """A `BertEncoder` whose embeddings join neighbours, and whose layers work on narrow vectors.

    Args:
        config: a `MobileBertConfig`. Without `classifier_activation`, `pooled_output` is the vector of the first token.
        **arguments: those of `BertEncoder`.

    Call arguments and returns: those of `BertEncoder`.

    Reference: Sun et al., 2020, arXiv 2004.02984.
    """

    supports = tuple(part for part in BertEncoder.supports if part != PADDING)  # its embeddings hide padding

    def _new_embeddings(self, tables_of):
        config = self.config
        return TrigramEmbeddings(
            token_size=config.embedding_size,
            normalizes=config.normalization_type == LAYER_NORM,
            vocab_size=config.vocab_size,
            hidden_size=config.hidden_size,
            max_positions=config.max_position_embeddings,
            num_segments=config.type_vocab_size,
            dropout=config.hidden_dropout_prob,
            layer_norm_epsilon=config.layer_norm_eps,
            initializer_range=config.initializer_range,
            dtype=self.dtype_policy,
            name="embeddings",
        )

    def _new_block(self, name):
        config = self.config
        return make_block(
            *(config, self.dtype_policy, name, BottleneckBlock),
            bottleneck_size=config.intra_bottleneck_size,
            num_feed_forward=config.num_feedforward_networks,
            shares_bottleneck=config.key_query_shared_bottleneck,
            normalizes=config.normalization_type == LAYER_NORM,
        )

    def _new_pooler(self):
        config = self.config
        return Pooler(
            config.initializer_range,
            config.pooler_act,
            has_dense=config.classifier_activation,
            dtype=self.dtype_policy,
            name="pooler",
        )

    def embed(self, tokens, training):
        places = (tokens.positions, tokens.segments, tokens.sequences)
        return self.embeddings(tokens.ids, *places, training=training, token_vectors=tokens.vectors)
