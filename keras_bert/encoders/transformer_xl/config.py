"""`TransformerXLConfig`: Transformer-XL."""

import dataclasses
import reprlib
from typing import NamedTuple

from keras_bert.config.bert_config import BertConfig, count

# Fields of BertConfig that Transformer-XL has no use for -> their only value.
_FIXED = {"type_vocab_size": 0, "position_offset": 0, "inner_group_num": 1, "tie_word_embeddings": True}
# Limits for files from strangers.
_MOST_CUTOFFS = 8  # the smallest model with these names is 2 ** cutoffs wide
_LONGEST_MEMORY = 16_384


class Cluster(NamedTuple):
    """A range of token ids with tables of its own."""

    start: int  # its first id
    size: int  # the number of its ids
    width: int  # the width of its token embeddings
    is_projected: bool  # whether a matrix turns these into vectors of `hidden_size` numbers
    is_tied: bool  # whether the softmax has that matrix too, instead of one of its own


@dataclasses.dataclass(frozen=True)
class TransformerXLConfig(BertConfig):
    """A `BertConfig` with the fields of Transformer-XL that it lacks, named as in kimiyoung/transformer-xl.

        mem_len        number of vectors of each layer that the next segment attends to.
        clamp_len      longer distances between tokens count as this one; -1: there is no limit.
        same_length    whether all tokens attend to the same number of tokens: themselves and the `mem_len - 1` before.
        cutoffs        the first ids of the second, third, ... cluster of the vocabulary; none: the softmax is plain.
        div_val        each cluster has narrower embeddings than the one before, by this factor.
        proj_same_dim  whether embeddings of the width of the layers are projected too.
        tie_projs      for each cluster, whether softmax and embeddings share the projection. None: all but the first.

    There is no table of positions: `max_position_embeddings` is the longest segment.

    Raises:
        InputError: as `BertConfig`, or one of these fields is not valid: cutoffs that do not rise, for example.

    Example:
        >>> config = BertConfig.from_size("transformer-xl-enwik8")
        >>> config.hidden_size, config.mem_len, len(config.clusters)
        (512, 512, 1)

    Reference: Dai et al., 2019, arXiv 1901.02860; Grave et al., 2016, arXiv 1609.04309, for the clusters; Baevski and
    Auli, 2018, arXiv 1809.10853, for `div_val`; kimiyoung/transformer-xl `tf/model.py`.
    """

    mem_len: int = count(0, at_least=0, at_most=_LONGEST_MEMORY)
    clamp_len: int = count(-1, at_least=-1)
    same_length: bool = False
    cutoffs: tuple[int, ...] = ()
    div_val: int = count(1)
    proj_same_dim: bool = False
    tie_projs: tuple[bool, ...] | None = None

    def __post_init__(self):
        super().__post_init__()
        self._check_cutoffs()
        if self.clamp_len == 0:
            raise self._error("clamp_len must be positive, or -1 for no limit. Received: 0")
        if self.same_length and not self.mem_len:
            raise self._error("same_length counts the mem_len tokens before a token, so mem_len must be above 0.")
        if self.hidden_size % 2:
            raise self._error(f"hidden_size must be even for vectors of distances. Received: {self.hidden_size}")
        if self.embedding_size < self.div_val ** len(self.cutoffs):
            raise self._error(
                f"embedding_size={self.embedding_size} divided by div_val={self.div_val} for each of "
                f"{len(self.cutoffs)} cutoffs leaves nothing. Use wider embeddings or fewer cutoffs."
            )
        if self.div_val == 1 and self.embedding_size != self.hidden_size:
            raise self._error(
                f"With div_val=1, embedding_size must be hidden_size={self.hidden_size}. Received: "
                f"{self.embedding_size}"
            )
        fixed = _FIXED | {"num_hidden_groups": self.num_hidden_layers}
        self._check_fixed("Transformer-XL", fixed)

    def _check_cutoffs(self) -> None:
        for name in ("cutoffs", "tie_projs"):
            value = getattr(self, name)
            if isinstance(value, list):  # as JSON has it
                object.__setattr__(self, name, tuple(value))
            elif value is not None and not isinstance(value, tuple):
                raise self._error(f"{name} must be a list. Received: {reprlib.repr(value)}")
        ids = (0, *self.cutoffs, self.vocab_size)
        if list(ids) != sorted(set(ids)):
            raise self._error(
                f"cutoffs must be whole numbers that rise, above 0 and below vocab_size={self.vocab_size}. Received: "
                f"{reprlib.repr(self.cutoffs)}"
            )
        if len(self.cutoffs) > _MOST_CUTOFFS:
            raise self._error(f"There may be at most {_MOST_CUTOFFS} cutoffs. Received: {len(self.cutoffs)}")
        tied = (False,) + (True,) * len(self.cutoffs)
        if self.tie_projs is None:
            object.__setattr__(self, "tie_projs", tied)
        elif len(self.tie_projs) != len(tied) or not all(isinstance(one, bool) for one in self.tie_projs):
            raise self._error(
                f"tie_projs must have true or false for each of the {len(tied)} clusters. Received: "
                f"{reprlib.repr(self.tie_projs)}"
            )

    @property
    def clusters(self) -> list[Cluster]:
        """The clusters of the vocabulary, at least one."""
        starts, found = (0, *self.cutoffs, self.vocab_size), []
        for number, start in enumerate(starts[:-1]):
            width = self.embedding_size // self.div_val**number
            is_projected = self.proj_same_dim or width != self.hidden_size
            size, is_tied = starts[number + 1] - start, is_projected and self.tie_projs[number]
            found.append(Cluster(start, size, width, is_projected, is_tied))
        return found

    @property
    def longest_distance(self) -> int | None:
        """The largest distance between tokens that is told from longer ones; None: there is no limit."""
        return None if self.clamp_len < 0 else self.clamp_len

    def narrowest(self) -> "TransformerXLConfig":
        num_tails = len(self.cutoffs)
        div_val = min(self.div_val, 2)
        width = 2 if div_val == 1 else 2 ** max(num_tails, 1)
        return self.replace(
            vocab_size=num_tails + 1,
            cutoffs=tuple(range(1, num_tails + 1)),
            div_val=div_val,
            hidden_size=width if self.embedding_size == self.hidden_size else 2 * width,
            embedding_size=width,
            embedding_projection=None,
            num_attention_heads=1,
            num_hidden_layers=min(self.num_hidden_layers, 2),
            num_hidden_groups=None,
            intermediate_size=1,
            max_position_embeddings=1,
            mem_len=1,
        )
