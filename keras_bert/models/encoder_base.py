"""`Encoder`: the interface of all encoders. Task models use nothing else of an encoder."""

from collections.abc import Sequence
from typing import Any

import keras

from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.config import BertConfig
from keras_bert.layers.gathering import vectors_at_flat
from keras_bert.layers.numbered_mask import position_ids
from keras_bert.layers.text_pooling import pool_tokens
from keras_bert.models.base import BertModel
from keras_bert.models.encoders import encoder_class
from keras_bert.program.errors import InputError
from keras_bert.records import features
from keras_bert.tokenization.user_inputs import holds_texts

# The capabilities that an encoder can list in `supports`.
SEGMENTS, PACKING, UNPADDING, POOLED_OUTPUT = "segments", "packing", "unpadding", "pooled output"
ATTENTION_SCORES = "attention scores"
# The tokens that can be global in a Longformer, see `Encoder.global_tokens`.
FIRST_TOKEN, FIRST_TEXT, SECOND_TEXT = "first token", "first text", "second text"
# One of the values of `Encoder.unpadded`.
FEW_SHAPES = "few_shapes"


class Encoder(BertModel):
    """Token ids in, one vector for each token and one for each row out.

    `Encoder.from_pretrained(path)` returns the encoder that the checkpoint's family needs, such as a `BertEncoder`.

    A subclass has the attribute `embeddings` and implements `encode`, `encode_at`, `encode_flat` and `blocks_in_order`.
    With `unpadded`, `call`, `vectors_at` and `vectors_at_flat` compute without padding.

    Args:
        config: the config of the encoder.
        unpadded: whether inference computes without padding: the rows of a batch are packed into fewer rows, and the
            vectors are unpacked afterwards. For batches of mixed lengths, on TensorFlow without XLA. `"few_shapes"`
            rounds the number and the length of the packed rows up, as exports do: more padding, but fewer shapes, for
            each of which a long-running process keeps memory (`unpadding.pack_rows`).

    Attributes:
        supports: which of the capabilities above the encoder supports.
        has_positions: whether the encoder uses `position_ids`.
        has_token_head: whether the pooler is a head of all tasks, also of those on tokens; see `token_features`.
        gradient_checkpointing: whether training keeps only the inputs of each block and computes the block again in the
            backward pass: less memory, more time, the same result except for rounding. It is not saved in the config.
        global_tokens: which tokens of a row are global if the encoder has global tokens (Longformer): its first token,
            or all tokens of the first or of the second text of a pair. The task model sets it.
        observer: None, or the object that computes instead of the encoder; see `observed_encoder`.

    Raises:
        InputError: `unpadded` is not one of its values, the encoder or the backend does not support it, or the class
            does not compute the config's family.
    """

    kind = "Encoder"
    supports: Sequence[str] = ()
    has_positions = True
    has_token_head = False
    gradient_checkpointing: bool
    global_tokens = FIRST_TOKEN
    observer: Any

    def __init__(self, config: BertConfig, *, unpadded: bool | str = False, **kwargs: Any):
        super().__init__(config, **kwargs)
        needed = encoder_class(config)
        if not isinstance(self, needed):
            raise InputError(
                f"{type(self).__name__} does not compute models of the family {config.model_type!r}. Use "
                f"{needed.__name__}, or Encoder.from_pretrained(path)."
            )
        self.unpadded = unpadded
        # Attributes of the object from the start, since `traced_functions` compares all of these.
        self.gradient_checkpointing, self.observer = False, None

    def encode(self, inputs: Any, training: bool = False) -> dict:
        """Returns all outputs; see `call` of the encoder."""
        raise NotImplementedError

    def encode_at(self, inputs: Any, columns: Any = None, training: bool = False) -> dict:
        """Returns the outputs for selected columns; see `vectors_at`."""
        raise NotImplementedError

    def encode_flat(self, inputs: Any, flat_indices: Any, training: bool = False) -> Any:
        """Returns the vectors of selected tokens; see `vectors_at_flat`."""
        raise NotImplementedError

    def blocks_in_order(self) -> list:
        """Returns the blocks in the order of computation. A block that runs twice is listed twice."""
        raise NotImplementedError

    def token_features(self, vectors: Any, training: bool = False) -> Any:
        """Returns the vectors `[..., H]` that the last layer of a task on tokens reads: those of the tokens, or with
        `has_token_head` the head's outputs for them."""
        return self.pooler(vectors, training=training) if self.has_token_head else vectors

    def positions_of(self, input_mask: Any) -> Any:
        """Returns the position of every token, int32 `[B, S]`, counted from 0."""
        return position_ids(input_mask)

    def call(self, inputs: Any, training: bool = False) -> Any:
        return self._encoder_for(inputs, training).encode(inputs, training=training)

    def vectors_at(self, inputs: Any, columns: Any = None, training: bool = False) -> dict:
        """Returns the vectors of selected tokens. The last block runs for these and for the first tokens only.

        Args:
            inputs: as for `call`.
            columns: int `[B, F]`, the columns of the selected tokens; None to get `pooled_output` only.

        Returns:
            dictionary: `pooled_output`, as from `call`; with `columns` also `sequence_output`, `[B, F, H]`.

        Raises:
            InputError: as `call`.
        """
        self._check_inputs(inputs)
        return self._encoder_for(inputs, training).encode_at(inputs, columns, training=training)

    def vectors_at_flat(self, inputs: Any, flat_indices: Any, training: bool = False) -> Any:
        """Returns the vectors `[T, H]` of selected tokens. The dense layers after the last attention run for these
        only.

        Args:
            inputs: as for `call`.
            flat_indices: int `[T]`, indices into the B * S tokens of the batch. XLA would compile anew for every T.

        Raises:
            InputError: as `call`.
        """
        self._check_inputs(inputs)
        encoder = self._encoder_for(inputs, training)
        if encoder is not self:
            return vectors_at_flat(encoder.encode(inputs, training=training)["sequence_output"], flat_indices)
        return self.encode_flat(inputs, flat_indices, training=training)

    def vectors_to_predict(self, inputs: Any, columns: Any, head: Any, training: bool = False) -> dict[str, Any]:
        """As `vectors_at`, for tokens that `head` predicts. In XLNet these vectors do not depend on the tokens."""
        return self.vectors_at(inputs, columns, training=training)

    def pooled_tokens(self, input_mask: Any) -> Any:
        """Returns the mask of the tokens whose vectors are pooled, int `[B, S]`: all tokens, [CLS] and [SEP] too."""
        return input_mask

    def pool(self, hidden: Any, input_mask: Any, pooling: str) -> Any:
        """Pools the vectors of tokens: float `[B, S, H]` and int `[B, S]` -> `[B, H]`; see `pool_tokens`."""
        return pool_tokens(hidden, self.pooled_tokens(input_mask), [pooling])

    def _encoder_for(self, inputs, training):
        """Returns this encoder, its observer, or the wrapper that computes these inputs without padding."""
        if self.observer is not None:
            return self.observer
        if training or not self.unpadded or features.CLS_POSITIONS in inputs or features.TOKEN_VECTORS in inputs:
            return self
        from keras_bert.models.unpadded_encoder import UnpaddedEncoder

        return UnpaddedEncoder(self, few_shapes=self.unpadded == FEW_SHAPES)

    @property
    def unpadded(self) -> bool | str:
        """Whether inference computes without padding. Setting it raises `InputError` if the encoder cannot do so."""
        return self._unpadded

    @unpadded.setter
    def unpadded(self, unpadded: bool | str):
        if unpadded not in (False, True, FEW_SHAPES):
            raise InputError(f"unpadded must be False, True or {FEW_SHAPES!r}. Received: {unpadded!r}")
        if unpadded and UNPADDING not in self.supports:
            raise InputError(f"{type(self).__name__} cannot compute without padding. Set unpadded=False.")
        if unpadded and not on_tensorflow():
            raise InputError(
                f"unpadded={unpadded!r} needs Keras on TensorFlow. Received: Keras on {keras.backend.backend()}. Set "
                "unpadded=False."
            )
        if unpadded and getattr(self, "output_attentions", False):
            raise InputError("unpadded and output_attentions cannot be combined. Set one of the two to False.")
        self._unpadded = unpadded
        # Otherwise Keras compiles `predict` with XLA, which needs static shapes.
        self.supports_jit = not unpadded

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns outputs for features, as `keras.Model.predict` does. Raises `InputError` for texts."""
        if holds_texts(x):
            raise InputError(
                f"{type(self).__name__}.predict takes features. Received: texts. Use "
                "keras_bert.sentence_embeddings(encoder, texts) for texts."
            )
        return super().predict(x, *args, **kwargs)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "unpadded": self.unpadded}


def encoder_of(model) -> Encoder:
    """Returns the encoder of a task model; an encoder is returned as it is."""
    return getattr(model, "encoder", model)
