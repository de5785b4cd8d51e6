"""Times the tokenizer in tf.data on one core, beside other tokenizers, on the Wikipedia corpus.

    taskset -c 0 python -m benchmarks.tokenization_speed DATA_FOLDER [VOCABULARY ...]

Prints MB/s and the share of the bytes that take the exact path. Without names of vocabularies, such as uncased, it
measures all, and byte-level BPE.
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

CASINGS = {"uncased": True, "cased": False, "multilingual-cased": False, "chinese": True}


def measure(data: Path, names: list[str]) -> None:
    import tensorflow as tf
    import tensorflow_text
    from tokenizers import BertWordPieceTokenizer

    from keras_bert.tokenization.graph_wordpiece import GraphTokenizer
    from keras_bert.tokenization.vocabulary import Vocabulary
    from keras_bert.tokenization.wordpiece import WordPieceTokenizer

    texts = [line for line in (data / "corpus" / "wikipedia_articles.txt").read_bytes().split(b"\n") if line]
    num_bytes = sum(map(len, texts))
    print(f"{len(texts):,} paragraphs, {num_bytes / 1e6:.2f} MB; TensorFlow {tf.__version__}")
    for name in names:
        casing = CASINGS[name]
        path = str(data / "vocab" / f"bert-base-{name}-vocab.txt")
        vocabulary = Vocabulary.from_file(path)
        graph, python = GraphTokenizer(vocabulary, casing), WordPieceTokenizer(vocabulary, casing)
        core = python.graph(core_operations=True)
        is_exact = graph._normalize(texts)[1].numpy()
        exact_bytes = sum(len(text) for text, exact in zip(texts, is_exact, strict=True) if exact)
        print(f"\n{name}: {100 * exact_bytes / num_bytes:.4f} % of the bytes on the exact path")
        fast_bert = tensorflow_text.FastBertTokenizer(
            list(vocabulary.tokens), token_out_type=tf.int32, lower_case_nfd_strip_accents=casing
        )
        _time_in_tf_data("GraphTokenizer.tokenize", graph.tokenize, texts)
        _time_in_tf_data("GraphTokenizer.tokenize_with_offsets", graph.tokenize_with_offsets, texts)
        _time_in_tf_data("CoreWordPiece.tokenize", core.tokenize, texts)
        _time_in_tf_data("CoreWordPiece.tokenize_with_offsets", core.tokenize_with_offsets, texts)
        _time_in_tf_data("the exact path alone", graph._exact, texts[::4])
        _time_in_tf_data("tf.text FastBertTokenizer", fast_bert.tokenize, texts)
        _time_in_python("WordPieceTokenizer.encode", python.encode, texts[::4])
        hugging_face = BertWordPieceTokenizer(path, lowercase=casing, strip_accents=casing)
        _time_in_python("Hugging Face tokenizers", hugging_face.encode, [text.decode() for text in texts[::4]])


def measure_byte_pair(data: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    from keras_bert.tokenization.byte_pair import BytePairTokenizer

    texts = [line for line in (data / "corpus" / "wikipedia_articles.txt").read_bytes().split(b"\n") if line]
    files = (data / "family" / "vocab" / name for name in ("roberta-vocab.json", "roberta-merges.txt"))
    tokenizer = BytePairTokenizer.from_files(*files)
    graph = tokenizer.graph()
    hugging_face = Tokenizer(models.BPE(vocab=dict(tokenizer.ids), merges=list(tokenizer.merges)))
    hugging_face.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    print("\nbyte-level BPE of RoBERTa, in batches of 1,024")
    for _ in range(3):  # in turns
        _time_in_tf_data("GraphBytePair.tokenize", graph.tokenize, texts, 1, 1024)
        _time_in_tf_data("GraphBytePair.tokenize_with_offsets", graph.tokenize_with_offsets, texts, 1, 1024)
        _time_in_python("Hugging Face tokenizers", hugging_face.encode, [text.decode() for text in texts[::4]])


def _time_in_tf_data(name: str, function, texts: list[bytes], repeats: int = 5, batch_size: int = 256) -> None:
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.autotune.enabled = False
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(batch_size).repeat(repeats + 1).map(function)
    times = []
    batches = -(-len(texts) // batch_size)
    start = _now()
    for number, _ in enumerate(dataset.with_options(options), start=1):
        if number % batches == 0:
            times.append(_now() - start)
            start = _now()
    # The first pass starts the pipeline.
    _print_speed(name, sum(map(len, texts)), times[1:])


def _time_in_python(name: str, function, texts: list) -> None:
    times = []
    for _ in range(3):
        start = _now()
        for text in texts:
            function(text)
        times.append(_now() - start)
    _print_speed(name, sum(len(text.encode() if isinstance(text, str) else text) for text in texts), times)


def _now() -> np.ndarray:
    """Returns wall-clock seconds and processor seconds; other work on the machine does not change the latter."""
    return np.array([time.perf_counter(), time.process_time()])


def _print_speed(name: str, num_bytes: int, times: list[np.ndarray]) -> None:
    clock, core = num_bytes / np.median(times, axis=0) / 1e6
    print(f"  {name:38} {core:7.2f} MB per second of the core, {clock:7.2f} by the clock", flush=True)


if __name__ == "__main__":
    if len(sys.argv) < 2 or not CASINGS.keys() >= set(sys.argv[2:]):
        sys.exit(__doc__.strip())
    measure(Path(sys.argv[1]), sys.argv[2:] or list(CASINGS))
    if not sys.argv[2:]:
        measure_byte_pair(Path(sys.argv[1]))
