"""docs/finetuning_data.md is correct: its examples run unchanged."""

import json
import pathlib
import re
import shlex
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
import tiny
from places import DOCS, TESTS

from keras_bert.tasks.pretraining.pretrainer import BertPretrainer

PAGE = (DOCS / "finetuning_data.md").read_text("utf-8")
WORDS = ["a", "lovely", "film", "dull", "from", "start", "to", "end", "ada", "lovelace", "wrote", "london", "calls"]


@pytest.mark.slow
def test_every_example_of_the_page_runs(tmp_path, monkeypatch, capsys):
    letters = [chr(number) for number in range(ord("a"), ord("z") + 1)]
    tokens = [*WORDS, *letters[1:], *(f"##{letter}" for letter in letters), *".,?!"]
    vocabulary = tiny.vocabulary(*tokens)
    vocabulary.save(tmp_path / "vocab.txt")
    monkeypatch.chdir(tmp_path)
    commands = []
    for block in re.findall(r"```\n\$ cat (.*?)```", PAGE, re.S):
        content, command = block.split("$ python -m ")
        name, _, content = content.partition("\n")
        output = f"records{len(commands)}" if commands else "records"
        path = pathlib.Path(f"in-{output}", name)
        path.parent.mkdir(parents=True)
        path.write_text(content, "utf-8")
        command = command.replace("\\\n", " ").replace("=records", f"={output}")
        command = command.replace(f"_file={name}", f"_file={path}").replace("--data_dir=", f"--data_dir=in-{output}/")
        commands.append(shlex.split(command))
    pathlib.Path("commands.json").write_text(json.dumps(commands))
    program = [sys.executable, TESTS / "commands_in_turn.py", "commands.json"]
    result = subprocess.run(program, capture_output=True, text=True)
    assert result.stdout.count("create_finetuning_data: 0\n") == 6, result.stderr
    metadata = [json.loads(path.read_text("utf-8")) for path in sorted(tmp_path.glob("records*/metadata.json"))]
    assert [data["train_data_size"] for data in metadata] == [2, 2, 2, 2, 2, 1]
    assert [data.get("num_labels") for data in metadata] == [2, None, 3, 2, 4, None]

    line = json.loads((tmp_path / "records5" / "predict.windows.jsonl").read_text("utf-8"))
    record = next(tf.data.TFRecordDataset("records5/train.tf_record").as_numpy_iterator())
    lists = tf.train.Example.FromString(record).features.feature
    start, end = (lists[name].int64_list.value[0] for name in ("start_positions", "end_positions"))
    shift = line["windows"][0]["first_token"] - line["windows"][0]["first_column"]
    assert line["context"][line["token_starts"][start + shift] : line["token_ends"][end + shift]] == "London"

    config = tiny.config(vocabulary, hidden_size=8, max_position_embeddings=128)
    BertPretrainer(config).save_pretrained("my_bert", vocabulary)
    (program,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    program = program.replace("steps_per_epoch=100", "steps_per_epoch=2")
    exec(compile(program, "finetuning_data.md", "exec"), names := {})
    assert "Epoch 3/3" in capsys.readouterr().out
    assert np.isfinite(names["model"].history.history["loss"]).all()
