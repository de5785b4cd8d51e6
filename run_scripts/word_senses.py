"""Separates the senses of a word: a vector for each of its occurrences, as a picture, a table and an array.

Writes to output_dir: senses.png; senses.tsv, one line per occurrence with its group, coordinates and sentence; and
vectors.npy.

Example:
  python -m run_scripts.word_senses --init_checkpoint=bert-base --input_file=texts.txt --word=bank --num_groups=2 \\
      --output_dir=bank
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags

from keras_bert.program.atomic_output import atomic_folder, check_output_folder, save_array
from keras_bert.program.command_line import command_of
from keras_bert.program.option_flags import define_flag, flags_by_name
from run_scripts.asked_models import define_casing_flag, read_texts

TABLE_FILE, VECTORS_FILE, PLOT_FILE = "senses.tsv", "vectors.npy", "senses.png"
_MOST_SHOWN = 5  # occurrences of each group


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format, with its vocabulary.", required=True)
    flags.DEFINE_string("input_file", None, "Text; its lines are split into sentences.", required=True)
    flags.DEFINE_list("word", None, "The word, or several forms of it separated by commas.", required=True)
    flags.DEFINE_string("output_dir", None, "The folder to write: new or empty.", required=True)
    define_flag("num_groups", 1, "The number of groups of occurrences.", at_least=1)
    define_flag("max_occurrences", 1000, "The largest number of occurrences, taken evenly from the file.", at_least=1)
    define_flag("layers", [-1, -2, -3, -4], "The layers to average; -1 is the last.", is_list=True)
    flags.DEFINE_string("language", "en", "ISO 639 code of the language, for splitting into sentences.")
    flags.DEFINE_bool("plot", True, "Whether to draw the picture, which needs matplotlib.")
    define_flag("batch_size", 32, "Number of occurrences per batch.", at_least=1)
    define_casing_flag()


def main():
    from keras_bert.embeddings.vector_maps import check_plotting, project

    arguments = flags.FLAGS
    if arguments.plot:
        check_plotting("; --noplot does without it")
    check_output_folder(arguments.output_dir)
    sentences = _sentences(read_texts(arguments.input_file), arguments.language)

    from keras_bert.embeddings.word_senses import cluster, contexts_of, word_vectors
    from keras_bert.models.encoder_base import Encoder

    encoder = Encoder.from_pretrained(
        arguments.init_checkpoint, output_hidden_states=True, do_lower_case=arguments.do_lower_case
    )
    how = flags_by_name("layers", "max_occurrences", "batch_size")
    found = word_vectors(encoder, sentences, arguments.word, **how)
    groups, coordinates = cluster(found.vectors, arguments.num_groups), project(found.vectors)
    title = f"{', '.join(arguments.word)} in {arguments.input_file}"
    write_word_senses(arguments.output_dir, sentences, found, coordinates, groups, title=title, plot=arguments.plot)
    contexts = contexts_of(sentences, found)
    for group in sorted(set(groups.tolist())):
        members = [context for context, its_group in zip(contexts, groups, strict=True) if its_group == group]
        print(f"group {group}: {len(members)} occurrences")
        for context in members[:: -(-len(members) // _MOST_SHOWN)]:
            print(f"  {context}")
    print(f"written: {arguments.output_dir}{f', with {PLOT_FILE}' if arguments.plot else ''}")


def _sentences(lines: list[str], language: str) -> list[str]:
    from data_prep.text.sentences import split_sentences
    from keras_bert.program.long_work import progress_bar

    lines = progress_bar(lines, unit=" lines", desc="sentences", mininterval=1, delay=2)
    return [sentence for line in lines for sentence in split_sentences(line, language)]


def write_word_senses(
    path: str | os.PathLike,
    texts: Sequence[str],
    found: Any,
    coordinates: np.ndarray,
    groups: np.ndarray,
    *,
    title: str,
    plot: bool = True,
) -> None:
    """Writes the folder; the rows of the table have numbers of texts from 0, and places in these texts.

    `found` comes from `word_vectors`; `coordinates` are float (N, 2), `groups` int (N,), all 0 for none.
    """
    from keras_bert.embeddings.vector_maps import draw_points
    from keras_bert.embeddings.word_senses import contexts_of
    from keras_bert.tasks.report_files import draw, write_table

    with atomic_folder(path) as folder:
        save_array(os.path.join(folder, VECTORS_FILE), found.vectors)
        sentences = [" ".join(texts[one.text_number].split()) for one in found.occurrences]
        header = ["text", "start", "end", "group", "x", "y", "sentence"]
        rows = (
            [*dataclasses.astuple(one), group, f"{x:.5f}", f"{y:.5f}", sentence]
            for one, group, (x, y), sentence in zip(found.occurrences, groups, coordinates, sentences, strict=True)
        )
        write_table(os.path.join(folder, TABLE_FILE), header, rows)
        if plot:
            counts = enumerate(np.bincount(groups).tolist())
            labels = {group: f"group {group}: {count} occurrences" for group, count in counts}
            points = contexts_of(texts, found), coordinates, groups, labels, f"{title}, by principal components"
            draw(os.path.join(folder, PLOT_FILE), (10, 7), lambda axis: draw_points(axis, *points))


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
