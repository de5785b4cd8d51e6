"""Files of features: texts in, vectors of their tokens out."""

import json
import os
from collections.abc import Iterator, Sequence

import numpy as np

from keras_bert.embeddings.text_vectors import EncodedText, encode_texts, token_features
from keras_bert.program.atomic_output import atomic_file, atomic_folder, check_output_file, save_array
from keras_bert.program.errors import InputError
from keras_bert.program.long_work import progress_bar

PAIR_MARK = " ||| "


def extract_features(
    model,
    input_file: str,
    output_file: str,
    *,
    output_format: str = "jsonl",
    dtype: str = "float32",
    layers: Sequence[int] = (-1, -2, -3, -4),
    max_seq_length: int = 128,
    batch_size: int = 32,
) -> int:
    """Writes the vectors of all tokens of the lines of a file.

    Args:
        model: a `BertEncoder` made with `output_hidden_states=True`, with a vocabulary.
        input_file: a text a line, or two joined by ` ||| `.
        output_file: a file of JSON Lines, or for `npy` a folder: see `run_scripts/extract_features.py`.

    Returns:
        The number of texts.

    Raises:
        InputError: a file cannot be read or written, or a layer is not there.
    """
    if output_format == "jsonl":
        check_output_file(output_file, [input_file])
    texts = [tuple(line.split(PAIR_MARK, 1)) for line in read_texts(input_file)]
    encoded = list(encode_texts(model, texts, max_seq_length))
    with progress_bar(total=len(encoded), unit=" texts", mininterval=1) as bar:
        vectors = token_features(model, encoded, layers, batch_size, bar.update)
        if output_format == "jsonl":
            with atomic_file(output_file) as file:
                file.writelines(_json_lines(encoded, vectors, layers, model.vocabulary.tokens))
        else:
            _write_arrays(output_file, encoded, vectors, (len(layers), model.config.hidden_size), dtype)
    return len(encoded)


def _write_arrays(path: str, encoded: Sequence[EncodedText], vectors, shape: tuple[int, int], dtype: str) -> None:
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


def read_texts(path: str) -> list[str]:
    """Returns the lines of a file without the white space around them; empty lines are texts too."""
    try:
        with open(path, encoding="utf-8") as file:
            texts = [line.strip() for line in file]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Cannot read the texts in {path}: {error}.") from None
    if not texts:
        raise InputError(f"{path} is empty. It must hold one text a line.")
    return texts


def _json_lines(encoded: Sequence[EncodedText], vectors, layers, tokens) -> Iterator[bytes]:
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
