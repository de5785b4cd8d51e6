"""Changes the number of positions, tokens and layers of checkpoints."""

import os
import re
from collections.abc import Sequence

import numpy as np

from keras_bert.checkpoints.checkpoint import (
    DECODER,
    ENCODER,
    EXTRA_OUTPUT_EMBEDDINGS,
    OUTPUT_BIAS,
    OUTPUT_EMBEDDINGS,
    POSITION_EMBEDDINGS,
    TOKEN_EMBEDDINGS,
    BertCheckpoint,
)
from keras_bert.checkpoints.weight_list import encoder_shapes
from keras_bert.config import BertConfig
from keras_bert.program.errors import InputError
from keras_bert.registry import families, task_of
from keras_bert.tokenization.added_tokens import AddedToken
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

# A decoder with weights of its own has these tables too.
_DECODER_TOKENS, _DECODER_POSITIONS = (
    name.replace(ENCODER, DECODER, 1) for name in (TOKEN_EMBEDDINGS, POSITION_EMBEDDINGS)
)
_LAYER = re.compile(r"(.*/layer_)(\d+)(/.*)")


def resized(
    checkpoint: BertCheckpoint,
    max_position_embeddings: int | None = None,
    new_tokens: Sequence[str] = (),
    keep_layers: Sequence[int] | None = None,
) -> BertCheckpoint:
    """Returns the checkpoint with another number of positions, more tokens, or fewer layers."""
    if keep_layers is not None:
        checkpoint = with_layers(checkpoint, keep_layers)
    if max_position_embeddings is not None and max_position_embeddings != checkpoint.config.max_position_embeddings:
        checkpoint = with_positions(checkpoint, max_position_embeddings)
    return with_new_tokens(checkpoint, new_tokens) if new_tokens else checkpoint


def read_new_tokens(path: str | os.PathLike) -> list[str]:
    """Returns the tokens of a file with one token per line. Blank lines are skipped."""
    try:
        with open(path, encoding="utf-8") as file:
            return [line.strip() for line in file if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read the tokens in {os.fspath(path)}: {error}.") from None


def with_positions(checkpoint: BertCheckpoint, count: int) -> BertCheckpoint:
    """Returns the checkpoint with `count` positions. A longer table repeats the existing rows from the first on.

    Repetition preserves what is learnt about neighbouring positions (Beltagy et al., 2020, Longformer, section 5).
    """
    if POSITION_EMBEDDINGS not in checkpoint.tensors:
        raise InputError(f"{checkpoint.path} has no table of positions. Leave out max_position_embeddings.")
    config = checkpoint.config.replace(max_position_embeddings=count)
    offset = config.position_offset  # the rows before the first position are kept
    tables = {
        name: checkpoint.tensors[name].changed(
            (count, config.embedding_size),
            lambda rows: rows[np.r_[:offset, offset + np.arange(count - offset) % (len(rows) - offset)]],
        )
        for name in (POSITION_EMBEDDINGS, _DECODER_POSITIONS)
        if name in checkpoint.tensors
    }
    return checkpoint.replace(config=config, tensors={**checkpoint.tensors, **tables})


def extended_to_long_rows(checkpoint: BertCheckpoint, max_positions: int) -> BertCheckpoint:
    """Returns a RoBERTa as a Longformer, or a BERT as a BigBird, for rows of up to `max_positions` tokens.

    The position table repeats its rows. Global tokens get copies of the query, key and value projections. In rows of
    at most half of Longformer's window plus one token, or of at most 11 of BigBird's blocks, the model computes the
    same as the original. Pre-train it on long rows before you use it.

    Args:
        checkpoint: a RoBERTa or a BERT.
        max_positions: tokens in the longest row: a multiple of `block_size` for a BigBird.

    Raises:
        InputError: the checkpoint is of another family, or `max_positions` does not fit.

    Reference: Beltagy et al., 2020, section 5; Zaheer et al., 2020, section 4.
    """
    old = checkpoint.config
    extending = {entry.extends: name for name, entry in families(has=lambda entry: entry.extends).items()}
    family = extending.get(old.model_type)
    if family is None:
        raise InputError(
            f"{checkpoint.path}: a model of the family {old.model_type} cannot be extended to long rows. Use one of: "
            f"{', '.join(extending)}; or max_position_embeddings, which only repeats the position table."
        )
    if max_positions <= old.max_sequence_length:
        raise InputError(
            f"max_positions must be above the {old.max_sequence_length} positions of {checkpoint.path}. Received: "
            f"{max_positions}"
        )
    checkpoint = with_positions(checkpoint, max_positions + old.position_offset)
    try:
        config = BertConfig.from_dict({**checkpoint.config.to_dict(), "model_type": family})
    except InputError as error:
        raise InputError(f"{checkpoint.path} cannot get {max_positions} positions. {error}") from None
    tensors = dict(checkpoint.tensors)
    for name in encoder_shapes(config):
        if "_global/" in name:
            tensors[name] = tensors[name.replace("_global/", "/")]
    # An encoder gets the class of its new family.
    entry = task_of(checkpoint.model_class)
    model_class = checkpoint.model_class if checkpoint.heads or (entry and entry.model) else None
    return checkpoint.replace(config=config, tensors=tensors, model_class=model_class)


def with_layers(checkpoint: BertCheckpoint, keep: Sequence[int]) -> BertCheckpoint:
    """Returns the checkpoint with the layers `keep`, renumbered in the given order.

    Raises:
        InputError: a layer does not exist, `keep` is empty, layers share weights, or a kept layer of ModernBERT would
            have another kind of attention than before.

    Reference: Sanh et al., 2019 (DistilBERT), section 3, which starts with every second layer of the teacher.
    """
    keep, count = [int(number) for number in keep], checkpoint.config.num_hidden_layers
    if checkpoint.config.shares_layers or checkpoint.config.inner_group_num > 1:
        raise InputError(
            f"{checkpoint.path}: keep_layers needs layers that do not share weights. Received: {count} layers in "
            f"{checkpoint.config.num_hidden_groups} groups that share weights (num_hidden_groups)."
        )
    if not keep or not all(0 <= number < count for number in keep):
        raise InputError(f"keep_layers must be one or more numbers from 0 to {count - 1}. Received: {list(keep)}")
    changes = {"num_hidden_layers": len(keep)}
    windows = getattr(checkpoint.config, "attention_window", None)
    if isinstance(windows, tuple):
        changes["attention_window"] = [windows[number] for number in keep]
    config = checkpoint.config.replace(**changes)
    kinds = getattr(config, "layer_kinds", None)
    if kinds and (keep[0] or 0 in keep[1:] or [checkpoint.config.layer_kinds[number] for number in keep] != [*kinds]):
        raise InputError(
            f"{checkpoint.path}: keep_layers must begin with layer 0, which differs from the others, and keep "
            f"the order of global and local layers: {', '.join(kinds)}. Received: {keep}"
        )
    tensors = {}
    for name, tensor in checkpoint.tensors.items():
        match = _LAYER.fullmatch(name)
        if match is None:
            tensors[name] = tensor
            continue
        for place, number in enumerate(keep):
            if number == int(match[2]):
                tensors[f"{match[1]}{place}{match[3]}"] = tensor
    return checkpoint.replace(config=config, tensors=tensors)


def with_new_tokens(checkpoint: BertCheckpoint, tokens: Sequence[str]) -> BertCheckpoint:
    """Returns the checkpoint with more tokens. Each embedding starts as the mean of the token's current pieces.

    A token that words are never cut into, such as "[E1]" or "co-vid", becomes an added token: it is found in a text as
    a whole. So does "Zed" with lower case, which then matches "zed" too.

    Raises:
        InputError: there is no WordPiece vocabulary, it already has one of the tokens, or a token can match no text.
    """
    old = checkpoint.tokenizer
    if old is None:
        raise InputError(f"{checkpoint.path} has no vocabulary, so no tokens can be added to it.")
    if not isinstance(old, WordPieceTokenizer):
        raise InputError(
            f"{checkpoint.path} has no WordPiece vocabulary. Tokens can be added to WordPiece vocabularies only, since "
            "other kinds need merges or scores for new tokens."
        )
    known = [token for number, token in enumerate(tokens) if token in old.ids or token in tokens[:number]]
    if known:
        raise InputError(
            f"{checkpoint.path}: the vocabulary already has {', '.join(known[:5])}. Leave these out of new_tokens."
        )
    tokenizer = _with_tokens(old, tokens)
    pieces = [old.encode(token.removeprefix("##")) or [old.unk_id] for token in tokens]

    def extended(table: np.ndarray) -> np.ndarray:
        rows = [table[ids].astype("float32").mean(axis=0) for ids in pieces]
        return np.concatenate([table, np.asarray(rows).astype(table.dtype)])

    tensors = dict(checkpoint.tensors)
    for name in (TOKEN_EMBEDDINGS, _DECODER_TOKENS, OUTPUT_BIAS, OUTPUT_EMBEDDINGS, EXTRA_OUTPUT_EMBEDDINGS):
        if name in tensors:
            tensors[name] = tensors[name].changed((len(tokenizer), *tensors[name].shape[1:]), extended)
    config = checkpoint.config.replace(vocab_size=len(tokenizer))
    return checkpoint.replace(config=config, tokenizer=tokenizer, tensors=tensors)


def _with_tokens(old: WordPieceTokenizer, tokens: Sequence[str]) -> WordPieceTokenizer:
    """Returns the tokenizer with more tokens. Those that words are never cut into become added tokens."""
    extended = old.replace(tokens=(*old.tokens, *tokens))
    unreachable = [token for token in tokens if extended.tokenize(token.removeprefix("##")) != [token]]
    inner = [token for token in unreachable if token.startswith("##")]
    wrong = next((token for token in inner if extended.words(token[2:]) != [token[2:]]), None)
    if wrong:
        raise InputError(f"The new token {wrong!r:.100} is in no text after its normalisation. Leave it out.")
    added = [AddedToken(token) for token in unreachable if token not in inner]
    return extended.replace(added_tokens=(*old.added_tokens, *added))
