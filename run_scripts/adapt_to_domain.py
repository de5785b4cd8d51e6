"""Adapts a pre-trained model to the text of a domain: new tokens, then continued pre-training.

    adapt_to_domain --text='articles/*.txt' --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=adapted

1. It finds the words that the vocabulary splits into pieces and that cost the most tokens. They become new tokens at
   the end of the vocabulary. A new token starts with the mean of the vectors of its pieces; the ids of the old tokens
   do not change. Only WordPiece vocabularies (BERT, DistilBERT, ELECTRA) get new tokens. Other families are adapted
   with --num_new_tokens=0.
2. create_pretraining_data writes records of full sentences without masks.
3. The model learns to guess masked words of the text, as in run_pretraining, with new masks in every pass.

The adapted model is in output_dir/model, a MaskedLM that from_pretrained and all commands read. If the command is
killed or stopped, the same command continues. For several devices or other optimizers, give --num_train_steps=0 here,
and then train output_dir/model on output_dir/records by run_pretraining.

Reference: Gururangan et al., 2020, Don't Stop Pretraining, section 3.
"""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import MISSING

from absl import flags

from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_option_flags, options_of_flags
from keras_bert.program.options import Options, option
from keras_bert.program.printing import LONGEST_LINE, printable


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaptationOptions(Options):
    """The flags of the command; `text` may also be one string."""

    text: Sequence[str] | str = option(MISSING, "The text of the domain: files, folders, patterns or tfds:NAME.")
    init_checkpoint: str = option(MISSING, "A checkpoint of any format with a masked-LM head.")
    output_dir: str = option(MISSING, "The folder of this run: new, empty, or that of a run to resume.")
    num_new_tokens: int = option(500, "The largest number of words that become tokens.", at_least=0)
    max_seq_length: int | None = option(None, "Tokens in a row (default: 128, or all of the model).", at_least=8)
    num_train_steps: int = option(10_000, "The number of updates.", at_least=0)
    train_batch_size: int = option(32, "Rows per update.", at_least=1)
    learning_rate: float = option(5e-5, "The highest learning rate, after a tenth of the updates.", at_least=0)
    save_checkpoints_steps: int = option(1000, "The number of updates between two checkpoints.", at_least=1)
    random_seed: int = option(12345, "Seed of the masks, the dropout and the order of the rows.", at_least=0)
    text_field: str = option("text", "The field with the text, in .jsonl, tables and tensorflow_datasets.")
    language: str = option("en", "The language of the text, by whose rules sentences end: its ISO 639 code.")
    num_processes: int | None = option(None, "Processes that prepare the text (default: one per core).", at_least=1)


def define_flags() -> None:
    define_option_flags(AdaptationOptions)
    flags.mark_flags_as_required(["text", "init_checkpoint", "output_dir"])


def adapt_to_domain(options: AdaptationOptions) -> str:
    """Adapts a model to a domain; see the top of this file. Returns the folder of the adapted model.

    With `num_train_steps=0` the model only gets the new tokens. Raises `InputError` if the checkpoint has no masked-LM
    head or no vocabulary, or new tokens are asked for and its vocabulary is not WordPiece; the text cannot be read or
    has too little; the folder holds another run.
    """
    from data_prep.create_pretraining_data import create_pretraining_data
    from data_prep.pretraining.pretraining_records import PretrainingOptions
    from data_prep.text.corpus import as_patterns, input_size
    from data_prep.text.ordered_map import available_cores
    from data_prep.tokenized.tokenize_text import TextSettings
    from keras_bert.program.atomic_output import atomic_folder
    from keras_bert.tasks.masked_lm.model import MaskedLM
    from keras_bert.tokenization.kinds import load_vocabulary
    from keras_bert.training.pretraining import train_pretrainer
    from keras_bert.training.pretraining_options import PretrainingRunOptions
    from keras_bert.training.run_folder import RunFolder
    from keras_bert.training.starting_point import StartingPoint

    checkpoint = _checked_checkpoint(options.init_checkpoint, options.num_new_tokens)
    options = dataclasses.replace(
        options,
        text=as_patterns(options.text),
        max_seq_length=options.max_seq_length or min(128, checkpoint.config.max_sequence_length),
        num_processes=options.num_processes or available_cores(),
    )
    checkpoint.config.check_sequence_length(options.max_seq_length)
    settings = {"run": "adapt_to_domain", "text_bytes": input_size(options.text), **dataclasses.asdict(options)}
    for name in ("output_dir", "num_processes", "save_checkpoints_steps"):  # may differ in a run that is resumed
        del settings[name]
    folder = RunFolder(options.output_dir, settings)
    vocabulary, records, run = map(folder.file, ("vocabulary", "records", "pretraining"))
    if not os.path.isdir(vocabulary):
        with atomic_folder(vocabulary) as place:
            _with_new_words(checkpoint.tokenizer, options).save(place)
    create_pretraining_data(
        options.text,
        vocabulary,
        output_dir=records,
        options=PretrainingOptions(
            max_seq_length=options.max_seq_length,
            random_seed=options.random_seed,
            dupe_factor=1,
            sentence_task="none",
            dynamic_masking=True,
        ),
        settings=TextSettings(
            do_lower_case=checkpoint.tokenizer.do_lower_case,
            split_sentences=True,
            language=options.language,
            text_field=options.text_field,
        ),
        num_processes=options.num_processes,
        show_progress=True,
    )
    if not os.path.isdir(folder.model_path):
        new_tokens = load_vocabulary(vocabulary).tokens[len(checkpoint.tokenizer) :]
        start = StartingPoint(init_checkpoint=options.init_checkpoint, new_tokens=new_tokens)
        if options.num_train_steps:
            training = PretrainingRunOptions(
                masking={"do_whole_word_mask": True},
                train_batch_size=options.train_batch_size,
                learning_rate=options.learning_rate,
                num_train_steps=options.num_train_steps,
                num_warmup_steps=options.num_train_steps // 10,
                save_checkpoints_steps=options.save_checkpoints_steps,
                seed=options.random_seed,
            )
            train_pretrainer(run, records, start, training)
            start = StartingPoint(init_checkpoint=os.path.join(run, "model"))
        # Without the next-sentence head: it was not trained.
        folder.save_model(start.make(MaskedLM))
    return folder.model_path


def _checked_checkpoint(path: str, num_new_tokens: int):
    """Returns the `BertCheckpoint` at `path`, which must fit this command."""
    from keras_bert.checkpoints.checkpoint import MASKED_LM
    from keras_bert.checkpoints.formats import read_checkpoint
    from keras_bert.tokenization.wordpiece import WordPieceTokenizer

    checkpoint = read_checkpoint(path)
    if MASKED_LM not in checkpoint.heads:
        raise InputError(
            f"{checkpoint.path} ({checkpoint.kind}) has no masked-LM head, with which a model guesses words. Give a "
            "checkpoint of pre-training, before it was fine-tuned."
        )
    if checkpoint.tokenizer is None:
        raise InputError(f"{checkpoint.path} has no vocabulary. Put the files of its tokenizer into its folder.")
    if num_new_tokens and not isinstance(checkpoint.tokenizer, WordPieceTokenizer):
        raise InputError(
            f"{checkpoint.path} has no WordPiece vocabulary, and only WordPiece vocabularies can get new tokens. Give "
            "--num_new_tokens=0 to train it on the text with its own tokens."
        )
    return checkpoint


def _with_new_words(tokenizer, options: AdaptationOptions):
    """Returns the tokenizer of the checkpoint with the new words of the text."""
    from data_prep.vocabulary.new_words import find_new_words
    from data_prep.vocabulary.word_counts import count_words_of_files

    if not options.num_new_tokens:
        return tokenizer
    how = {"text_field": options.text_field, "num_processes": options.num_processes}
    counts = count_words_of_files(options.text, tokenizer.do_lower_case, **how)
    new = find_new_words(counts, tokenizer, options.num_new_tokens)
    print(f"{len(new):,} new tokens: {printable(', '.join(new), LONGEST_LINE)}")
    return tokenizer.replace(tokens=(*tokenizer.tokens, *new))


def main() -> None:
    model_folder = adapt_to_domain(options_of_flags(AdaptationOptions))
    print(f"\nThe adapted model: {model_folder}")


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
