"""A folder of small files for `run_classifier`."""

import tiny

VOCABULARY = tiny.vocabulary("good bad film the")
CONFIG = tiny.config(VOCABULARY, hidden_size=8)


def write_files(tmp_path):
    """Writes small files with texts and labels into a folder, good and bad ones, and returns the folder."""
    rows = ["text\tlabel"] + ["the good film\tyes", "the bad film\tno", "good\tyes"] * 6
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        (tmp_path / name).write_text("\n".join(rows) + "\n")
    (tmp_path / "pairs.tsv").write_text("sentence1\tsentence2\tlabel\ngood\tbad\tyes\n")
    (tmp_path / "one.jsonl").write_text('{"sentence": "good", "label": "yes"}\n' * 2)
    return tmp_path


def from_scratch(folder):
    return [*tiny.flags_from_scratch(folder, VOCABULARY, CONFIG), "--max_seq_length=16"]
