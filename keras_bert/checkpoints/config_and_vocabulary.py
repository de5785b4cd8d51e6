"""Reads what folders of models and of exports have in common: `bert_config.json` and the tokenizer, without Keras."""

import os

from keras_bert.config import BertConfig
from keras_bert.tokenization.kinds import load_vocabulary
from keras_bert.tokenization.tokenizer import TokenTable


def read_config_and_vocabulary(folder: str | os.PathLike) -> tuple[BertConfig, TokenTable]:
    """Returns the config and the vocabulary in a folder.

    Raises:
        InputError: one of the two is missing or damaged, or the size of the vocabulary is not that of the config.
    """
    config = BertConfig.from_json_file(os.path.join(folder, "bert_config.json"))
    vocabulary = load_vocabulary(folder)
    config.check_vocabulary(len(vocabulary))
    return config, vocabulary
