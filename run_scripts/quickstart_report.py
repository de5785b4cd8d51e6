"""The last step of the quickstart: a table of its results and scores, and a picture of the loss curves.

Reads the folders that run_scripts/quickstart.sh writes. The table is printed and written to report.txt, the picture to
loss_curves.png (which needs matplotlib).
"""

import importlib.util
import json
import os

from absl import flags

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.command_line import command_of
from keras_bert.program.errors import InputError, how_to_install

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_string("output_dir", None, "The folder of the quickstart.", required=True)


def main() -> None:
    table = report(FLAGS.output_dir)
    with atomic_file(os.path.join(FLAGS.output_dir, "report.txt")) as file:
        file.write(table.encode("utf-8"))
    print(table, end="")
    if importlib.util.find_spec("matplotlib") is None:
        print(f"No picture of the loss curves: matplotlib is not installed. {how_to_install('plots')}")
    else:
        print(f"Loss curves: {draw_loss_curves(FLAGS.output_dir)}")


def report(folder: str) -> str:
    """Returns the table as text. Raises `InputError` if a stage of the quickstart has not been run in this folder."""
    manifest = json.loads(_read(folder, "records", "manifest.json"))
    corpus, records, options = manifest["corpus"], manifest["records"], manifest["request"]["options"]
    vocabulary_size = _read(folder, "vocab.txt").count("\n")
    pretraining = _results(folder, "pretraining")
    classifier, from_scratch = _results(folder, "classifier"), _results(folder, "classifier_from_scratch")
    margin = classifier["eval_accuracy"] - from_scratch["eval_accuracy"]
    made = [
        ("text", f"{corpus['input_bytes'] / 1e6:.1f} MB, {corpus['num_documents']:,} documents", "text/"),
        ("vocabulary", f"{vocabulary_size:,} WordPiece tokens", "vocab.txt"),
        ("records", f"{records['num_examples']:,} of {options['max_seq_length']} tokens", "records/"),
        ("pre-trained BERT", f"{int(pretraining['global_step']):,} steps", "pretraining/model/"),
        ("classifier", f"{int(classifier['global_step']):,} steps", "classifier/model/"),
        ("SavedModels", f"{_megabytes(folder, 'saved_models'):.1f} MB", "saved_models/"),
    ]
    scores = [
        ("masked words guessed right (documents not trained on)", pretraining["masked_lm_accuracy"]),
        ("next sentence told from a random one", pretraining["next_sentence_accuracy"]),
        ("library of a paragraph told right (modules not trained on)", classifier["eval_accuracy"]),
        ("  the same model without pre-training", from_scratch["eval_accuracy"]),
        ("  always the most frequent library", classifier["eval_majority_rate"]),
    ]
    lines = ["What was made", *(f"  {name:<18}{size:<36}{place}" for name, size, place in made), ""]
    lines += ["How well it does", *(f"  {name:<62}{100 * value:5.1f} %" for name, value in scores), ""]
    lines += [f"Pre-training is worth {100 * margin:+.1f} points here.", ""]
    return "\n".join(lines)


def draw_loss_curves(folder: str) -> str:
    """Draws the losses of the three trainings and returns the path of the picture."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
    for axes, stage, name, label in [
        (left, "pretraining", "masked_lm_loss", "masked words"),
        (left, "pretraining", "next_sentence_loss", "next sentence"),
        (right, "classifier", "loss", "pre-trained"),
        (right, "classifier_from_scratch", "loss", "from scratch"),
    ]:
        history = [json.loads(line) for line in _read(folder, stage, "history.jsonl").splitlines()]
        axes.plot([line["step"] for line in history], [line[name] for line in history], label=label)
    for axes, title in [(left, "Pre-training"), (right, "Classifier")]:
        axes.set(title=title, xlabel="step", ylabel="training loss", ylim=(0, None))
        axes.legend()
        axes.grid(alpha=0.3)
    path = os.path.join(folder, "loss_curves.png")
    with atomic_file(path) as file:
        figure.savefig(file, format="png", dpi=120)
    pyplot.close(figure)
    return path


def _read(*parts: str) -> str:
    path = os.path.join(*parts)
    if not os.path.isfile(path):
        raise InputError(f"There is no {path}: run the quickstart to its end first (make quickstart).")
    with open(path, encoding="utf-8") as file:
        return file.read()


def _results(folder: str, stage: str) -> dict[str, float]:
    lines = _read(folder, stage, "eval_results.txt").splitlines()
    return {name: float(value) for name, value in (line.split(" = ") for line in lines)}


def _megabytes(folder: str, name: str) -> float:
    files = (os.path.join(parent, file) for parent, _, names in os.walk(os.path.join(folder, name)) for file in names)
    return sum(map(os.path.getsize, files)) / 1e6


command = command_of(main, define_flags)
if __name__ == "__main__":
    command()
