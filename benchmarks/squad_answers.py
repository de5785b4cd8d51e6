"""How long it takes to make windows of SQuAD, to find the answers in their logits, and to score these.

  python -m benchmarks.squad_answers --predict_file=dev-v1.1.json --vocab_file=vocab.txt

The logits are random numbers: no model runs. Times are of this process, without start-up.
"""

import time

from absl import flags

from keras_bert.program.command_line import run_command

FLAGS = flags.FLAGS


def define_flags() -> None:
    flags.DEFINE_string("predict_file", None, "Questions in the form of SQuAD, with answers.", required=True)
    flags.DEFINE_string("vocab_file", None, "An uncased vocabulary.", required=True)
    flags.DEFINE_integer("max_seq_length", 384, "Tokens of a window.")
    flags.DEFINE_integer("doc_stride", 128, "Tokens between two windows.")


def main() -> None:
    import numpy as np

    from data_prep.finetuning.squad import read_squad
    from keras_bert.tasks.question_answering.answer_spans import AnswerOptions, find_answers
    from keras_bert.tasks.question_answering.rows import WindowOptions, make_windows
    from keras_bert.tasks.question_answering.scores import squad_scores
    from keras_bert.tokenization.graph_wordpiece import GraphTokenizer
    from keras_bert.tokenization.vocabulary import Vocabulary

    tokenizer = GraphTokenizer(Vocabulary.from_file(FLAGS.vocab_file))
    tokenizer.tokenize_with_offsets(["warm-up"])
    with _Timed("reading the file"):
        questions = read_squad(FLAGS.predict_file)
    with _Timed("windows"):
        options = WindowOptions(FLAGS.max_seq_length, FLAGS.doc_stride)
        windows = make_windows(questions.questions, questions.contexts, tokenizer, options)
    logits = np.random.default_rng(0).normal(size=(2, len(windows.ids))).astype(np.float32)
    has_null = not all(questions.answers)
    with _Timed("answers with 20 best"):
        options = AnswerOptions(null_threshold=0.0 if has_null else None)
        answers = find_answers(windows, questions.contexts, *logits, options)
    with _Timed("official scores"):
        wanted = {
            name: [answer.text for answer in texts]
            for name, texts in zip(questions.ids, questions.answers, strict=True)
        }
        given = {name: answer.text for name, answer in zip(questions.ids, answers, strict=True)}
        squad_scores(wanted, given, as_in_1_1=not has_null)
    print(f"{len(questions):,} questions, {len(windows):,} windows, {len(windows.ids):,} tokens")


class _Timed:
    def __init__(self, name: str):
        self._name = name

    def __enter__(self):
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def __exit__(self, *exception):
        wall, processor = time.perf_counter() - self._wall, time.process_time() - self._processor
        print(f"{self._name}: {wall:.2f} s, {processor:.2f} s of processor time")


if __name__ == "__main__":
    run_command(main, define_flags)
