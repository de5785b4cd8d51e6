"""SentencePiece's model file: its pieces, and the rules that normalise texts.

Model files may come from strangers, but the library trusts them. So everything that could make the library read outside
its memory or run forever is checked here first.

Reference: google/sentencepiece, `src/sentencepiece_model.proto` and `src/normalizer.cc`. The rules are a double array
in the format of s-yata/darts-clone.
"""

import dataclasses
import functools
import math
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from keras_bert.program.errors import InputError
from keras_bert.tokenization import unicode_table
from keras_bert.tokenization.unicode_table import WHITE_SPACE

# Types of pieces.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED = 1, 2, 3, 4, 5
_UNIGRAM, _BPE = 1, 2

# The fields that are used here; protobuf keeps the others as they are. sentencepiece has all of them in
# `sentencepiece_model_pb2`, but that module does not import with protobuf 6, which Apache Beam needs.
_PROTO = """
name: "keras_bert/sentence_piece_model.proto"
package: "keras_bert"
message_type {
  name: "Piece"
  field { name: "text" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "score" number: 2 label: LABEL_OPTIONAL type: TYPE_FLOAT }
  field { name: "type" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "1" }
}
message_type {
  name: "Trainer"
  field { name: "model_type" number: 3 label: LABEL_OPTIONAL type: TYPE_INT32 default_value: "1" }
  field { name: "treat_whitespace_as_suffix" number: 24 label: LABEL_OPTIONAL type: TYPE_BOOL }
  field { name: "byte_fallback" number: 35 label: LABEL_OPTIONAL type: TYPE_BOOL }
}
message_type {
  name: "Normalizer"
  field { name: "name" number: 1 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "precompiled_charsmap" number: 2 label: LABEL_OPTIONAL type: TYPE_BYTES }
  field { name: "remove_extra_whitespaces" number: 4 label: LABEL_OPTIONAL type: TYPE_BOOL }
}
message_type {
  name: "Model"
  field { name: "pieces" number: 1 label: LABEL_REPEATED type: TYPE_MESSAGE type_name: "Piece" }
  field { name: "trainer_spec" number: 2 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Trainer" }
  field { name: "normalizer_spec" number: 3 label: LABEL_OPTIONAL type: TYPE_MESSAGE type_name: "Normalizer" }
}
"""

_MOST_PIECES = 1 << 20
_LONGEST_PIECE = 512  # bytes; the longest of BigBird has 256
_LARGEST_RULES = 1 << 22  # bytes; those of NFKC have 237,539
_LONGEST_RESULT = 255  # bytes of one rule's result; the longest of NFKC has 33
_LONGEST_SOURCE = 64  # bytes that a rule replaces; at most 12 in published models
_MOST_PATHS = 1 << 19  # beginnings of rules; those of NFKC have 262,073
_MOST_LETTERS = 1 << 24  # bytes of all rules; those of NFKC have 2.6 million
_RULES_AT_ONCE = 1000
# Each piece begins with this byte, and so does its text. Others may be in it too.
_PIECE_BEGINS, _MOST_BEGINNINGS = b"\n", 4 * _MOST_PIECES
# The name of the rules in models whose texts pass `SPACE_STEPS` first, and a character of one byte that they remove.
_OWN_SPACES, _FILLER = b"keras_bert_spaces", "\x1f"


class Piece(NamedTuple):
    """A token: its text, with ▁ for a space, its score and its type."""

    text: str
    score: float
    type: int


@dataclasses.dataclass(frozen=True)
class SentencePieceModel:
    """The content of a model file.

    Attributes:
        pieces: the tokens, in the order of their ids.
        rules: the compiled rules that normalise texts (`precompiled_charsmap`); empty if there are none.
        trainer: the field `trainer_spec`, as stored.
        normalizer: the field `normalizer_spec` without the rules, as stored.
    """

    pieces: tuple[Piece, ...]
    rules: bytes
    trainer: bytes = b""
    normalizer: bytes = b""

    @classmethod
    def from_bytes(cls, data: bytes) -> "SentencePieceModel":
        """Reads a model file. Raises `InputError`, without its name, if it is damaged, too large or not supported."""
        from google.protobuf.message import DecodeError

        model = _message("Model")
        try:
            if data.count(_PIECE_BEGINS) > _MOST_BEGINNINGS:
                raise ValueError(f"it has more than {_MOST_PIECES:,} pieces")
            model.ParseFromString(data)
            first = model.pieces[: _MOST_PIECES + 1]
            pieces = [Piece(piece.text.decode(), piece.score, piece.type) for piece in first]
        except (DecodeError, ValueError) as error:
            raise InputError(
                f"This is not a SentencePiece model, or it is damaged ({error}). A spiece.model was expected."
            ) from None
        rules = model.normalizer_spec.precompiled_charsmap
        model.normalizer_spec.ClearField("precompiled_charsmap")
        _check_kind(model.trainer_spec)
        _check_pieces(pieces)
        check_rules(rules)
        kept = (part.SerializeToString() for part in (model.trainer_spec, model.normalizer_spec))
        return cls(tuple(pieces), rules, *kept)

    @property
    def is_unigram(self) -> bool:
        """Whether the model divides words by the probabilities of their pieces, instead of by merges."""
        return _message("Trainer", self.trainer).model_type == _UNIGRAM

    @property
    def space_steps(self) -> tuple[tuple[str, str], ...]:
        """What is to be replaced in a text before the model sees it: regular expressions and their replacements."""
        return SPACE_STEPS if _message("Normalizer", self.normalizer).name == _OWN_SPACES else ()

    def to_bytes(self) -> bytes:
        """Returns the content of a model file."""
        model = _message("Model")
        for piece in self.pieces:
            model.pieces.add(text=piece.text.encode(), score=piece.score, type=piece.type)
        model.trainer_spec.ParseFromString(self.trainer)
        model.normalizer_spec.ParseFromString(self.normalizer)
        if self.rules:
            model.normalizer_spec.precompiled_charsmap = self.rules
        return model.SerializeToString()

    def prepared(self, lower_case: bool, keep_accents: bool = False) -> "SentencePieceModel":
        """Returns a model that prepares texts as ALBERT and XLNet do, before it applies its own rules.

        The steps are: `` and '' become ", white space becomes spaces, NFKD, marks are removed, lower case. They are
        added to the model's rules, so that one pass normalises a text and tracks the source of each token. A rule sees
        only a few characters. So a capital sigma at the end of a word becomes σ, and letters that Unicode would compose
        stay separate if a mark between them was removed. With `keep_accents`, lower case is the only step.

        Reference: google-research/albert, `tokenization.preprocess_text`; zihangdai/xlnet,
        `prepro_utils.preprocess_text`.
        """
        from sentencepiece import SentencePieceNormalizer

        # The pieces do not matter.
        normalizer = SentencePieceNormalizer(
            model_proto=dataclasses.replace(self, pieces=self.pieces[:1]).to_bytes(),
            add_dummy_prefix=False,
            escape_whitespaces=False,
            remove_extra_whitespaces=False,
        )
        rules = dict(normalizer.decompile()) if self.rules else {}
        plain_texts = {source: plain(source, lower_case, keep_accents) for source in rules}
        plain_texts |= _plain_characters(lower_case, keep_accents)
        # These rules already decompose, so only the other changes of `plain` are added.
        changed = {
            source: text
            for source, text in plain_texts.items()
            if source not in rules or text != (source if keep_accents else _decomposed(source))
        }
        rules |= zip(changed, _normalized(normalizer, list(changed.values())), strict=True)
        return dataclasses.replace(self, rules=compiled(rules))


def compiled(rules: Mapping[str, str]) -> bytes:
    """Returns the rules that replace texts by others, in the form of a model file."""
    from sentencepiece import SentencePieceNormalizer, set_min_log_level

    set_min_log_level(1)  # hides the message that rules are compiled
    built = SentencePieceNormalizer(norm_map=[rule for rule in rules.items() if rule[0] != rule[1]])
    data = _message("Model", built.serialized_model_proto()).normalizer_spec.precompiled_charsmap
    check_rules(data)
    return data


@functools.cache
def composing_rules(keeps_spaces: bool) -> bytes:
    """Returns rules that compose letters as NFC does. Unless spaces are kept, white space and ▁ become spaces."""
    from sentencepiece import SentencePieceNormalizer

    rules = dict(SentencePieceNormalizer(rule_name="nfkc").decompile())
    rules = {source: text for source, text in rules.items() if unicodedata.normalize("NFC", source) == text}
    if keeps_spaces:
        return compiled(rules | {_FILLER: "", "\u2000": "\u2002", "\u2001": "\u2003"})
    return compiled(rules | dict.fromkeys(["▁", *map(chr, WHITE_SPACE)], " "))


def _space_steps() -> tuple[tuple[str, str], ...]:
    r"""Returns the steps with which tokenizers' Replace "\s{2,}|[\n\r\t]" by " ", Strip at the end, and Metaspace treat
    spaces, as replacements by as many bytes, so that the places of all tokens stay.

    White space of another kind than " ", \t, \n and \r stays if it is alone. A ▁ stays, but at the beginning of a text
    it is the one that stands in front of every text.
    """
    space, other = "".join(map(chr, sorted(WHITE_SPACE))), sorted(WHITE_SPACE - {*map(ord, " \t\n\r")})
    of_size = {size: "".join(chr(n) for n in other if len(chr(n).encode()) == size) for size in (1, 2, 3)}
    classes = [(f"[{characters}]", " " * size) for size, characters in of_size.items()]
    return (
        (_FILLER, "\x1e"),
        ("[\t\n\r]", " "),
        (f"[{space}]+$", ""),
        # Of white space that touches other white space every second character, then the others.
        *((f"([{space}]){those}", rf"\1{spaces}") for those, spaces in classes),
        *((f" {those}", f" {spaces}") for those, spaces in classes),
        *((f"{those} ", f"{spaces} ") for those, spaces in classes),
        *[(f"([ {_FILLER}]) ", rf"\1{_FILLER}")] * 2,  # of several spaces the first stays
        ("^ ", _FILLER),
        ("^▁", _FILLER * 3),
    )


def plain(text: str, lower_case: bool = True, keep_accents: bool = False) -> str:
    """Returns a text as ALBERT reads it: "``Émile''" -> '"emile"'. Without lower case, as XLNet does: '"Emile"'."""
    if keep_accents:
        return text.lower() if lower_case else text
    text = text.replace("``", '"').replace("''", '"')
    decomposed = _decomposed("".join(" " if character.isspace() else character for character in text))
    letters = (letter for letter in decomposed if not unicodedata.combining(letter))
    return "".join(letter.lower() if lower_case else letter for letter in letters)


def _normalized(normalizer, texts: list[str]) -> Iterator[str]:
    """Yields the texts as the rules of a model change them. Raises `InputError` if they become too long."""
    num_letters = 0
    for first in range(0, len(texts), _RULES_AT_ONCE):
        results = normalizer.normalize(texts[first : first + _RULES_AT_ONCE])
        num_letters += sum(map(len, results))
        if num_letters > _MOST_LETTERS:
            raise _damaged(f"its rules would have more than {_MOST_LETTERS:,} bytes in plain letters")
        yield from results


def _decomposed(text: str) -> str:
    return unicodedata.normalize("NFKD", text)


@functools.cache
def _plain_characters(lower_case: bool, keep_accents: bool) -> Mapping[str, str]:
    """Returns the characters of Unicode 14.0 and the quotes that `plain` changes, with their replacements."""
    unassigned = {
        point for first, last in unicode_table.unassigned_ranges() for point in range(first, min(last, 0xFFFF) + 1)
    }
    changed = {} if keep_accents else {"``": '"', "''": '"'}
    for point in range(0x110000):
        # Ideographs, Hangul syllables, surrogates and private use do not change.
        if 0x3400 <= point <= 0xA000 or 0xAC00 <= point < 0xF900 or point >= 0x20000 or point in unassigned:
            continue
        character = chr(point)
        if (text := plain(character, lower_case, keep_accents)) != character:
            changed[character] = text
    return changed


def check_rules(rules: bytes) -> None:
    """Raises `InputError` if a lookup could leave the array of the rules, or they or their results are too long.

    The rules are the states of an automaton over bytes: a double array of 32-bit units, followed by the results, each
    ended by a zero byte.
    """
    if not rules:
        return
    size = int.from_bytes(rules[:4], "little")
    if len(rules) > _LARGEST_RULES or size % 4 or not 4 <= size <= len(rules) - 4:
        raise _damaged(f"{len(rules):,} bytes with an array of {size:,}")
    units = np.frombuffer(rules, "<u4", size // 4, 4)
    results = np.frombuffer(rules, np.uint8, offset=4 + size)
    ends = np.flatnonzero(results == 0)
    if not len(results) or results[-1] or np.diff(ends, prepend=-1).max() > _LONGEST_RESULT + 1:
        raise _damaged(f"a result does not end, or has more than {_LONGEST_RESULT} bytes")
    try:
        results.tobytes().decode()
    except UnicodeDecodeError:
        raise _damaged("a result is not UTF-8") from None
    _check_paths(units, results)


def _check_paths(units: np.ndarray, results: np.ndarray) -> None:
    """Follows all paths of the automaton at the same time, one byte a step, and counts them.

    States may share the states that follow them, so a small array can hold any number of rules, or endless ones. The
    children of a state are at its base XOR their label.
    """
    states = np.arange(len(units))
    bases = states ^ ((units >> 10) << ((units & (1 << 9)) >> 6))
    base_above = states ^ (units & 0xFF)
    is_state = units >> 31 == 0  # else it is the value of a rule
    result_ends = np.flatnonzero(results == 0)
    num_paths, num_letters = 0.0, 0.0
    paths = (states == 0).astype(np.float64)  # the number of paths to each state; exact, as far as it is allowed
    for depth in range(_LONGEST_SOURCE + 1):
        reached = np.flatnonzero(paths)
        if not len(reached):
            return
        if (bases[reached] | 0xFF).max() >= len(units):
            raise _damaged("a state leads out of the array")
        ends = reached[(units[reached] >> 8) & 1 == 1]
        values = units[bases[ends]] & 0x7FFFFFFF
        if len(values) and (values.max() >= len(results) or (results[values] & 0xC0 == 0x80).any()):
            raise _damaged("a rule has no result")
        lengths = depth + result_ends[np.searchsorted(result_ends, values)] - values
        num_paths += paths.sum()
        num_letters += (paths[ends] * lengths).sum()
        if num_paths > _MOST_PATHS or num_letters > _MOST_LETTERS:
            raise _damaged(f"more than {_MOST_PATHS:,} rules, or {_MOST_LETTERS:,} bytes of rules")
        paths_of_base = np.bincount(bases[reached], paths[reached], len(units) + 256)
        paths = np.where(is_state, paths_of_base[base_above], 0)
        if paths[units & 0xFF == 0].any():
            raise _damaged("a rule has a zero byte")
    raise _damaged(f"a rule has more than {_LONGEST_SOURCE} bytes, or no end")


def _damaged(what: str) -> InputError:
    return InputError(
        f"The normalisation rules of the SentencePiece model are damaged or malicious ({what}). Get the file again "
        "from a source that you trust."
    )


def _check_kind(trained: Any) -> None:
    if trained.model_type not in (_UNIGRAM, _BPE):
        raise InputError(
            f"The SentencePiece model is of type {trained.model_type}. Supported are unigram models ({_UNIGRAM}) and "
            f"BPE ({_BPE})."
        )
    for name in ("byte_fallback", "treat_whitespace_as_suffix"):
        if getattr(trained, name):
            raise InputError(f"The SentencePiece model was trained with {name}, which is not supported.")


def _check_pieces(pieces: list[Piece]) -> None:
    if not 1 < len(pieces) <= _MOST_PIECES:
        raise InputError(
            f"A SentencePiece model needs 2 to {_MOST_PIECES:,} pieces. Received: {len(pieces):,}. Give another file."
        )
    seen = set()
    for number, piece in enumerate(pieces):
        if not piece.text or len(piece.text.encode()) > _LONGEST_PIECE or "\0" in piece.text:
            what = f"has no text, a zero byte, or more than {_LONGEST_PIECE} bytes"
        elif piece.text in seen:
            what = "occurs twice"
        elif not math.isfinite(piece.score):
            what = f"has the score {piece.score}"
        elif not NORMAL <= piece.type <= UNUSED:
            what = f"is of type {piece.type}, which is not supported"
        else:
            seen.add(piece.text)
            continue
        raise InputError(f"Piece {number} of the SentencePiece model, {piece.text!r:.50}, {what}. Give another file.")
    unknown = [piece.text for piece in pieces if piece.type == UNKNOWN]
    if len(unknown) != 1:
        raise InputError(f"A SentencePiece model must have one unknown piece. Received: {unknown[:5] or 'none'}")


def _message(kind: str, data: bytes = b"") -> Any:
    """Returns a message of `_PROTO` with this content."""
    return _message_types()[kind].FromString(data)


@functools.cache
def _message_types() -> dict[str, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format

    file = text_format.Parse(_PROTO, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindFileByName(file.name).message_types_by_name
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in found.items()}


SPACE_STEPS = _space_steps()
# The settings of a model whose texts pass `SPACE_STEPS`: the library removes no spaces and no ▁.
OWN_SPACES = b"\x0a\x11keras_bert_spaces\x20\x00"  # as the field `normalizer_spec` has them
