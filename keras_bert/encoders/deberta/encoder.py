"""`DebertaEncoder`: DeBERTa-v2 and -v3."""

from typing import Any

import keras

from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.encoders.deberta.block import DisentangledBlock
from keras_bert.encoders.deberta.config import LAYER_NORM
from keras_bert.encoders.deberta.embeddings import DebertaEmbeddings, DistanceVectors
from keras_bert.models.bert_layers import make_block, make_embeddings
from keras_bert.models.encoder_base import PACKING, POOLED_OUTPUT, SEGMENTS, UNPADDING, Tokens


@keras.saving.register_keras_serializable(package="keras_bert")
class DebertaEncoder(BertEncoder):
    """The encoder of DeBERTa-v2 and -v3: a `BertEncoder` whose scores are of contents and of distances apart.

    Distances are counted in columns, so padding on either side does not change answers, except with a table of
    positions (`position_biased_input`), whose rows are columns too.

    Args:
        config: a `DebertaConfig`.
        **arguments: those of `BertEncoder`. With `tables_of` the token embeddings are the sum of a table there, which
            gets no gradient, and of one of its own, which starts at 0.

    Call arguments and returns: those of `BertEncoder`. `pooled_output` is the pooler of classifiers; published encoders
    have none.

    Reference: He et al., 2020, arXiv 2006.03654, and 2021, arXiv 2111.09543.
    """

    # The scores of the layers are without those of distances, so a `Distiller` cannot compare them.
    supports = (SEGMENTS, PACKING, UNPADDING, POOLED_OUTPUT)
    adds_to_tables = True

    def _new_embeddings(self, tables_of):
        has_positions = self.config.position_biased_input
        return make_embeddings(self.config, self.dtype_policy, tables_of, DebertaEmbeddings, has_positions)

    def _new_block(self, name):
        config = self.config
        return make_block(
            *(config, self.dtype_policy, name, DisentangledBlock),
            score_types=config.score_types,
            shares_projections=config.share_att_key,
            kernel_size=config.conv_kernel_size if name == "layer_0" else 0,
            convolution_activation=config.conv_act,
        )

    def build(self, input_shape: Any = None) -> None:
        config = self.config
        self.distances = DistanceVectors(
            num_buckets=config.position_buckets,
            longest=config.longest_distance,
            layer_norm_epsilon=config.layer_norm_eps if config.norm_rel_ebd == LAYER_NORM else None,
            initializer_range=config.initializer_range,
            dtype=self.dtype_policy,
            name="distances",
        )
        self.distances.build((None, config.hidden_size))
        self.has_positions = config.position_biased_input
        super().build(input_shape)

    def embed(self, tokens: Tokens, training: bool) -> Any:
        places = (tokens.positions, tokens.segments, tokens.sequences)
        return self.embeddings(tokens.ids, *places, training=training, token_vectors=tokens.vectors)

    def takes_query_columns(self, tokens: Tokens) -> bool:
        return False

    def block_inputs(self, tokens: Tokens, kind: Any, query_columns: Any = None, training: bool = False) -> tuple:
        (bias,) = super().block_inputs(tokens, kind)
        return bias, *self.distances(tokens.ids, training=training), tokens.sequences
