"""Compares a folder's tokenizer with SentencePiece or `tokenizers` on names in the languages of the package babel.

    python -m benchmarks.names_in_languages --model=FOLDER

The texts are the names of languages, territories, scripts, months and days in each language, and 20 lines of twelve
names each. Every fifth text is also tokenized in the graph, whose ids and offsets are compared with those of Python.
"""

import itertools
import os
import random

from absl import flags
from babel import Locale, localedata
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer as TheirTokenizer

from keras_bert import SentencePieceTokenizer, load_vocabulary
from keras_bert.program.command_line import run_command
from keras_bert.tokenization.sentence_piece_model import SentencePieceModel
from keras_bert.tokenization.tokenizer import Tokenizer
from keras_bert.tokenization.wordpiece import WordPieceTokenizer

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_string("model", None, "Folder with SentencePiece, or an uncased tokenizer.json.", required=True)


def main() -> None:
    languages = names_of_languages()
    names = sorted({name for found in languages.values() for name in found})
    texts = names + [line for language, found in languages.items() for line in lines_of(language, found)]
    tokenizer = load_vocabulary(FLAGS.model)
    if not isinstance(tokenizer, SentencePieceTokenizer):
        tokenizer = WordPieceTokenizer(tokenizer, do_lower_case=True)
    different = sum(tokenizer.encode(text) != ids for text, ids in zip(texts, their_ids(tokenizer, texts), strict=True))
    print(f"{len(languages)} languages, {len(texts):,} texts: {different} differ")
    print(f"graph: {graph_differences(tokenizer, texts[::5])} of {len(texts[::5]):,} texts differ from Python")


def names_of_languages() -> dict[str, list[str]]:
    found = {}
    for code in localedata.locale_identifiers():
        locale = Locale.parse(code)
        if "_" not in code and len(locale.languages) >= 100:  # those with fewer names are not translated
            tables = [locale.languages, locale.territories, locale.scripts]
            tables += [*locale.months["format"].values(), *locale.days["format"].values()]
            found[code] = sorted({str(name) for table in tables for name in table.values()})
    return found


def lines_of(language: str, names: list[str]) -> list[str]:
    chosen = random.Random(language)
    return [", ".join(chosen.sample(names, 12)) for _ in range(20)]


def their_ids(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    if isinstance(tokenizer, SentencePieceTokenizer):
        pieces = SentencePieceModel.from_bytes(tokenizer.model).pieces
        rows = SentencePieceProcessor(model_proto=tokenizer.model).encode(texts)
        return [[tokenizer.ids[pieces[number].text] for number in row] for row in rows]
    theirs = TheirTokenizer.from_file(os.path.join(FLAGS.model, "tokenizer.json"))
    theirs.no_truncation()
    theirs.no_padding()
    return [found.ids for found in theirs.encode_batch(texts, add_special_tokens=False)]


def graph_differences(tokenizer: Tokenizer, texts: list[str]) -> int:
    rows = zip(*(part.to_list() for part in tokenizer.graph().tokenize_with_offsets(texts)), strict=True)
    different = 0
    for text, row in zip(texts, rows, strict=True):
        places = [0, *itertools.accumulate(len(character.encode()) for character in text)]
        ids, *offsets = tokenizer.tokenize_with_offsets(text)
        different += row != (ids, *([places[at] for at in part] for part in offsets))
    return different


if __name__ == "__main__":
    run_command(main, define_flags)
