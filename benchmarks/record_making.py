"""Times the making of pre-training records, without writing them, and measures how full packed rows are.

Command: python -m benchmarks.record_making PART CORPUS    (CORPUS: a folder of --tokenized_corpus)

Parts:
  speed   microseconds of one core for a record, stage by stage, with the options that matter
  fill    the share of columns that are no padding, with and without packing, and what no packing can exceed
"""

import functools
import os
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np

# The lower bound is the tests' own.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from test_sequence_packing import least_rows

from data_prep.pretraining import pretraining_records
from data_prep.pretraining.document_block import DocumentBlock
from data_prep.pretraining.pretraining_records import PretrainingOptions, block_batches
from data_prep.pretraining.sequence_packing import pack_sequences
from data_prep.tokenized.tokenized_corpus import TokenizedCorpus

LENGTHS = {128: 20, 512: 77}
VARIANTS = {
    "next sentence": {},
    "whole words": {"do_whole_word_mask": True},
    "spans of up to 10 words": {"max_ngram_size": 10},
    "packed": {"max_sequences_per_row": 8},
    "packed, whole words": {"max_sequences_per_row": 8, "do_whole_word_mask": True},
    "sentence order": {"sentence_task": "sentence_order"},
    "full sentences": {"sentence_task": "none"},
    "without masks": {"dynamic_masking": True},
}
STAGES = {"draw": "_draw_sequences", "order": "pack_sequences", "lay out": "lay_out_rows", "mask": "mask_batch"}
ROUNDS = 3


def speed(corpus: TokenizedCorpus) -> None:
    seconds: Counter = Counter()
    for stage, name in STAGES.items():
        setattr(pretraining_records, name, _timed(getattr(pretraining_records, name), stage, seconds))
    start = time.process_time()
    block = DocumentBlock.gather(corpus, np.arange(corpus.num_documents))
    print(
        f"copying {block.num_tokens:,} tokens out of the corpus: {time.process_time() - start:.3f} s, for all passes\n"
    )
    print(f"| length | options | records | us a record | {' | '.join(STAGES)} | rest |")
    print("|---" * (5 + len(STAGES)) + "|")
    for max_seq_length, most in LENGTHS.items():
        for name, changes in VARIANTS.items():
            options = PretrainingOptions(max_seq_length, most, dupe_factor=2, **changes)
            best = min((_time_records(block, options, corpus, seconds) for _ in range(ROUNDS)), key=lambda run: run[1])
            num_records, total, stages = best
            parts = [*(stages[stage] for stage in STAGES), total - sum(stages.values())]
            columns = " | ".join(f"{part / num_records * 1e6:.2f}" for part in parts)
            print(f"| {max_seq_length} | {name} | {num_records} | {total / num_records * 1e6:.2f} | {columns} |")


def _timed(function, stage: str, seconds: Counter):
    @functools.wraps(function)
    def timed(*arguments, **options):
        start = time.process_time()
        result = function(*arguments, **options)
        seconds[stage] += time.process_time() - start
        return result

    return timed


def _time_records(block, options, corpus, seconds) -> tuple[int, float, Counter]:
    seconds.clear()
    start = time.process_time()
    num_records = sum(len(batch["input_ids"]) for batch, _ in block_batches(block, options, corpus.vocabulary, 0, 0))
    return num_records, time.process_time() - start, Counter(seconds)


def fill(corpus: TokenizedCorpus) -> None:
    whole = DocumentBlock.gather(corpus, np.arange(corpus.num_documents))
    print("| documents | sentence_task | max_seq_length | mean length | not packed | packed | at most |")
    print("|---" * 7 + "|")
    for num_sentences in (None, 20, 3, 1):
        block = whole
        if num_sentences:
            bounds = np.append(np.arange(0, whole.num_sentences, num_sentences), whole.num_sentences)
            block = DocumentBlock(whole.tokens, whole.sentence_offsets, bounds)
        for task in pretraining_records.SENTENCE_TASKS:
            for max_seq_length in LENGTHS:
                options = PretrainingOptions(max_seq_length, sentence_task=task)
                rng = np.random.Generator(np.random.PCG64([options.random_seed, 0, 0, 0]))
                lengths = pretraining_records._draw_sequences(block, options, rng).lengths()
                if not len(lengths):
                    continue
                _, offsets = pack_sequences(lengths, max_seq_length, max_seq_length // 3, rng)
                full = lengths.sum() / max_seq_length
                shares = (full / rows for rows in (len(lengths), len(offsets) - 1, least_rows(lengths, max_seq_length)))
                documents = f"{num_sentences} sentence(s) each" if num_sentences else "articles"
                columns = " | ".join(f"{share:.1%}" for share in shares)
                print(f"| {documents} | `{task}` | {max_seq_length} | {lengths.mean():.0f} | {columns} |")


def main() -> None:
    parts = {"speed": speed, "fill": fill}
    if len(sys.argv) != 3 or sys.argv[1] not in parts or not os.path.isdir(sys.argv[2]):
        sys.exit(__doc__)
    parts[sys.argv[1]](TokenizedCorpus.open(sys.argv[2]))


if __name__ == "__main__":
    main()
