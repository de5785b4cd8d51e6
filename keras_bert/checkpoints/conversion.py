"""Converts checkpoints from any format to any other, tensor by tensor, without creating a model."""

import os
from collections.abc import Sequence

from keras_bert.checkpoints import formats
from keras_bert.checkpoints.resizing import extended_to_long_rows, resized
from keras_bert.program.atomic_output import check_output_folder
from keras_bert.program.long_work import long_work


def convert_checkpoint(
    input_path: str | os.PathLike,
    output_path: str | os.PathLike,
    format: str = "keras_bert",
    *,
    max_position_embeddings: int | None = None,
    max_positions: int | None = None,
    new_tokens: Sequence[str] = (),
    do_lower_case: bool | None = None,
    trust_pickle: bool = False,
    base: str | os.PathLike | None = None,
) -> list[str]:
    """Writes a checkpoint in another format. At most one tensor is in memory at a time.

    Args:
        input_path, do_lower_case, trust_pickle, base: see `formats.read_checkpoint`.
        output_path: a new or empty folder.
        format: one of `formats.WRITERS`.
        max_position_embeddings, new_tokens: see `resizing.resized`.
        max_positions: see `resizing.extended_to_long_rows`; applied last.

    Returns:
        Lines for the user: what was written, ignored and changed.

    Raises:
        InputError: the input cannot be read, or the format cannot hold it. Nothing is left at `output_path`.
    """
    formats.check_format(format)
    check_output_folder(output_path)
    with long_work(f"converting {os.fspath(input_path)}"):
        checkpoint = formats.read_checkpoint(input_path, do_lower_case, trust_pickle, base)
        checkpoint = resized(checkpoint, max_position_embeddings, new_tokens)
        if max_positions is not None:
            checkpoint = extended_to_long_rows(checkpoint, max_positions)
        with long_work(f"writing {len(checkpoint.tensors)} tensors of {checkpoint.num_bytes / 1e6:,.1f} MB"):
            notes = formats.write_checkpoint(checkpoint, output_path, format)
    parts = ", ".join(["encoder", *checkpoint.heads])
    lines = [
        f"{os.fspath(output_path)} ({format}) from {checkpoint.path} ({checkpoint.kind}): {parts}; "
        f"{len(checkpoint.tensors)} tensors, {checkpoint.num_bytes / 1e6:,.1f} MB"
    ]
    lines += [f"note: {remark}" for remark in (*checkpoint.remarks, *notes)]
    return lines + ([f"ignored: {', '.join(checkpoint.ignored)}"] if checkpoint.ignored else [])
