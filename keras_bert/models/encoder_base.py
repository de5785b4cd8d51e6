"""`Encoder`: the contract and the common code of all encoders. Task models use nothing else of an encoder."""

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import keras
from keras import ops

from keras_bert.accelerate.backend import on_tensorflow
from keras_bert.accelerate.block_runner import run_blocks
from keras_bert.config import BertConfig
from keras_bert.layers.choosing import reads_numbers
from keras_bert.layers.gathering import flat_indices_of, vectors_at, vectors_at_flat
from keras_bert.layers.numbered_mask import SequenceNumbers, attention_bias, position_ids
from keras_bert.layers.text_pooling import pool_tokens
from keras_bert.models.base import BertModel
from keras_bert.models.fit_callbacks import verbose_of_thread
from keras_bert.program.errors import InputError
from keras_bert.program.user_inputs import holds_texts, listed_texts
from keras_bert.records import features
from keras_bert.registry import imported

# The capabilities that an encoder can list in `supports`.
SEGMENTS, PACKING, UNPADDING, POOLED_OUTPUT = "segments", "packing", "unpadding", "pooled output"
ATTENTION_SCORES = "attention scores"
PADDING = "padding"  # its vectors are those that transformers computes: it attends to the tokens of its row
# The tokens that can be global in a Longformer, see `Encoder.global_tokens`.
FIRST_TOKEN, FIRST_TEXT, SECOND_TEXT = "first token", "first text", "second text"
# One of the values of `Encoder.unpadded`.
FEW_SHAPES = "few_shapes"


@dataclasses.dataclass(frozen=True, eq=False)
class Tokens:
    """The inputs of an encoder, int32. A family with more inputs adds them in a subclass."""

    ids: Any  # [B, S]
    sequences: Any  # [B, S], the number of each token's sequence in its row; 0 for padding
    segments: Any  # [B, S]; None in models with fewer than two segments
    positions: Any  # [B, S], counted from 0; None in encoders without positions
    cls_positions: Any  # [B, K], the columns where the sequences of packed rows begin; None if rows are not packed
    vectors: Any  # float [B, S, E], used instead of the token embeddings of `ids`, or None


class Encoder(BertModel):
    """Token ids in, one vector for each token and one for each row out.

    `Encoder.from_pretrained(path)` returns the encoder that the checkpoint's family needs, such as a `BertEncoder`.

    Task models read `call`, `vectors_at`, `vectors_at_flat`, `vectors_to_predict`, `token_features`, `pool`,
    `embeddings`, `blocks_in_order` and the attributes below. With `unpadded`, the first three compute without padding.

    A family is a subclass. Its `__init__` makes `embeddings`, `blocks` and, if it supports a pooled output, `pooler`,
    and builds them. It writes what differs in the family:

        read            the inputs, if it takes other features, or another order of columns
        embed           token ids -> the input of the first block
        block_kinds     which blocks get the same inputs, if not all do
        block_inputs    the inputs of the blocks of a kind, besides the vectors
        pooler_inputs   what the pooler reads, if it is not the first token; or `pooled_vectors`; then `first_columns`
        run             all blocks, if something comes before or after them, such as a last LayerNorm

    A block is called as `block(hidden, *block_inputs, query_columns, flat_indices, training=, return_attention=)`, as
    `TransformerBlock` is. Gradients flow to `hidden`, to the block's weights and to `block_inputs` that are
    tensors of floats, also with `gradient_checkpointing`.

    Args:
        config: the config of the encoder.
        output_hidden_states: whether to return the embeddings and the output of every layer.
        output_attentions: whether to return the attention probabilities of every layer.
        unpadded: whether inference computes without padding: the rows of a batch are packed into fewer rows, and the
            vectors are unpacked afterwards. For batches of mixed lengths, on TensorFlow without XLA. `"few_shapes"`
            rounds the number and the length of the packed rows up, as exports do: more padding, but fewer shapes, for
            each of which a long-running process keeps memory (`unpadding.pack_rows`).

    Attributes:
        supports: which of the capabilities above the encoder supports.
        has_positions: whether the encoder uses `position_ids`.
        has_token_head: whether the pooler is a head of all tasks, also of those on tokens; see `token_features`.
        no_attentions: why the encoder cannot return attention probabilities; empty if it can.
        gradient_checkpointing: whether training keeps only the inputs of each block and computes the block again in the
            backward pass: less memory, more time, the same result except for rounding. It is not saved in the config.
        global_tokens: which tokens of a row are global if the encoder has global tokens (Longformer): its first token,
            or all tokens of the first or of the second text of a pair. The task model sets it.
        observer: None, or the object that computes instead of the encoder; see `observed_encoder`.

    Raises:
        InputError: `unpadded` is not one of its values, the encoder or the backend does not support it, the encoder has
            no attention probabilities to return, or the class does not compute the config's family.
    """

    kind = "Encoder"
    supports: Sequence[str] = ()
    has_positions = True
    has_token_head = False
    no_attentions = ""
    gradient_checkpointing: bool
    global_tokens = FIRST_TOKEN
    observer: Any
    embeddings: Any
    blocks: list
    pooler: Any

    def __init__(
        self,
        config: BertConfig,
        *,
        output_hidden_states: bool = False,
        output_attentions: bool = False,
        unpadded: bool | str = False,
        **kwargs: Any,
    ):
        super().__init__(config, **kwargs)
        needed = encoder_class(config)
        if not isinstance(self, needed):
            raise InputError(
                f"{type(self).__name__} does not compute models of the family {config.model_type!r}. Use "
                f"{needed.__name__}, or Encoder.from_pretrained(path)."
            )
        if output_attentions and self.no_attentions:
            raise InputError(
                f"{type(self).__name__} has no output_attentions: {self.no_attentions}. Set output_attentions=False."
            )
        if not self.takes_segments:
            self.supports = tuple(part for part in self.supports if part != SEGMENTS)
        self.output_hidden_states, self.output_attentions = output_hidden_states, output_attentions
        self.unpadded = unpadded
        # Attributes of the object from the start, since `traced_functions` compares all of these.
        self.gradient_checkpointing, self.observer = False, None

    def encode(self, inputs: Any, training: bool = False) -> dict:
        """Returns all outputs; see `call` of the encoder."""
        tokens = self.read(inputs)
        states, attentions = self.run(tokens, training=training)
        outputs = {"sequence_output": states[-1]}
        if POOLED_OUTPUT in self.supports:
            outputs["pooled_output"] = self.pooled_vectors(states[-1], tokens, training)
        if self.output_hidden_states:
            outputs["hidden_states"] = states
        if self.output_attentions:
            outputs["attentions"] = attentions
        return outputs

    def encode_at(self, inputs: Any, columns: Any = None, training: bool = False) -> dict:
        """Returns the outputs for selected columns; see `vectors_at`."""
        tokens = self.read(inputs)
        columns = None if columns is None else ops.cast(columns, "int32")
        if POOLED_OUTPUT not in self.supports:
            return {"sequence_output": self.run(tokens, query_columns=columns, training=training)[0][-1]}
        first = self.first_columns(tokens)
        if first is None:  # the pooler reads all tokens
            vectors = self.run(tokens, training=training)[0][-1]
            outputs = {"pooled_output": self.pooled_vectors(vectors, tokens, training)}
            return outputs if columns is None else outputs | {"sequence_output": vectors_at(vectors, columns)}
        selected = first if columns is None else ops.concatenate([first, columns], axis=1)
        vectors = self.run(tokens, query_columns=selected, training=training)[0][-1]
        num_first = ops.shape(first)[1]
        first_vectors = vectors[:, 0] if tokens.cls_positions is None else vectors[:, :num_first]
        outputs = {"pooled_output": self.pooler(first_vectors, training=training)}
        return outputs if columns is None else outputs | {"sequence_output": vectors[:, num_first:]}

    def read(self, inputs: Any) -> Tokens:
        """Returns the tokens of a dictionary of features."""

        def given(name):
            return ops.cast(inputs[name], "int32") if name in inputs else None

        sequences, positions = given(features.INPUT_MASK), None
        if self.has_positions:
            positions = given(features.POSITION_IDS)
            positions = self.positions_of(sequences) if positions is None else positions
        return Tokens(
            ids=given(features.INPUT_IDS),
            sequences=sequences,
            segments=given(features.SEGMENT_IDS) if self.takes_segments else None,
            positions=positions,
            cls_positions=given(features.CLS_POSITIONS),
            vectors=inputs.get(features.TOKEN_VECTORS),
        )

    def embed(self, tokens: Any, training: bool) -> Any:
        """Returns the input of the first block, `[B, S, H]`."""
        return self.embeddings(tokens.ids, training=training, token_vectors=tokens.vectors)

    def blocks_in_order(self) -> list:
        """Returns the blocks in the order of computation. A block that runs twice is listed twice."""
        return list(self.blocks)

    def block_kinds(self, tokens: Any) -> Sequence[Hashable]:
        """Returns the kind of each block. Blocks of the same kind get the same inputs, which are computed once."""
        return [None] * len(self.blocks_in_order())

    def block_inputs(self, tokens: Any, kind: Hashable, query_columns: Any = None, training: bool = False) -> tuple:
        """Returns the inputs after `hidden` of the blocks of a kind.

        `query_columns`, int `[B, F]`, are the columns of the tokens that attend; by default all do.
        """
        query_mask = None if query_columns is None else ops.take_along_axis(tokens.sequences, query_columns, axis=1)
        if not self.output_attentions and reads_numbers(self.blocks[0], tokens.sequences.shape[1], training):
            return (SequenceNumbers(query_mask, tokens.sequences),)
        return (attention_bias(tokens.sequences, query_mask=query_mask),)

    def takes_query_columns(self, tokens: Any) -> bool:
        """Returns whether the attention of the last block can run for `query_columns` only. If not, it runs for all
        tokens, and the layers after it for the selected ones."""
        return True

    def run(
        self, tokens: Any, query_columns: Any = None, flat_indices: Any = None, training: bool = False
    ) -> tuple[list, list]:
        """Runs all blocks; the last one only for selected tokens if there are `query_columns` or `flat_indices`.

        Args:
            query_columns: int32 `[B, F]`, the columns of the selected tokens.
            flat_indices: int32 `[T]`, indices into the B * S tokens, instead of `query_columns`.

        Returns:
            the vectors `[B, S, H]` of the embeddings and of all layers, and the attentions of all layers. The last
            vectors, which alone are needed without `output_hidden_states`, are `[B, F, H]` or `[T, H]` if tokens are
            selected.
        """
        hidden, kinds = self.embed(tokens, training), self.block_kinds(tokens)
        of_kinds = {kind: self.block_inputs(tokens, kind, training=training) for kind in dict.fromkeys(kinds)}
        inputs, selected_shape = [of_kinds[kind] for kind in kinds], None
        if query_columns is not None and self.takes_query_columns(tokens):
            of_queries = self.block_inputs(tokens, kinds[-1], query_columns, training=training)
            inputs[-1] = (*of_queries, query_columns)
        elif query_columns is not None:
            selected_shape = (*ops.shape(query_columns), self.config.hidden_size)
            flat_indices = ops.reshape(flat_indices_of(query_columns, tokens.ids), (-1,))
        if flat_indices is not None:
            inputs[-1] = (*inputs[-1], None, flat_indices)
        states, attentions = run_blocks(
            self.blocks_in_order(), hidden, inputs, training, self.gradient_checkpointing, self.output_attentions
        )
        if selected_shape is not None:
            states[-1] = ops.reshape(states[-1], selected_shape)
        return states, attentions

    def first_columns(self, tokens: Any) -> Any:
        """Returns the columns of the tokens that the pooler reads, int `[B, K]`; None if it reads all tokens."""
        if tokens.cls_positions is not None:
            return tokens.cls_positions
        return ops.zeros((ops.shape(tokens.ids)[0], 1), "int32")

    def pooler_inputs(self, hidden: Any, tokens: Any) -> Any:
        """Returns what the pooler reads of the vectors of all tokens: `[B, S, H]` -> `[B, H]`, for packed rows
        `[B, K, H]`. By default it is the vector of the first token."""
        return hidden[:, 0] if tokens.cls_positions is None else vectors_at(hidden, tokens.cls_positions)

    def pooled_vectors(self, hidden: Any, tokens: Any, training: bool) -> Any:
        """Returns the pooled output: `[B, S, H]` -> `[B, H]`, for packed rows `[B, K, H]`."""
        return self.pooler(self.pooler_inputs(hidden, tokens), training=training)

    def token_features(self, vectors: Any, training: bool = False) -> Any:
        """Returns what the last layer of a task on tokens reads: `[..., H]`, from the head if `has_token_head`."""
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
        flat_indices = ops.cast(flat_indices, "int32")
        return self.run(self.read(inputs), flat_indices=flat_indices, training=training)[0][-1]

    def vectors_to_predict(self, inputs: Any, columns: Any, head: Any, training: bool = False) -> dict[str, Any]:
        """As `vectors_at`, for tokens that `head` predicts. With a second stream, they do not know the tokens."""
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

    def predict(
        self,
        x: Any,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """Returns the outputs of `call` for features, as `keras.Model.predict` does.

        Args:
            x: features, as for `call`, or batches of them. For texts use `keras_bert.sentence_embeddings`.
            batch_size: rows computed at once, 32 by default.
            verbose: 0 shows no progress.
            steps: the number of batches; None for all.
            callbacks: Keras callbacks; their `on_predict_...` methods are called.

        Raises:
            InputError: `x` has texts, or the features do not fit the model.
        """
        x = listed_texts(x)
        if holds_texts(x):
            raise InputError(
                f"{type(self).__name__}.predict takes features. Received: texts. Use "
                "keras_bert.sentence_embeddings(encoder, texts) for texts."
            )
        return super().predict(x, batch_size, verbose_of_thread(verbose), steps, callbacks)

    def get_config(self) -> dict[str, Any]:
        names = ("unpadded", "output_hidden_states", "output_attentions")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


def encoder_class(config: BertConfig) -> type:
    """Returns the encoder class of the config's family, see `registry.Family.encoder`."""
    return imported(config.family.encoder)


def make_encoder(config: BertConfig, tables_of: Any = None, **arguments: Any) -> Encoder:
    """Returns a new `Encoder` of the config's family. Only a `BertEncoder` takes `tables_of`."""
    if config.is_language_model:
        raise InputError(
            "A Transformer-XL reads a text from left to right, so it is no encoder for tasks. Use "
            "TransformerXL.from_pretrained, or a checkpoint of another family."
        )
    shared = {} if tables_of is None else {"tables_of": tables_of}
    return encoder_class(config)(config, **shared, **arguments)


def encoder_of(model) -> Encoder:
    """Returns the encoder of a task model; an encoder is returned as it is."""
    return getattr(model, "encoder", model)
