"""The contract that every encoder keeps. Task models use an encoder through it alone."""

from collections.abc import Sequence

import keras

from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.layers.gathering import vectors_at_flat
from keras_bert.layers.numbered_mask import position_ids
from keras_bert.models.base import BertModel
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.tokenization.user_inputs import holds_texts

# What an encoder may support.
SEGMENTS, PACKING, UNPADDING, POOLED_OUTPUT = "segments", "packing", "unpadding", "pooled output"
# A choice of `EncoderModel.unpadded`.
FEW_SHAPES = "few_shapes"


class EncoderModel(BertModel):
    """Token ids in, one vector for each token and one for each row out.

    A subclass has the attribute `embeddings` and writes `encode`, `encode_at`, `encode_flat` and `blocks_in_order`.
    `call`, `vectors_at` and `vectors_at_flat` take the padding out where that is asked for.

    Args:
        config: the config of the encoder.
        unpadded: whether inference computes without padding: the rows of a batch are packed into fewer rows, and the
            vectors are taken out again. For batches of mixed lengths, on TensorFlow without XLA. `"few_shapes"` rounds
            numbers and lengths of these rows up, as exports do: more padding, and fewer shapes that a process which
            computes for long keeps code for (`unpadding.pack_rows`).

    Attributes:
        supports: which of `SEGMENTS`, `PACKING`, `UNPADDING` and `POOLED_OUTPUT` the encoder supports.
        gradient_checkpointing: whether training keeps only the inputs of each block, and computes the block again in
            the backward pass: less memory, more time, the same result but for rounding. It is no part of the config.
    """

    supports: Sequence[str] = ()
    gradient_checkpointing = False

    def __init__(self, config, *, unpadded: bool | str = False, **kwargs):
        super().__init__(config, **kwargs)
        self.unpadded = unpadded

    def encode(self, inputs, training=False) -> dict:
        """Returns all outputs; see `call` of the encoder."""
        raise NotImplementedError

    def encode_at(self, inputs, columns=None, training=False) -> dict:
        """Returns the outputs for selected columns; see `vectors_at`."""
        raise NotImplementedError

    def encode_flat(self, inputs, flat_indices, training=False):
        """Returns the vectors of selected tokens; see `vectors_at_flat`."""
        raise NotImplementedError

    def blocks_in_order(self) -> list:
        """Returns the blocks in the order of computation; a block that is used twice appears twice."""
        raise NotImplementedError

    def positions_of(self, input_mask):
        """Returns the position of every token, int32 `[B, S]`, counted from 0."""
        return position_ids(input_mask)

    def call(self, inputs, training=False):
        return self._form(inputs, training).encode(inputs, training=training)

    def vectors_at(self, inputs, columns=None, training=False) -> dict:
        """Returns vectors of selected tokens. The last block then runs for them and for the first tokens only.

        Args:
            inputs: as for `call`.
            columns: int `[B, F]`, columns of each row. None: `pooled_output` only.

        Returns:
            dictionary: `pooled_output` as of `call`, and with `columns` `sequence_output`, `[B, F, H]`.

        Raises:
            InputError: as `call`.
        """
        self._check_inputs(inputs)
        return self._form(inputs, training).encode_at(inputs, columns, training=training)

    def vectors_at_flat(self, inputs, flat_indices, training=False):
        """Returns vectors of selected tokens, `[T, H]`. The dense layers behind the last attention run for them only.

        Args:
            inputs: as for `call`.
            flat_indices: int `[T]`, tokens counted through all rows. XLA would compile anew for every T.

        Raises:
            InputError: as `call`.
        """
        self._check_inputs(inputs)
        form = self._form(inputs, training)
        if form is not self:
            return vectors_at_flat(form.encode(inputs)["sequence_output"], flat_indices)
        return self.encode_flat(inputs, flat_indices, training=training)

    def _form(self, inputs, training):
        """Returns what encodes these inputs: this encoder, or the wrapper that takes the padding out."""
        if training or not self.unpadded or features.CLS_POSITIONS in inputs:
            return self
        from keras_bert.models.unpadded_encoder import UnpaddedEncoder

        return UnpaddedEncoder(self, few_shapes=self.unpadded == FEW_SHAPES)

    @property
    def unpadded(self) -> bool | str:
        """Whether batches are computed without padding. It can be set; `InputError`: this encoder cannot do it."""
        return self._unpadded

    @unpadded.setter
    def unpadded(self, unpadded: bool | str):
        if unpadded not in (False, True, FEW_SHAPES):
            raise InputError(f"unpadded must be False, True or {FEW_SHAPES!r}. Received: {unpadded!r}")
        if unpadded and UNPADDING not in self.supports:
            raise InputError(f"{type(self).__name__} cannot compute without padding. Set unpadded=False.")
        if unpadded and not on_tensorflow():
            raise InputError(f"unpadded={unpadded!r} needs Keras on TensorFlow. It runs on {keras.backend.backend()}.")
        if unpadded and getattr(self, "output_attentions", False):
            raise InputError("An encoder computes without padding or returns attentions. Set one of the two to False.")
        self._unpadded = unpadded
        # Keras otherwise compiles `predict` with XLA, which needs to know all shapes beforehand.
        self.supports_jit = not unpadded

    def predict(self, x, *args, **kwargs):
        """Returns outputs for features, as `keras.Model` does."""
        if holds_texts(x):
            raise InputError(
                f"A {type(self).__name__} takes features. Of texts: keras_bert.sentence_embeddings(encoder, texts)."
            )
        return super().predict(x, *args, **kwargs)

    def get_config(self):
        return {**super().get_config(), "unpadded": self.unpadded}


def encoder_of(model) -> EncoderModel:
    """Returns the encoder of a task model, and an encoder itself."""
    return getattr(model, "encoder", model)
