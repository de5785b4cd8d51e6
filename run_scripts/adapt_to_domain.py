"""Adapts a pre-trained model to the text of a domain: new tokens, continued pre-training, and a score before and after.

    adapt_to_domain --text='articles/*.txt' --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=adapted

1. A few documents are held out. In the others, it finds the words that the vocabulary splits into pieces and that cost
   the most tokens. They become new tokens at the end of the vocabulary. A new token starts with the mean of the vectors
   of its pieces; the ids of the old tokens do not change. Only WordPiece vocabularies (BERT, DistilBERT, ELECTRA) get
   new tokens. Other families are adapted with --num_new_tokens=0.
2. The model learns to guess masked words of the text, with new masks in every pass.
3. The report has the share of masked words of the held-out documents that the old and the new model guess right, and
   the mean loss of such a word. The words are the same for both. A word is right if all of its pieces are right. If the
   loss has risen, the report says that the result is worse than the start.

The adapted model is in output_dir/model, a MaskedLM that from_pretrained and all commands read. The report is in
report.txt and report.json. If the command is killed or stopped, the same command continues. For several devices or
other optimizers, give --num_train_steps=0 here, and then train output_dir/model on output_dir/records by
run_pretraining.

Reference: Gururangan et al., 2020, Don't Stop Pretraining, section 3.
"""

import dataclasses
import json
import os
from collections.abc import Sequence
from dataclasses import MISSING
from typing import Any

import numpy as np
from absl import flags

from keras_bert.program.command_line import run_command
from keras_bert.program.errors import InputError
from keras_bert.program.option_flags import define_option_flags, flag_values, option
from keras_bert.program.printing import LONGEST_LINE, printable, recordable


@dataclasses.dataclass(frozen=True, kw_only=True)
class AdaptationOptions:
    """The flags of the command, which are the arguments of `adapt_to_domain`."""

    text: Sequence[str] = option(MISSING, "The text of the domain: files, folders, patterns or tfds:NAME.")
    init_checkpoint: str = option(MISSING, "A checkpoint of any format with a masked-LM head.")
    output_dir: str = option(MISSING, "The folder of this run: new, empty, or that of a run to resume.")
    num_new_tokens: int = option(500, "The largest number of words that become tokens.", lower_bound=0)
    max_seq_length: int | None = option(
        None, "Tokens in a row (default: 128, or all positions of a model that has fewer)."
    )
    num_train_steps: int = option(10_000, "The number of updates.", lower_bound=0)
    train_batch_size: int = option(32, "Rows per update.", lower_bound=1)
    learning_rate: float = option(5e-5, "The highest learning rate, after a tenth of the updates.")
    held_out_share: float = option(0.05, "The share of the documents to hold out; at most 2,000 documents.")
    save_checkpoints_steps: int = option(1000, "The number of updates between two checkpoints.")
    random_seed: int = option(12345, "Seed of the masks, the dropout and the order of the rows.")
    text_field: str = option("text", "The field with the text, in .jsonl, tables and tensorflow_datasets.")
    language: str = option("en", "The language of the text, by whose rules sentences end: its ISO 639 code.")
    num_processes: int | None = option(None, "Processes that prepare the text (default: one per core).", lower_bound=1)


def define_flags() -> None:
    define_option_flags(AdaptationOptions)
    flags.mark_flags_as_required(["text", "init_checkpoint", "output_dir"])


@dataclasses.dataclass(frozen=True)
class GuessedWords:
    """How many of some masked words the models guess right: shares from 0 to 1, or None if there are no such words."""

    num_words: int
    before: float | None
    after: float | None

    @classmethod
    def of(cls, before: np.ndarray, after: np.ndarray, which: np.ndarray) -> "GuessedWords":
        """Counts the words `which`; all arguments are bool (words,)."""
        shares = [float(right[which].mean()) if which.any() else None for right in (before, after)]
        return cls(int(which.sum()), *shares)


@dataclasses.dataclass(frozen=True)
class Adaptation:
    """The result of `adapt_to_domain`.

    Attributes:
        init_checkpoint, num_train_steps: as given.
        num_documents, num_held_out: the numbers of documents that were trained on and held out.
        new_tokens: the words that became tokens, the most useful first.
        pieces_per_word: the mean number of pieces of the masked words, before and after.
        loss: the mean loss of a masked word in nats, before and after; see `guessed_words`.
        all_words: the masked words of the held-out documents.
        words_with_new_tokens, other_words: the same, by whether a new token is among the pieces of the word.
    """

    init_checkpoint: str
    num_train_steps: int
    num_documents: int
    num_held_out: int
    new_tokens: list[str]
    pieces_per_word: tuple[float, float]
    loss: tuple[float, float]
    all_words: GuessedWords
    words_with_new_tokens: GuessedWords
    other_words: GuessedWords

    @property
    def is_worse(self) -> bool:
        """Whether the loss on the held-out documents has risen, or is not a number."""
        return not self.loss[1] <= self.loss[0]

    def __str__(self) -> str:
        first = printable(", ".join(self.new_tokens[:8]), LONGEST_LINE) + (", ..." if len(self.new_tokens) > 8 else "")
        lines = [
            f"{recordable(self.init_checkpoint)} after {self.num_train_steps:,} steps",
            f"  documents           {self.num_documents:,} trained on, {self.num_held_out:,} held out",
            f"  new tokens          {len(self.new_tokens):,}{f': {first}' if first else ''}",
            "  pieces per word     {:.2f} before, {:.2f} after".format(*self.pieces_per_word),
            "  loss of a word      {:.4f} before, {:.4f} after".format(*self.loss),
            "",
            "Masked words guessed right in the held-out documents",
            f"  {'':<26}{'words':>8}{'before':>10}{'after':>10}",
        ]
        for name, words in (
            ("all", self.all_words),
            ("words with new tokens", self.words_with_new_tokens),
            ("other words", self.other_words),
        ):
            if words.num_words:
                lines.append(f"  {name:<26}{words.num_words:>8,}{words.before:>10.1%}{words.after:>10.1%}")
        if self.is_worse:
            lines += [
                "",
                "The adapted model is worse than the one it started from: its loss on the held-out documents is",
                "higher. Keep the old model, or train longer, on more text or with a lower learning_rate.",
            ]
        return "\n".join(lines) + "\n"


def adapt_to_domain(
    text: str | Sequence[str],
    init_checkpoint: str | os.PathLike,
    output_dir: str | os.PathLike,
    *,
    num_new_tokens: int = AdaptationOptions.num_new_tokens,
    max_seq_length: int | None = AdaptationOptions.max_seq_length,
    num_train_steps: int = AdaptationOptions.num_train_steps,
    train_batch_size: int = AdaptationOptions.train_batch_size,
    learning_rate: float = AdaptationOptions.learning_rate,
    held_out_share: float = AdaptationOptions.held_out_share,
    save_checkpoints_steps: int = AdaptationOptions.save_checkpoints_steps,
    random_seed: int = AdaptationOptions.random_seed,
    text_field: str = AdaptationOptions.text_field,
    language: str = AdaptationOptions.language,
    num_processes: int = 1,
) -> Adaptation:
    """Adapts a model to a domain; see the top of this file. The arguments are the flags of the command.

    With `num_train_steps=0` the model only gets the new tokens.

    Args:
        num_processes: with more than one, the calling script needs the usual `if __name__ == "__main__":`.

    Raises:
        InputError: the checkpoint has no masked-LM head or no vocabulary, or new tokens are asked for and its
            vocabulary is not WordPiece; the text cannot be read or has too little; the folder holds another run.
    """
    from data_prep.text.corpus import as_patterns, input_size
    from data_prep.text.held_out_documents import divide_documents
    from keras_bert.program.atomic_output import atomic_folder
    from keras_bert.training.run_folder import RunFolder

    checkpoint = _checked_checkpoint(init_checkpoint, num_new_tokens)
    if max_seq_length is None:
        max_seq_length = min(128, checkpoint.config.max_sequence_length)
    checkpoint.config.check_sequence_length(max_seq_length)
    settings = {
        "run": "adapt_to_domain",
        "text": as_patterns(text),
        "text_bytes": input_size(text),
        "init_checkpoint": os.fspath(init_checkpoint),
        "num_new_tokens": num_new_tokens,
        "max_seq_length": max_seq_length,
        "num_train_steps": num_train_steps,
        "train_batch_size": train_batch_size,
        "learning_rate": learning_rate,
        "held_out_share": held_out_share,
        "random_seed": random_seed,
        "text_field": text_field,
        "language": language,
    }
    if not os.path.isdir(os.path.join(output_dir, "text")):
        with atomic_folder(output_dir) as place:  # text that cannot be used leaves no folder behind
            RunFolder(place, settings)
            divide_documents(
                text,
                os.path.join(place, "text"),
                held_out_share=held_out_share,
                text_field=text_field,
                show_progress=True,
            )
    folder = RunFolder(output_dir, settings)
    vocabulary = _new_vocabulary(folder, checkpoint, num_new_tokens, num_processes)
    num_documents = _write_records(folder, checkpoint, settings, num_processes)
    new_tokens = list(vocabulary.tokens[len(checkpoint.vocabulary) :])
    _train(folder, new_tokens, settings, save_checkpoints_steps)
    return _report(folder, new_tokens, settings, num_documents)


def _checked_checkpoint(path, num_new_tokens: int):
    """Returns the `BertCheckpoint` at `path`, which must fit this command."""
    from keras_bert.checkpoints.checkpoint import MASKED_LM
    from keras_bert.checkpoints.formats import read_checkpoint
    from keras_bert.tokenization.vocabulary import Vocabulary

    checkpoint = read_checkpoint(path)
    if MASKED_LM not in checkpoint.heads:
        raise InputError(
            f"{checkpoint.path} ({checkpoint.kind}) has no masked-LM head, with which a model guesses words. Give a "
            "checkpoint of pre-training, before it was fine-tuned."
        )
    if checkpoint.vocabulary is None:
        raise InputError(f"{checkpoint.path} has no vocabulary. Put the files of its tokenizer into its folder.")
    if num_new_tokens and not isinstance(checkpoint.vocabulary, Vocabulary):
        raise InputError(
            f"{checkpoint.path} has no WordPiece vocabulary, and only WordPiece vocabularies can get new tokens. Give "
            "--num_new_tokens=0 to train it on the text with its own tokens."
        )
    return checkpoint


def _new_vocabulary(folder, checkpoint, num_new_tokens: int, num_processes: int):
    """Writes `vocabulary` into the folder of the run, unless it is there, and returns it."""
    from data_prep.text.corpus import input_size, read_documents
    from data_prep.text.held_out_documents import TRAIN_FILE
    from data_prep.vocabulary.new_words import find_new_words
    from data_prep.vocabulary.word_counts import count_words
    from keras_bert.program.atomic_output import atomic_folder
    from keras_bert.program.long_work import progress_bar
    from keras_bert.tokenization.kinds import load_vocabulary, python_tokenizer, save_vocabulary

    if not os.path.isdir(folder.file("vocabulary")):
        vocabulary, do_lower_case = checkpoint.vocabulary, checkpoint.config.do_lower_case
        if num_new_tokens:
            text = [os.path.join(folder.file("text"), TRAIN_FILE)]
            with progress_bar(desc="counting words", total=input_size(text), unit="B", unit_scale=True) as bar:
                documents = read_documents(text, on_progress=bar.update)
                counts = count_words(documents, do_lower_case, num_processes=num_processes)
            new = find_new_words(counts, python_tokenizer(vocabulary, do_lower_case), num_new_tokens)
            vocabulary = vocabulary.replace(tokens=(*vocabulary.tokens, *new))
        with atomic_folder(folder.file("vocabulary")) as place:
            save_vocabulary(vocabulary, place)
    return load_vocabulary(folder.file("vocabulary"))


def _write_records(folder, checkpoint, settings: dict[str, Any], num_processes: int) -> int:
    """Writes records of full sentences without masks, unless they are there. Returns the number of documents."""
    from data_prep.create_pretraining_data import create_pretraining_data
    from data_prep.pretraining.pretraining_records import PretrainingOptions
    from data_prep.text.held_out_documents import TRAIN_FILE
    from data_prep.tokenized.tokenize_text import TextSettings

    made = create_pretraining_data(
        [os.path.join(folder.file("text"), TRAIN_FILE)],
        folder.file("vocabulary"),
        output_dir=folder.file("records"),
        options=PretrainingOptions(
            max_seq_length=settings["max_seq_length"],
            random_seed=settings["random_seed"],
            dupe_factor=1,
            sentence_task="none",
            dynamic_masking=True,
        ),
        settings=TextSettings(
            do_lower_case=checkpoint.config.do_lower_case, split_sentences=True, language=settings["language"]
        ),
        num_processes=num_processes,
        show_progress=True,
    )
    return made.corpus["num_documents"]


def _train(folder, new_tokens: list[str], settings: dict[str, Any], save_checkpoints_steps: int) -> None:
    """Writes `model` into the folder of the run, unless it is there."""
    from keras_bert.tasks.masked_lm.model import MaskedLM
    from keras_bert.training.pretraining import train_pretrainer
    from keras_bert.training.pretraining_options import PretrainingRunOptions
    from keras_bert.training.starting_point import StartingPoint

    if os.path.isdir(folder.model_path):
        return
    start = StartingPoint(init_checkpoint=settings["init_checkpoint"], new_tokens=new_tokens)
    if num_train_steps := settings["num_train_steps"]:
        options = PretrainingRunOptions(
            masking={"do_whole_word_mask": True},
            train_batch_size=settings["train_batch_size"],
            learning_rate=settings["learning_rate"],
            num_train_steps=num_train_steps,
            num_warmup_steps=num_train_steps // 10,
            save_checkpoints_steps=save_checkpoints_steps,
            seed=settings["random_seed"],
        )
        train_pretrainer(folder.file("pretraining"), folder.file("records"), start, options)
        start = StartingPoint(init_checkpoint=os.path.join(folder.file("pretraining"), "model"))
    # Without the next-sentence head: it was not trained on.
    folder.save_model(start.make(MaskedLM))


def _report(folder, new_tokens: list[str], settings: dict[str, Any], num_documents: int) -> Adaptation:
    """Scores both models on the held-out documents, and writes `report.txt` and `report.json`."""
    from data_prep.text.corpus import read_documents
    from data_prep.text.held_out_documents import HELD_OUT_FILE
    from keras_bert.program.atomic_output import atomic_file
    from keras_bert.tasks.masked_lm.mask_scoring import python_tokenizer
    from keras_bert.tasks.masked_lm.masked_words import choose_words, guessed_words
    from keras_bert.tasks.masked_lm.model import MaskedLM
    from keras_bert.training.run_card import write_facts, write_training_section

    texts = [" ".join(lines) for lines in read_documents([os.path.join(folder.file("text"), HELD_OUT_FILE)])]
    models = [MaskedLM.from_pretrained(path) for path in (settings["init_checkpoint"], folder.model_path)]
    tokenizers = [python_tokenizer(model) for model in models]
    both = choose_words(texts, tokenizers, max_seq_length=settings["max_seq_length"], seed=settings["random_seed"])
    num_words = sum(len(row.words) for row in both[0])
    print(f"Guessing {num_words:,} masked words of {len(texts):,} held-out documents with both models.")
    (before, losses), (after, losses_after) = (
        guessed_words(model, rows) for model, rows in zip(models, both, strict=True)
    )
    if not num_words:
        raise InputError("The held-out documents have no word that can be masked. Give more text.")
    pieces = [[row.ids[first:last] for row in rows for first, last in row.words] for rows in both]
    has_new = np.array([(ids >= len(tokenizers[0].tokens)).any() for ids in pieces[1]])
    adaptation = Adaptation(
        init_checkpoint=settings["init_checkpoint"],
        num_train_steps=settings["num_train_steps"],
        num_documents=num_documents,
        num_held_out=len(texts),
        new_tokens=new_tokens,
        pieces_per_word=tuple(float(np.mean([len(ids) for ids in side])) for side in pieces),
        loss=(float(losses.mean()), float(losses_after.mean())),
        all_words=GuessedWords.of(before, after, np.ones(len(before), bool)),
        words_with_new_tokens=GuessedWords.of(before, after, has_new),
        other_words=GuessedWords.of(before, after, ~has_new),
    )
    written = {
        "report.txt": str(adaptation),
        "report.json": json.dumps(recordable(dataclasses.asdict(adaptation)), indent=2) + "\n",
    }
    for name, content in written.items():
        with atomic_file(folder.file(name)) as file:
            file.write(content.encode())
    write_facts(folder.path, documents=num_documents, held_out_documents=len(texts))
    scores = {"masked_words_guessed_right": adaptation.all_words.after, "loss_of_a_masked_word": adaptation.loss[1]}
    write_training_section(folder.path, folder.model_path, scores)
    return adaptation


def main() -> None:
    from data_prep.text.ordered_map import available_cores

    options = flag_values(AdaptationOptions)
    options["num_processes"] = options["num_processes"] or available_cores()
    adaptation = adapt_to_domain(**options)
    print(f"\n{adaptation}\nThe adapted model: {os.path.join(options['output_dir'], 'model')}")


def command() -> None:
    run_command(main, define_flags)


if __name__ == "__main__":
    command()
