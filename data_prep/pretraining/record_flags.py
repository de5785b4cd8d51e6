"""The flags that determine pre-training records, for all commands that make them."""

from typing import Any

from absl import flags

from data_prep.pretraining.pretraining_records import PretrainingOptions
from data_prep.pretraining.record_writer import COMPRESSIONS
from data_prep.tokenized.document_filters import FILTERS
from data_prep.tokenized.tokenize_text import TextSettings
from keras_bert.program.command_line import refuse_flags_without_effect
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_option_flags, flags_by_name, options_of_flags, refuse_unneeded_flags
from keras_bert.tokenization.tokenizer import TokenTable

FLAGS = flags.FLAGS
VOCAB_FILE_HELP = (
    "The vocabulary: a vocab.txt with one token per line, or a folder with it or with the vocab.json and merges.txt of "
    "byte-level BPE."
)


def define_record_flags() -> None:
    """Defines the flags; `record_arguments` reads them."""
    flags.DEFINE_list("input_file", None, "Text: files, folders, patterns or tfds:NAME, separated by commas.")
    flags.DEFINE_string("output_dir", None, "A folder for the TFRecord files.")
    help = "The number of files in output_dir (default: one for every 100 documents up to 16, more for large text)."
    flags.DEFINE_integer("num_shards", None, help)
    flags.DEFINE_string("vocab_file", None, VOCAB_FILE_HELP)
    define_option_flags(PretrainingOptions)
    define_option_flags(TextSettings)
    flags.DEFINE_enum("compression", "none", list(COMPRESSIONS), "The compression of the files.")
    flags.DEFINE_bool("use_v2_feature_names", False, "Use TF Model Garden's feature names: input_word_ids, ...")


def check_casing_flag(vocabulary: TokenTable) -> None:
    """Raises `InputError` if --do_lower_case is given for a vocabulary whose tokenizer does not use it."""
    from keras_bert.tokenization.vocabulary import Vocabulary

    takes_casing = isinstance(vocabulary, Vocabulary) or not FLAGS.do_lower_case
    refuse_flags_without_effect(takes_casing, "on a tokenizer that is not WordPiece", "do_lower_case")


def record_arguments() -> dict[str, Any]:
    """Returns the flags as arguments of `create_pretraining_data` and `beam_pretraining_data`: name -> value."""
    from keras_bert.tokenization.kinds import load_vocabulary

    refuse_unneeded_flags(PretrainingOptions, TextSettings)
    refuse_flags_without_effect(
        FLAGS.ngram_distribution == "geometric", "with --ngram_distribution=inverse", "ngram_geometric_p"
    )
    refuse_flags_without_effect(FLAGS.sentence_task != "none", "with --sentence_task=none", "short_seq_prob")
    refuse_flags_without_effect(
        not FLAGS.dynamic_masking,
        "with --dynamic_masking: masks are made when the records are read",
        *("masked_lm_prob", "max_predictions_per_seq"),
    )
    refuse_flags_without_effect(
        not FLAGS.reuse_len,
        "with --reuse_len",
        *("masked_lm_prob", "short_seq_prob", "whole_word_actions", "replacement_tokens"),
    )
    refuse_flags_without_effect(
        FLAGS.input_file, "without --input_file", "split_sentences", "language", "text_field", *FILTERS
    )
    if not FLAGS.vocab_file:
        raise InputError("Give --vocab_file, the vocabulary.")
    check_casing_flag(load_vocabulary(FLAGS.vocab_file))
    given = flags_by_name("input_file", "vocab_file", "compression", "use_v2_feature_names")
    return {"options": options_of_flags(PretrainingOptions), "settings": options_of_flags(TextSettings), **given}
