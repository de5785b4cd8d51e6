"""Our tokenizer equals Hugging Face tokenizers on real text; each known difference has an example.

docs/tokenizer.md lists the differences.
"""

import itertools
import json
import subprocess

import pytest
from recorded_folders import recorded_folder
from tokenizers import BertWordPieceTokenizer

from keras_bert.checkpoints.hugging_face_tokenizer import write_tokenizer
from keras_bert.config import BertConfig
from keras_bert.tokenization.vocabulary import SPECIAL_TOKENS, Vocabulary
from keras_bert.tokenization.wordpiece import WordPieceTokenizer
from keras_bert.tokenization.wordpiece_files import read_word_piece

SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}"
CASINGS = {"uncased": True, "cased": False, "multilingual-cased": False, "chinese": True}


@pytest.mark.parametrize("name", CASINGS)
def test_wikipedia_has_the_ids_and_offsets_of_hugging_face(shared_data, name):
    path = shared_data("vocab", f"bert-base-{name}-vocab.txt")
    ours = WordPieceTokenizer(Vocabulary.from_file(path), CASINGS[name])
    theirs = BertWordPieceTokenizer(str(path), lowercase=CASINGS[name], strip_accents=CASINGS[name])
    with open(shared_data("corpus", "wikipedia_articles.txt"), encoding="utf-8") as file:
        for paragraph in itertools.islice(file, 0, None, 40):
            ids, starts, ends = ours.tokenize_with_offsets(paragraph)
            encoding = theirs.encode(paragraph, add_special_tokens=False)
            assert ids == encoding.ids
            # Our offsets of a letter include its accents, theirs mostly do not.
            assert starts == [start for start, _ in encoding.offsets]
            assert all(end >= other for end, (_, other) in zip(ends, encoding.offsets, strict=True))


@pytest.mark.parametrize(
    ("text", "google", "hugging_face"),
    [
        (f"\u03b1{SIGMA}", ["\u03b1\u03c2"], ["\u03b1\u03c3"]),
        ("a" * 101, ["a"] + ["##a"] * 100, ["[UNK]"]),
        ("[MASK]", ["[", "mask", "]"], ["[MASK]"]),
        ("a\ue000", ["[UNK]"], ["a"]),
        ("a\u1ac1", ["a"], ["[UNK]"]),  # a mark of Unicode 14.0
        ("a\u2e5d", ["a", "[UNK]"], ["[UNK]"]),  # a hyphen of Unicode 14.0
        ("a\U0002b820", ["a", "[UNK]"], ["[UNK]"]),
    ],
)
def test_where_hugging_face_differs_from_google(tmp_path, text, google, hugging_face):
    tokens = [*SPECIAL_TOKENS, "a", "##a", "[", "]", "mask", "\u03b1\u03c2", "\u03b1\u03c3"]
    Vocabulary(tokens).save(tmp_path / "vocab.txt")
    assert WordPieceTokenizer(Vocabulary(tokens)).tokenize(text) == google
    theirs = BertWordPieceTokenizer(str(tmp_path / "vocab.txt"), lowercase=True)
    assert theirs.encode(text, add_special_tokens=False).tokens == hugging_face


THEIR_IDS = """
import json, sys
from transformers import AutoTokenizer
texts = json.loads(sys.stdin.read())
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
print(json.dumps([tokenizer(texts, add_special_tokens=False)["input_ids"], tokenizer("a", "b")["input_ids"]]))
"""


def test_transformers_reads_mpnets_tokenizer_from_our_folder(transformers_python, shared_data, tmp_path):
    tokenizer = read_word_piece(recorded_folder("tokenizers", "mpnet"))
    write_tokenizer(tmp_path, tokenizer, BertConfig(vocab_size=len(tokenizer)))
    with open(shared_data("corpus", "wikipedia_articles.txt"), encoding="utf-8") as file:
        texts = [text for text in itertools.islice(file, 0, None, 400) if SIGMA not in text]
    command = [transformers_python, "-c", THEIR_IDS, str(tmp_path)]
    result = subprocess.run(command, input=json.dumps(texts), capture_output=True, text=True, check=True)
    ids, pair = json.loads(result.stdout.splitlines()[-1])
    assert ids == [tokenizer.encode(text) for text in texts]
    assert pair == [0, *tokenizer.encode("a"), 2, 2, *tokenizer.encode("b"), 2]
