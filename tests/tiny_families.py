"""BERT's relatives, tiny: a tokenizer and a config of every family.

The tokenizers know the words "the", "a", "fox", "dog" and "who".
"""

import keras
import tiny

from keras_bert import BertConfig, BytePairTokenizer, Vocabulary, registry
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.models.encoder_base import make_encoder
from keras_bert.tokenization.byte_pair import byte_alphabet
from keras_bert.tokenization.sentence_piece import XLNET_SPECIAL_TOKENS, SentencePieceTokenizer
from keras_bert.tokenization.sentence_piece_forms import CAMEMBERT, DEBERTA, XLM_ROBERTA, SentencePieceForm
from keras_bert.tokenization.sentence_piece_model import (
    CONTROL,
    NORMAL,
    UNKNOWN,
    USER_DEFINED,
    Piece,
    SentencePieceModel,
)
from keras_bert.tokenization.tokenizer import MODERN_BERT_SPECIAL_TOKENS, MPNET_SPECIAL_TOKENS

SPECIAL = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
MERGES = [tuple(pair.split()) for pair in ("t h", "th e", "Ġ the", "f o", "fo x", "Ġ fox", "d o", "do g", "Ġ dog")]
TEXTS = ["the fox", "a dog, the dog", "fox fox the fox", "dog"]
LABELS = ["fox", "dog", "fox", "dog"]
# Fields that let small models have windows, blocks and bottlenecks.
SMALL_PARTS = {
    "modernbert": {"local_attention": 4},
    "gte": {"type_vocab_size": 1},
    "eurobert": {"num_key_value_heads": 1},
    "gemma3_text": {"num_key_value_heads": 1, "head_dim": 6, "local_attention": 4, "global_attn_every_n_layers": 2},
    # Without LayerNorm, a few updates are too few for weights that start at 0.02.
    "mobilebert": {
        "embedding_size": 8,
        "intra_bottleneck_size": 8,
        "num_feedforward_networks": 2,
        "initializer_range": 0.1,
    },
    "deberta-v2": {"position_buckets": 8},
    "longformer": {"attention_window": 4},
    "big_bird": {"block_size": 1, "num_random_blocks": 1},
}
# Two layers show that an ALBERT shares them. Those of ModernBERT and Gemma are of two kinds.
SEVERAL_LAYERS = ("albert", "modernbert", "gemma3_text")


def byte_pairs(**settings) -> BytePairTokenizer:
    tokens = [*SPECIAL, *byte_alphabet(), *(left + right for left, right in MERGES)]
    return BytePairTokenizer({token: number for number, token in enumerate(tokens)}, MERGES, **settings)


def modern_byte_pairs() -> BytePairTokenizer:
    """A tokenizer of ModernBERT's form: NFC, and two runs of spaces as tokens."""
    joined = [left + right for left, right in MERGES]
    tokens = [*byte_alphabet(), *joined, "   ", "  ", *MODERN_BERT_SPECIAL_TOKENS.names]
    ids = {token: number for number, token in enumerate(tokens)}
    return BytePairTokenizer(ids, MERGES, MODERN_BERT_SPECIAL_TOKENS, normalizes=True, added_tokens=("   ", "  "))


def word_pieces() -> Vocabulary:
    return tiny.vocabulary("the a fox dog , ##es who ?")


def sentence_pieces(controls=("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"), **settings) -> SentencePieceTokenizer:
    """A model with whole words, some characters, and the symbol "," of its own."""
    words = ["the", "a", "fox", "dog", "who"]
    pieces = [(name, UNKNOWN if name in ("<unk>", "[UNK]") else CONTROL) for name in controls]
    pieces += [(",", USER_DEFINED), *((f"▁{word}", NORMAL) for word in words), ("▁", NORMAL)]
    pieces += [(character, NORMAL) for character in "abcdefghijklmnopqrstuvwxyz?'"]
    scored = [Piece(text, -float(number), kind) for number, (text, kind) in enumerate(pieces)]
    return SentencePieceTokenizer(SentencePieceModel(tuple(scored), b"").to_bytes(), **settings)


def xlnet_pieces() -> SentencePieceTokenizer:
    """A tokenizer of XLNet's form: capitals stay, and padding is not token 0."""
    settings = {"special_tokens": XLNET_SPECIAL_TOKENS, "do_lower_case": False, "keep_accents": False}
    return sentence_pieces(("<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>"), **settings)


def pieces_in_order_of(form: SentencePieceForm, controls=("<unk>", "<s>", "</s>")) -> SentencePieceTokenizer:
    """A tokenizer of XLM-RoBERTa's or CamemBERT's form, in which other tokens stand before the pieces of the model, or
    of DeBERTa's, in which the token of masks stands behind them."""
    return sentence_pieces(controls, special_tokens=form.special_tokens, do_lower_case=False, form=form)


def mpnet_pieces() -> Vocabulary:
    """A WordPiece vocabulary of MPNet's form: rows have <s> and </s>, two </s> divide a pair, padding is token 1."""
    tokens = [*["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "the", "a", "fox", "dog", ",", "##es", "who", "?"], "<mask>"]
    return Vocabulary(tokens, special_tokens=MPNET_SPECIAL_TOKENS, max_characters_per_word=100)


VOCABULARIES = {
    "roberta": byte_pairs(),
    "xlm-roberta": pieces_in_order_of(XLM_ROBERTA),
    "camembert": pieces_in_order_of(CAMEMBERT),
    "mpnet": mpnet_pieces(),
    "deberta-v2": pieces_in_order_of(DEBERTA, ("[PAD]", "[CLS]", "[SEP]", "[UNK]")),
    "albert": sentence_pieces(),
    "distilbert": word_pieces(),
    "electra": word_pieces(),
    "mobilebert": word_pieces(),
    "modernbert": modern_byte_pairs(),
    "nomic_bert": word_pieces(),
    "neobert": tiny.vocabulary("the a fox dog , ##es who ? b c"),
    "gte": pieces_in_order_of(XLM_ROBERTA),
    "jina_embeddings_v3": pieces_in_order_of(XLM_ROBERTA),
    "eurobert": byte_pairs(),
    "gemma3_text": byte_pairs(),
    "longformer": byte_pairs(),
    "big_bird": sentence_pieces(do_lower_case=False),
    "xlnet": xlnet_pieces(),
}

IDS = dict(VOCABULARIES["roberta"].ids)


def config_of(family: str, **values) -> BertConfig:
    """Returns a config with the defaults of the family, its fields in `SMALL_PARTS`, and these values."""
    parts = SMALL_PARTS.get(family, {})
    return BertConfig.from_dict({**registry.family(family).defaults, **parts, **values, "model_type": family})


def config(family: str, **changes) -> BertConfig:
    """Returns the config of a family for its vocabulary: two layers of 16 numbers, 40 positions."""
    shape = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    shape |= {"vocab_size": len(VOCABULARIES[family]), "max_position_embeddings": 40, "initializer_range": 0.3}
    return config_of(family, **{**shape, **changes})


def fewest_layers(family: str) -> dict[str, int]:
    """Returns the field of a config that has each kind of layer once, for tests that compile each layer."""
    return {"num_hidden_layers": 2 if family in SEVERAL_LAYERS else 1}


def new(model_class, family: str, **arguments):
    """Returns a model of the family with its vocabulary and random weights."""
    keras.utils.set_random_seed(1)
    model = (make_encoder if model_class is BertEncoder else model_class)(config(family), **arguments)
    model.vocabulary = VOCABULARIES[family]
    return model
