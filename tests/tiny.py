"""The one maker of tiny vocabularies and configs, for all tests.

>>> words = vocabulary("the fox ##es")
>>> words.ids["the"], config(words).vocab_size
(5, 8)
"""

import pathlib
from collections.abc import Sequence, Sized

from keras_bert.config import BertConfig
from keras_bert.tokenization.vocabulary import Vocabulary

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def vocabulary(*tokens: str) -> Vocabulary:
    """Returns a vocabulary of the special tokens, with ids 0 to 4, and these tokens, whose ids begin with 5.

    Args:
        tokens: each is a token, or several with spaces between.
    """
    return Vocabulary([*SPECIAL_TOKENS, *(token for text in tokens for token in text.split(" "))])


def pieces(letters: Sequence[str] = LETTERS) -> list[str]:
    """Returns the tokens of which every word of these letters can be made: "ab" -> ["a", "b", "##a", "##b"]."""
    return [*letters, *(f"##{letter}" for letter in letters)]


def config(vocabulary: Sized | int, dropout: float | None = None, **changes) -> BertConfig:
    """Returns the config of a BERT with one layer, vectors of 16 numbers, two heads and 16 positions.

    Args:
        vocabulary: the vocabulary, or the number of its tokens.
        dropout: both shares of dropout; by default, those of `BertConfig`.
        changes: other fields, or other values. By default `intermediate_size` is twice `hidden_size`.
    """
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 16}
    if dropout is not None:
        shape |= {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    shape |= {"vocab_size": vocabulary if isinstance(vocabulary, int) else len(vocabulary), **changes}
    return BertConfig(**{"intermediate_size": 2 * shape["hidden_size"], **shape})


def micro_config(**changes) -> BertConfig:
    """Returns the config of models that are compared with NumPy: 23 tokens, two layers of 8 numbers, 10 positions."""
    shape = {"hidden_size": 8, "num_hidden_layers": 2, "intermediate_size": 12, "max_position_embeddings": 10}
    return config(23, **{**shape, **changes})


def made(model_class, config: BertConfig, vocabulary: Vocabulary, *arguments, seed: int | None = None, **options):
    """Returns a new model that knows a vocabulary; with a seed, its weights are always the same."""
    if seed is not None:
        import keras

        keras.utils.set_random_seed(seed)
    model = model_class(config, *arguments, **options)
    model.vocabulary = vocabulary
    return model


def flags_from_scratch(folder: pathlib.Path, vocabulary: Vocabulary, config: BertConfig) -> list[str]:
    """Writes `vocab.txt` and `bert_config.json` into a folder. Returns the flags of commands that train with them."""
    vocabulary.save(folder / "vocab.txt")
    config.save(folder / "bert_config.json")
    return [f"--vocab_file={folder}/vocab.txt", f"--bert_config_file={folder}/bert_config.json"]
