"""Trains the same tiny BERT on the same text, written as every form of pre-training records, and compares.

For each form: the share of columns that hold tokens, real tokens a second while training, the masked-language-model
loss along the way, and how the model does on held-out text, which is the same records for all. Every form gets about
the same number of tokens per update: rows that hold more come in smaller batches.

  python -m benchmarks.record_forms --text=wikipedia_articles.txt --work_dir=/tmp/forms
"""

import os
import statistics
import sys

from absl import flags

from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS

FORMS = {
    "padded": {},
    "padded_second_seed": {"random_seed": 2},
    "packed": {"max_sequences_per_row": 8},
    "unmasked": {"dynamic_masking": True},
    "unmasked_packed": {"max_sequences_per_row": 8, "dynamic_masking": True},
    "unmasked_full_sentences": {"sentence_task": "none", "dynamic_masking": True},
}


def define_flags() -> None:
    flags.DEFINE_string("text", None, "A file of paragraphs, a blank line between documents.", required=True)
    flags.DEFINE_string("work_dir", None, "A new folder for text, records and runs.", required=True)
    flags.DEFINE_list("forms", list(FORMS), "Which of the forms; the first sets the tokens per update.")
    flags.DEFINE_integer("train_bytes", 2_000_000, "How much of the text is trained on.")
    flags.DEFINE_integer("eval_bytes", 300_000, "How much of what follows is evaluated on.")
    flags.DEFINE_integer("vocab_size", 2000, "Tokens of the vocabulary, learnt from the training text.")
    flags.DEFINE_integer("max_seq_length", 128, "Columns of a row.")
    flags.DEFINE_integer("train_batch_size", 16, "Rows per update of one sequence each.")
    flags.DEFINE_integer("num_train_steps", 1000, "Updates.")


def main() -> None:
    from benchmarks.sample_text import write_sample
    from data_prep.build_vocabulary import build_vocabulary

    os.makedirs(FLAGS.work_dir)
    texts = {name: os.path.join(FLAGS.work_dir, f"{name}.txt") for name in ("train", "eval", "vocab")}
    write_sample(FLAGS.text, texts["train"], FLAGS.train_bytes)
    write_sample(FLAGS.text, texts["eval"], FLAGS.eval_bytes, skip_bytes=FLAGS.train_bytes)
    build_vocabulary(texts["train"], texts["vocab"], vocab_size=FLAGS.vocab_size)
    _, eval_records = make_records(texts, "eval", {}, dupe_factor=1)
    tokens_per_row, rows = None, []
    for name in FLAGS.forms:
        options = FORMS[name]
        counts, records = make_records(texts, name, options, dupe_factor=3)
        tokens_per_row = tokens_per_row or counts.num_tokens / counts.num_records
        rows.append(measure(name, options, counts, tokens_per_row, records, eval_records, texts["vocab"]))
        print("  ".join(rows[-1]), file=sys.stderr, flush=True)
    print(
        "| records | columns with tokens | batch | tokens/s | loss at 1/4, 1/2, end | held-out loss | accuracy | NSP |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def make_records(texts: dict[str, str], name: str, options: dict, dupe_factor: int):
    """Writes records of one form and returns their counts and their folder."""
    from data_prep.create_pretraining_data import create_pretraining_data
    from data_prep.pretraining.pretraining_records import PretrainingOptions

    folder = os.path.join(FLAGS.work_dir, "records", name)
    length = FLAGS.max_seq_length
    summary = create_pretraining_data(
        texts["eval" if name == "eval" else "train"],
        texts["vocab"],
        output_dir=folder,
        num_shards=1,
        options=PretrainingOptions(
            max_seq_length=length,
            max_predictions_per_seq=round(0.15 * length) + (4 if "max_sequences_per_row" in options else 0),
            dupe_factor=dupe_factor,
            **options,
        ),
    )
    return summary.records, folder


def measure(name, options, counts, tokens_per_row, records, eval_records, vocab_file) -> list[str]:
    """Trains and evaluates, and returns the cells of a table row."""
    from keras_bert.config import BertConfig
    from keras_bert.tokenization.vocabulary import Vocabulary
    from keras_bert.training.callbacks import read_history
    from keras_bert.training.pretraining import evaluate_pretrainer, train_pretrainer
    from keras_bert.training.pretraining_options import PretrainingRunOptions
    from keras_bert.training.starting_point import StartingPoint

    vocabulary = Vocabulary.from_file(vocab_file)
    own_tokens_per_row = counts.num_tokens / counts.num_records
    batch_size = round(FLAGS.train_batch_size * tokens_per_row / own_tokens_per_row)
    folder = os.path.join(FLAGS.work_dir, "runs", name)
    start = StartingPoint(BertConfig.from_size("tiny", vocab_size=len(vocabulary)), vocabulary)
    run_options = PretrainingRunOptions(
        train_batch_size=batch_size,
        learning_rate=2e-3,
        adam_beta_2=0.98,
        num_train_steps=FLAGS.num_train_steps,
        num_warmup_steps=FLAGS.num_train_steps // 10,
        seed=options.get("random_seed", 1),
    )
    train_pretrainer(folder, records, start, run_options)
    results = evaluate_pretrainer(folder, eval_records)
    history = read_history(os.path.join(folder, "history.jsonl"))
    # The first line has the compiling in it; the median is not moved by what else the machine does now and then.
    rate = statistics.median(line["sequences_per_second"] for line in history[1:])
    quarter = len(history) // 4
    curve = [history[place]["masked_lm_loss"] for place in (quarter - 1, 2 * quarter - 1, -1)]
    return [
        name,
        f"{counts.num_tokens / counts.num_positions:.1%}",
        f"{batch_size}",
        f"{rate * own_tokens_per_row:,.0f}",
        " ".join(f"{loss:.2f}" for loss in curve),
        f"{results['masked_lm_loss']:.3f}",
        f"{results['masked_lm_accuracy']:.1%}",
        "n/a" if options.get("sentence_task") == "none" else f"{results['next_sentence_accuracy']:.1%}",
    ]


if __name__ == "__main__":
    run_command(main, define_flags)
