"""Writes the vectors of every token of every text, layer by layer, like Google's extract_features.py.

An input line has one text, or two: "first text ||| second text". The output is Google's JSON Lines, or with
--output_format=npy a folder of arrays, which are much smaller and can be memory-mapped:
  vectors.npy     [tokens of all texts, layers, H], float32 or float16
  offsets.npy     [texts + 1]: text i has the rows offsets[i] to offsets[i + 1]
  token_ids.npy   [tokens of all texts]

Example:
  python -m run_scripts.extract_features --init_checkpoint=bert-base --input_file=texts.txt --output_file=features.jsonl
"""

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from absl import flags

from keras_bert.program.atomic_output import (
    atomic_file,
    atomic_folder,
    check_output_file,
    check_output_folder,
    save_array,
)
from keras_bert.program.command_line import command_of, refuse_flags_without_effect
from keras_bert.program.long_work import progress_bar
from keras_bert.program.option_flags import define_flag, flags_by_name
from run_scripts.asked_models import define_casing_flag, define_vector_flags, read_texts
from run_scripts.run_flags import define_use_tpu

PAIR_MARK = " ||| "
LAYERS = (-1, -2, -3, -4)


def define_flags() -> None:
    flags.DEFINE_string("init_checkpoint", None, "A checkpoint of any format, with its vocabulary.", required=True)
    flags.DEFINE_string("input_file", None, "Texts, one per line, or pairs joined by ' ||| '.", required=True)
    flags.DEFINE_string("output_file", None, "The file of JSON Lines, or the folder of arrays.", required=True)
    define_use_tpu("Features are computed on TensorFlow's default device.")
    flags.DEFINE_enum("output_format", "jsonl", ["jsonl", "npy"], "JSON Lines or arrays.")
    flags.DEFINE_enum("dtype", "float32", ["float32", "float16"], "The dtype of the vectors in the arrays.")
    define_flag("layers", [*LAYERS], "The layers: -1 is the last, 0 the first.", is_list=True)
    define_vector_flags("128, or all positions of a shorter model", has_pooling=False)
    define_casing_flag()


def main():
    arguments = flags.FLAGS
    refuse_flags_without_effect(arguments.output_format == "npy", "without --output_format=npy", "dtype")
    if arguments.output_format == "jsonl":
        check_output_file(arguments.output_file, [arguments.input_file])
    else:
        check_output_folder(arguments.output_file)

    from keras_bert.models.encoder_base import Encoder
    from keras_bert.records.token_rows import row_length

    encoder = Encoder.from_pretrained(
        arguments.init_checkpoint, do_lower_case=arguments.do_lower_case, output_hidden_states=True
    )
    how = flags_by_name("output_format", "dtype", "layers", "batch_size")
    how["max_seq_length"] = row_length(encoder.config, arguments.max_seq_length, 128)
    texts = read_texts(arguments.input_file)
    extract_features(encoder, texts, arguments.output_file, **how)
    print(f"{arguments.output_file}: features of {len(texts):,} texts")


def extract_features(
    model: Any,
    texts: Iterable[str],
    output_file: str,
    *,
    output_format: str = "jsonl",
    dtype: str = "float32",
    layers: Sequence[int] = LAYERS,
    max_seq_length: int = 128,
    batch_size: int = 32,
) -> None:
    """Writes the vectors of all tokens of texts; the arguments are those of the flags.

    `model` is a `BertEncoder` made with `output_hidden_states=True`, with a vocabulary. Raises `InputError` if the file
    cannot be written, or a layer is not there.
    """
    from keras_bert.embeddings.text_vectors import encode_texts, token_features

    pairs = [tuple(text.split(PAIR_MARK, 1)) for text in texts]
    encoded = list(encode_texts(model, pairs, max_seq_length))
    with progress_bar(total=len(encoded), unit=" texts", mininterval=1) as bar:
        vectors = token_features(model, encoded, layers, batch_size, bar.update)
        if output_format == "jsonl":
            with atomic_file(output_file) as file:
                file.writelines(_json_lines(encoded, vectors, layers, model.vocabulary.tokens))
        else:
            _write_arrays(output_file, encoded, vectors, (len(layers), model.config.hidden_size), dtype)


def _write_arrays(path: str, encoded: Sequence[Any], vectors, shape: tuple[int, int], dtype: str) -> None:
    """Writes the folder of the form `npy`; `shape` is that of the vectors of one token."""
    offsets = np.cumsum([0, *(len(text.ids) for text in encoded)])
    with atomic_folder(path) as folder:
        save_array(os.path.join(folder, "offsets.npy"), offsets)
        save_array(os.path.join(folder, "token_ids.npy"), np.array([i for text in encoded for i in text.ids], "int32"))
        with open(os.path.join(folder, "vectors.npy"), "wb") as file:
            np.lib.format.write_array_header_1_0(
                file, {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (int(offsets[-1]), *shape)}
            )
            for array in vectors:
                file.write(array.astype(dtype).tobytes())


def _json_lines(encoded: Sequence[Any], vectors, layers, tokens) -> Iterator[bytes]:
    """Yields Google's lines; `linex_index` is spelt as it is there."""
    for number, (text, array) in enumerate(zip(encoded, vectors, strict=True)):
        rounded = array.astype("float64").round(6).tolist()
        found = [
            {
                "token": tokens[token_id],
                "layers": [{"index": layer, "values": values} for layer, values in zip(layers, row, strict=True)],
            }
            for token_id, row in zip(text.ids, rounded, strict=True)
        ]
        yield (json.dumps({"linex_index": number, "features": found}, ensure_ascii=False) + "\n").encode()


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
