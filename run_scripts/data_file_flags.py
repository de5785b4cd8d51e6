"""Flags for the files to train on, to evaluate on and to predict, named one by one or by their folder."""

from collections.abc import Sequence

from absl import flags

from keras_bert.program.errors import InputError

FLAGS = flags.FLAGS
# Part of the data -> the flag that names its file, the purpose in words, and the flag that requests it.
_PARTS = {
    "train": ("train_file", "train on", "do_train"),
    "eval": ("dev_file", "evaluate on", "do_eval"),
    "predict": ("test_file", "predict", "do_predict"),
}


def define_data_file_flags(examples: str, data_dir: str) -> None:
    """Defines the flags. The arguments describe the content of the files, and the file names in the folder."""
    flags.DEFINE_string("data_dir", None, f"A folder with train, dev and test files: {data_dir}.")
    flags.DEFINE_string("train_file", None, f"{examples} to train on: a file, or tfds:NAME@SPLIT.")
    flags.DEFINE_string("dev_file", None, f"{examples} to evaluate on.")
    flags.DEFINE_string("test_file", None, f"{examples} to predict; labels are not needed.")
    define_skip_missing_flag()
    # The names in create_finetuning_data.
    flags.DEFINE_alias("eval_file", "dev_file")
    flags.DEFINE_alias("predict_file", "test_file")
    flags.DEFINE_boolean("do_eval", False, "Evaluate on dev_file.")
    flags.DEFINE_integer("eval_batch_size", 8, "Examples per evaluation step.")


def define_skip_missing_flag() -> None:
    flags.DEFINE_boolean("skip_missing", False, "Leave out rows without a text or a label, and say how many.")


def data_files(endings: Sequence[str] | None = None) -> dict[str, str]:
    """Returns part -> file for the requested parts of "train", "eval" and "predict": named files, else the folder's.

    Args:
        endings: the possible endings of files in the folder; by default those of tables.

    Raises:
        InputError: nothing is requested, or a file does not exist.
    """
    from data_prep.finetuning.data_folder import TABLE_ENDINGS, find_parts

    parts = [part for part, (_, _, do_it) in _PARTS.items() if FLAGS[do_it].value]
    if not parts:
        raise InputError("Nothing to do. Give --do_train, --do_eval, --do_predict or several of them.")
    found = {part: FLAGS[_PARTS[part][0]].value for part in parts}
    missing = [part for part in parts if not found[part]]
    in_folder = find_parts(FLAGS.data_dir, endings or TABLE_ENDINGS) if missing and FLAGS.data_dir else {}
    for part in missing:
        if part not in in_folder:
            flag, purpose, _ = _PARTS[part]
            place = f" in {FLAGS.data_dir}" if FLAGS.data_dir else ""
            raise InputError(f"There is nothing to {purpose}{place}. Give --{flag}{'' if place else ' or --data_dir'}.")
    return {part: found[part] or in_folder[part] for part in parts}
