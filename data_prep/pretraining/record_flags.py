"""The flags that determine pre-training records, for all commands that make them."""

import dataclasses
from typing import TYPE_CHECKING, Any

from absl import flags

from keras_bert.program.command_line import refuse_flags_without_effect

if TYPE_CHECKING:
    from keras_bert.tokenization.tokenizer import TokenTable

FLAGS = flags.FLAGS
VOCAB_FILE_HELP = (
    "The vocabulary: a vocab.txt with one token per line, or a folder with it or with the vocab.json and merges.txt of "
    "byte-level BPE."
)


def define_record_flags() -> None:
    """Defines the flags; `record_arguments` reads them."""
    flags.DEFINE_list("input_file", None, "Text: files, folders, patterns or tfds:NAME, separated by commas.")
    flags.DEFINE_string("vocab_file", None, VOCAB_FILE_HELP)
    flags.DEFINE_bool("do_lower_case", True, "WordPiece: lower-case and strip accents, as for uncased vocabularies.")
    flags.DEFINE_bool("do_whole_word_mask", False, "Mask all pieces of a word together.")
    flags.DEFINE_integer("max_ngram_size", 0, "Above 0: mask spans of up to this many whole words.")
    flags.DEFINE_enum(
        "ngram_distribution",
        "geometric",
        ["geometric", "inverse"],
        "With --max_ngram_size: the distribution of span lengths, geometric (SpanBERT) or inverse, ~ 1/n (ALBERT).",
    )
    flags.DEFINE_float("ngram_geometric_p", 0.2, "Parameter of the geometric distribution.")
    flags.DEFINE_bool(
        "whole_word_actions", False, "Choose between [MASK], the same and a random token once per word or span."
    )
    flags.DEFINE_enum(
        "replacement_tokens",
        "text",
        ["text", "vocabulary"],
        "Random tokens are drawn from the tokens that text can contain, or from the whole vocabulary, as Google does.",
    )
    flags.DEFINE_bool("dynamic_masking", False, "Write records without masks, which are masked while they are read.")
    flags.DEFINE_enum(
        "sentence_task",
        "next_sentence",
        ["next_sentence", "sentence_order", "none"],
        "Random second segments (BERT), swapped segments (ALBERT), or none: full sentences (RoBERTa).",
    )
    flags.DEFINE_integer("max_sequences_per_row", 1, "Above 1: pack up to this many examples into a record.")
    flags.DEFINE_integer(
        "reuse_len",
        0,
        "Above 0: rows for XLNet. Each row begins this number of tokens after the row before it. Tokens are predicted "
        "in a random order.",
    )
    flags.DEFINE_integer("perm_size", 0, "XLNet: the tokens that are permuted together (default: --reuse_len).")
    flags.DEFINE_integer("mask_alpha", 6, "XLNet: --mask_beta of every --mask_alpha tokens are predicted.")
    flags.DEFINE_integer("mask_beta", 1, "XLNet: the number of tokens to predict of every --mask_alpha.")
    flags.DEFINE_integer(
        "num_streams",
        0,
        "XLNet: above 0, rows come in the order for training with a memory (run_pretraining --mem_len). This is "
        "the number of rows in a batch.",
    )
    flags.DEFINE_integer("max_seq_length", 128, "Tokens in a record, special tokens included.")
    flags.DEFINE_integer("max_predictions_per_seq", 20, "The largest number of masks in a record.")
    flags.DEFINE_integer("random_seed", 12345, "Seed of every draw.")
    flags.DEFINE_integer("dupe_factor", 10, "The number of passes over the text, each with other masks and pairs.")
    flags.DEFINE_float("masked_lm_prob", 0.15, "Share of the tokens to predict.")
    flags.DEFINE_float("short_seq_prob", 0.1, "Share of the documents that are cut into shorter pairs.")
    flags.DEFINE_bool("split_sentences", False, "Lines are paragraphs: split them into sentences.")
    flags.DEFINE_string("language", "en", "The language whose rules --split_sentences follows, as its ISO 639 code.")
    flags.DEFINE_string("text_field", "text", "The field with the text, in JSON Lines and tensorflow_datasets.")
    flags.DEFINE_enum("compression", "none", ["none", "gzip", "zstd"], "The compression of the files.")
    flags.DEFINE_bool("use_v2_feature_names", False, "Use TF Model Garden's feature names: input_word_ids, ...")


def check_casing_flag(vocabulary: "TokenTable") -> None:
    """Raises `InputError` if --do_lower_case is given for a vocabulary whose tokenizer does not use it."""
    from keras_bert.tokenization.vocabulary import Vocabulary

    takes_casing = isinstance(vocabulary, Vocabulary) or not FLAGS.do_lower_case
    refuse_flags_without_effect(takes_casing, "on a tokenizer that is not WordPiece", "do_lower_case")


def record_arguments(vocabulary: "TokenTable") -> dict[str, Any]:
    """Returns the flags as arguments of `create_pretraining_data` and `beam_pretraining_data`: name -> value.

    Raises:
        InputError: --do_lower_case is given for a vocabulary without casing, or an option is out of range.
    """
    from data_prep.pretraining.pretraining_records import PretrainingOptions
    from data_prep.tokenized.tokenize_text import TextSettings

    check_casing_flag(vocabulary)
    options, settings = (
        kind(**{field.name: FLAGS[field.name].value for field in dataclasses.fields(kind)})
        for kind in (PretrainingOptions, TextSettings)
    )
    names = ("input_file", "vocab_file", "compression", "use_v2_feature_names")
    return {"options": options, "settings": settings, **{name: FLAGS[name].value for name in names}}


def check_record_flags() -> None:
    """Raises `InputError` for flags of `define_record_flags` that were given but have no effect."""
    refuse_flags_without_effect(
        FLAGS.max_ngram_size, "without --max_ngram_size", "ngram_geometric_p", "ngram_distribution"
    )
    refuse_flags_without_effect(
        FLAGS.ngram_distribution == "geometric", "with --ngram_distribution=inverse", "ngram_geometric_p"
    )
    refuse_flags_without_effect(FLAGS.split_sentences, "without --split_sentences", "language")
    refuse_flags_without_effect(FLAGS.sentence_task != "none", "with --sentence_task=none", "short_seq_prob")
    refuse_flags_without_effect(
        not FLAGS.dynamic_masking,
        "with --dynamic_masking: masks are made when the records are read",
        *("masked_lm_prob", "max_predictions_per_seq"),
    )
    refuse_flags_without_effect(
        FLAGS.reuse_len, "without --reuse_len", "perm_size", "mask_alpha", "mask_beta", "num_streams"
    )
    refuse_flags_without_effect(
        not FLAGS.reuse_len,
        "with --reuse_len",
        *("masked_lm_prob", "short_seq_prob", "whole_word_actions", "replacement_tokens"),
    )
    refuse_flags_without_effect(FLAGS.input_file, "without --input_file", "split_sentences", "language", "text_field")
