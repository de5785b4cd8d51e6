"""Measures how fast `TextToText` writes beside `generate` of transformers: the same weights, the sides in turns.

    python -m benchmarks.generation_speed --other_python=PYTHON --size=minilm

PYTHON has torch and transformers. Both sides load one folder with a new model, and write 32 tokens for sources of 17 to
32 tokens; no target may end before. A line of the table has medians over the turns: tokens of the best targets per
second, and the ratio of the times of transformers and ours, turn by turn.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time

import numpy as np

NEW_TOKENS, LENGTH = 32, 32
CASES = [(beams, batch) for beams in (1, 4) for batch in (1, 16)]
COLUMNS = ["beams", "batch", "tokens/s, ours", "transformers", "ratio"]
SHAPES = {"small": (5000, 128, 2, 4, 512), "minilm": (30522, 384, 6, 12, 1536)}  # tokens, width, layers, heads, inner
PAD, START, END = 0, 2, 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other_python", help="a Python with torch and transformers")
    parser.add_argument("--size", choices=SHAPES, default="minilm")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--side", choices=SIDES, help="work as this side, for the folder --model")
    parser.add_argument("--model")
    arguments = parser.parse_args()
    if arguments.side:
        work(SIDES[arguments.side](arguments.model, arguments.threads))
    else:
        compare(arguments)


def compare(arguments) -> None:
    from benchmarks.finetuning_quality import threads_environment
    from benchmarks.tables import ratio_of, table_lines
    from benchmarks.workers_in_turns import end_workers, start_worker, take_turn
    from keras_bert import BertConfig, TextToText, Vocabulary

    rows, workers = [], []
    with tempfile.TemporaryDirectory() as folder:
        # With the usual range, the tokens of a new model would differ by less than the rounding of their sums.
        usual = {"max_position_embeddings": 64, "hidden_act": "gelu_erf", "initializer_range": 0.1}
        config = BertConfig(*SHAPES[arguments.size], **usual)
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{n}" for n in range(5, config.vocab_size))]
        TextToText(config).save_pretrained(f"{folder}/model", Vocabulary(tokens), format="huggingface")
        given = {"model": f"{folder}/model", "threads": arguments.threads}
        try:
            for side, python in (("ours", sys.executable), ("transformers", arguments.other_python)):
                environment = threads_environment(arguments.threads)
                workers.append(start_worker(python, "benchmarks.generation_speed", given | {"side": side}, environment))
            for case in CASES:
                written = [take_turn(worker, json.dumps(case))["ids"] for worker in workers]
                if written[0] != written[1]:
                    print(f"Beams and batch {case}: the sides write different tokens.", file=sys.stderr)
                turns = [
                    [take_turn(side, json.dumps(case))["seconds"] for side in workers] for _ in range(arguments.turns)
                ]
                ours, theirs = zip(*turns, strict=True)
                rates = (case[1] * NEW_TOKENS / statistics.median(seconds) for seconds in (ours, theirs))
                rows.append([*map(str, case), *(f"{rate:,.0f}" for rate in rates), ratio_of(theirs, ours)])
        finally:
            end_workers(workers)
    print("\n".join(table_lines(COLUMNS, rows)))


def work(write) -> None:
    """Answers each line `[beams, batch]` with the written ids and the seconds of the processor."""
    for line in sys.stdin:
        beams, batch = json.loads(line)
        lengths = LENGTH - np.arange(batch)[:, None]
        ids, columns = np.random.default_rng(0).integers(5, 5000, (batch, LENGTH)), np.arange(LENGTH)
        ids = np.where(columns == 0, START, np.where(columns < lengths - 1, ids, np.where(columns < lengths, END, PAD)))
        start = time.process_time()
        written = write(ids, beams)
        print(json.dumps({"seconds": time.process_time() - start, "ids": written.tolist()}), flush=True)


def ours(path: str, threads: int):
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    from keras_bert import TextToText
    from keras_bert.models.beam_search import SearchOptions

    model, functions = TextToText.from_pretrained(path), {}

    def write(ids, beams):
        options = SearchOptions(beams, NEW_TOKENS, min_new_tokens=NEW_TOKENS - 1)
        ids = tf.constant(ids, tf.int32)
        mask = tf.cast(ids != PAD, tf.int32)
        if beams not in functions:
            functions[beams] = tf.function(
                lambda inputs: model.generate(inputs, options).ids[:, 0], reduce_retracing=True
            )
        return functions[beams]({"input_ids": ids, "input_mask": mask, "segment_ids": tf.zeros_like(ids)}).numpy()

    return write


def transformers(path: str, threads: int):
    import torch
    from transformers import EncoderDecoderModel

    torch.set_num_threads(threads)
    model = EncoderDecoderModel.from_pretrained(path).eval()
    lengths = {"max_new_tokens": NEW_TOKENS, "min_new_tokens": NEW_TOKENS - 1, "do_sample": False}

    def write(ids, beams):
        ids = torch.tensor(ids)
        with torch.no_grad():
            found = model.generate(input_ids=ids, attention_mask=(ids != PAD).long(), num_beams=beams, **lengths)
        return found[:, 1:].numpy()

    return write


SIDES = {"ours": ours, "transformers": transformers}

if __name__ == "__main__":
    main()
