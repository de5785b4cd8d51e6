"""`LongConfig`: Longformer and BigBird."""

import dataclasses
import reprlib

from keras_bert.config.bert_config import BertConfig, count
from keras_bert.program.options import option

ATTENTION_TYPES = ("block_sparse", "original_full")


@dataclasses.dataclass(frozen=True)
class LongConfig(BertConfig):
    """A `BertConfig` with the fields of Longformer or BigBird, named as in transformers.

        attention_window   Longformer: width of the window around a token, one number or one for each layer; even.
        max_global_tokens  Longformer: the most global tokens in a row. Time and memory are proportional to it at most.
        sep_token_id       Longformer: the separator, which shows where the first text of a pair ends.
        block_size         BigBird: tokens in a block; it divides `max_position_embeddings`.
        num_random_blocks  BigBird: random blocks of each block.
        attention_type     BigBird: `block_sparse`, or `original_full` for BERT's attention in rows of any length.

    Raises:
        InputError: as `BertConfig`, or a window, a block size or an attention type is not valid.

    Example:
        >>> config = BertConfig.from_size("longformer-base", attention_window=64)
        >>> config.windows[:3], config.max_sequence_length
        ((64, 64, 64), 4096)
    """

    attention_window: int | tuple[int, ...] = 512
    max_global_tokens: int = count(256)
    sep_token_id: int = count(2, at_least=0)
    block_size: int = count(64)
    num_random_blocks: int = count(3, at_least=0)
    attention_type: str = option("block_sparse", choices=ATTENTION_TYPES)

    def __post_init__(self):
        if isinstance(self.attention_window, list):
            object.__setattr__(self, "attention_window", tuple(self.attention_window))
        super().__post_init__()
        if self.shares_layers or self.inner_group_num > 1:
            raise self._error("layers cannot share weights (num_hidden_groups, inner_group_num).")
        if self.has_windows:
            self._check_windows()
        elif self.attention_type == "block_sparse":
            self._check_blocks()

    def _check_windows(self):
        widths = self.attention_window if isinstance(self.attention_window, tuple) else (self.attention_window,)
        for width in widths:
            if isinstance(width, bool) or not isinstance(width, int) or width < 1 or width % 2:
                raise self._error(f"attention_window must be even and positive. Received: {reprlib.repr(width)}")
        if isinstance(self.attention_window, tuple) and len(widths) != self.num_hidden_layers:
            raise self._error(
                f"attention_window has {len(widths)} numbers for {self.num_hidden_layers} layers "
                "(num_hidden_layers). Give one number for all layers, or one for each."
            )

    def _check_blocks(self):
        self._check_divisible("max_position_embeddings", "block_size")
        num_blocks = self.max_position_embeddings // self.block_size
        if num_blocks < self.most_full_blocks:
            raise self._error(
                f"max_position_embeddings={self.max_position_embeddings} are {num_blocks} blocks of "
                f"{self.block_size} tokens (block_size), too few for num_random_blocks={self.num_random_blocks}, which "
                f"needs {self.most_full_blocks}. Use smaller blocks, or attention_type='original_full'."
            )

    @property
    def has_windows(self) -> bool:
        """Whether tokens attend to windows and global tokens (Longformer) instead of blocks (BigBird)."""
        return self.model_type == "longformer"

    @property
    def windows(self) -> tuple[int, ...]:
        """The width of the window of each layer."""
        given = self.attention_window
        return given if isinstance(given, tuple) else (given,) * self.num_hidden_layers

    @property
    def most_full_blocks(self) -> int:
        """The largest number of blocks in a row with full attention."""
        return 5 + 2 * self.num_random_blocks

    def has_full_attention(self, length) -> bool:
        """Returns whether rows of this length are known to have full attention; False if the length is None."""
        if self.has_windows or self.attention_type != "block_sparse":
            return not self.has_windows
        return isinstance(length, int) and length <= self.most_full_blocks * self.block_size

    def narrowest(self) -> "LongConfig":
        plain = {"attention_window": 2, "attention_type": "original_full"}
        return super(LongConfig, self.replace(**plain)).narrowest()
