"""The fine-tuning comparison reads data, computes scores and makes tables correctly."""

import io
import json
import subprocess
import sys

import pytest
import tiny
from places import PROJECT

from benchmarks import finetuning_examples as examples
from benchmarks import finetuning_quality as quality
from benchmarks import finetuning_speed as speed
from benchmarks import keras_bert_finetuning
from keras_bert.encoders.bert.encoder import BertEncoder
from keras_bert.program.errors import InputError


@pytest.fixture
def data(tmp_path):
    """Tiny files in the form of the real ones."""
    files = {
        "glue/MRPC/dev.tsv": '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\tHe said so.\t"He said.\n'
        "0\t3\t4\tOne.\tTwo.\n1\t5\t6\tA cat.\tA cat!\n",
        "glue/CoLA/dev.tsv": "gj04\t1\t\tIt rains.\ngj04\t0\t*\tRains it it.\n",
        "wnut17/emerging.dev.conll": "In\tO\nRedondo\tB-location\nBeach\tI-location\n\t\nHi\tO\n\n",
        "wnut17/emerging.test.annotated": "Ann\tB-person\n",
        "codah/full_data.tsv": "".join(f"o\tPrompt {n}\ta\tb\tc\td\t{n % 4}\n" for n in range(6)),
        "squad/dev-v1.1.json": json.dumps(
            {
                "data": [
                    {
                        "paragraphs": [
                            {
                                "context": "Paris is in France.",
                                "qas": [
                                    {"id": "q1", "question": "Where?", "answers": [{"text": "in France"}]},
                                    {"id": "q2", "question": "What?", "answers": [{"text": "Paris"}]},
                                ],
                            }
                        ]
                    }
                ]
            }
        ),
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def test_tables_are_read_with_their_quotes_and_without_their_headers(data):
    first, second, labels = examples.read_classification(data, "MRPC", "dev")
    assert first[0] == "He said so."
    assert second[0] == '"He said.'
    assert labels == [1, 0, 1]
    assert examples.read_classification(data, "CoLA", "dev") == (["It rains.", "Rains it it."], None, [1, 0])


def test_a_line_of_blanks_ends_a_sentence(data):
    words, tags = examples.read_tagged_sentences(data, "dev")
    assert words == [["In", "Redondo", "Beach"], ["Hi"]]
    assert tags == [["O", "B-location", "I-location"], ["O"]]


def test_every_fifth_question_of_codah_is_held_out(data):
    assert examples.read_multiple_choice(data, "dev")[0] == ["Prompt 0", "Prompt 5"]
    prompts, choices, labels = examples.read_multiple_choice(data, "train")
    assert prompts == ["Prompt 1", "Prompt 2", "Prompt 3", "Prompt 4"]
    assert choices[0] == ["a", "b", "c", "d"]
    assert labels == [1, 2, 3, 0]


@pytest.mark.parametrize(
    ("task", "predictions", "scores"),
    [
        ("MRPC", {"dev": [1, 1, 1]}, {"dev accuracy": 200 / 3, "dev F1": 80.0}),
        ("CoLA", {"dev": [1, 0]}, {"dev Matthews": 100.0}),
        (
            "WNUT-17",
            {"dev": [["O", "B-location", "O"], ["O"]], "test": [["B-person"]]},
            {"dev entity F1": 0.0, "test entity F1": 100.0},
        ),
        ("CODAH", {"dev": [0, 2]}, {"dev accuracy": 50.0}),
        ("SQuAD", {"dev": {"q1": "France", "q2": "Paris."}}, {"dev F1": 250 / 3, "dev EM": 50.0}),
    ],
)
def test_each_task_has_its_official_scores(task, predictions, scores, data):
    found = quality.scores_of(task, predictions, data)
    assert list(found) == list(examples.RECIPES[task].scores)
    assert found == pytest.approx(scores)


def test_the_table_compares_the_means_of_the_seeds(data):
    def run(side, seed, predictions):
        return (side, "MRPC", seed), {
            "predictions": {"dev": predictions},
            "epoch_seconds": [2.0, 1.0],
            "cpu_seconds": 9,
        }

    results = dict([run("ours", 1, [1, 0, 1]), run("ours", 2, [1, 1, 1]), run("transformers", 1, [1, 1, 1])])
    lines = quality.score_table(results, data)
    # Our accuracies are 100 and 66.7: their variance is 555.6. The variance of a single seed counts as 0.
    assert lines[2] == "| MRPC | dev accuracy | 100.0 66.7 | 66.7 | 83.33 | 66.67 | +16.67 | 16.67 |"
    assert len(lines) == 4
    assert quality.time_table(results)[2] == "| MRPC | ours | 2 | 9 | 2 1 |"


def test_runs_that_are_done_are_not_repeated_and_the_tables_are_printed(data, tmp_path):
    output = tmp_path / "quality"
    for side in quality.SIDES:
        (output / side).mkdir(parents=True)
        for seed in examples.RECIPES["CoLA"].seeds:
            result = {"task": "CoLA", "seed": seed, "predictions": {"dev": [1, 0]}}
            result |= {"epoch_seconds": [1.0], "cpu_seconds": 1.0}
            (output / side / f"CoLA-{seed}.json").write_text(json.dumps(result))
    arguments = [f"--data={data}", f"--output_dir={output}", "--model=none", "--other_python=none", "--tasks=CoLA"]
    program = [sys.executable, "-m", "benchmarks.finetuning_quality", *arguments]
    done = subprocess.run(program, capture_output=True, text=True, cwd=PROJECT)
    assert done.returncode == 0, done.stderr
    assert (
        "| CoLA | dev Matthews | 100.0 100.0 100.0 | 100.0 100.0 100.0 | 100.00 | 100.00 | +0.00 | 1.00 |"
        in done.stdout
    )


def test_a_worker_takes_turns_and_one_that_ends_is_named():
    program = "import sys; print('noise')\nfor n, _ in enumerate(sys.stdin): print(f'{{\"n\": {n}}}', flush=True)"
    worker = subprocess.Popen([sys.executable, "-c", program], stdin=-1, stdout=-1, text=True)
    try:
        assert [speed.take_turn(worker) for _ in range(2)] == [{"n": 0}, {"n": 1}]
    finally:
        worker.communicate()
    broken = subprocess.Popen([sys.executable, "-c", "input(); raise SystemExit(3)"], stdin=-1, stdout=-1, text=True)
    with pytest.raises(InputError, match="ended with 3. Run it by itself to see why"):
        speed.take_turn(broken)
    broken.communicate()


@pytest.mark.slow
def test_our_side_trains_predicts_and_takes_turns(data, tmp_path, monkeypatch, capsys):
    model = BertEncoder(tiny.config(6, hidden_size=8, max_position_embeddings=512))
    model.save_pretrained(tmp_path / "model", vocabulary=tiny.vocabulary("rains"))
    (data / "glue/CoLA/train.tsv").write_text((data / "glue/CoLA/dev.tsv").read_text())
    output = tmp_path / "cola.json"
    arguments = ["", f"--data={data}", f"--model={tmp_path / 'model'}", "--task=CoLA", f"--output={output}"]
    monkeypatch.setattr(sys, "argv", arguments)
    for name in ("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):  # they are set, and restored here
        monkeypatch.setenv(name, "2")
    keras_bert_finetuning.main()
    result = json.loads(output.read_text())
    assert len(result["epoch_seconds"]) == len(result["epoch_losses"]) == 3
    assert set(result["predictions"]["dev"]) <= {0, 1}

    monkeypatch.setattr(sys, "argv", [*arguments, "--steps_on_request=1"])
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    capsys.readouterr()
    keras_bert_finetuning.main()
    # Between [CLS] and [SEP]: three tokens, and four.
    report = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert report["tokens"] == report["all_tokens"] == 5 + 6
