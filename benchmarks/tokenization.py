"""Proves and times the tokenizer on the real corpus, on generated texts and beside other tokenizers.

Command: python -m benchmarks.tokenization PART DATA_FOLDER [NUMBER]

Parts:
  speed        MB/s inside tf.data on one core, and the share of bytes on each path (start it with taskset -c 0)
  corpus       graph = Python on the whole Wikipedia corpus, ids and offsets, all four vocabularies
  generated    graph = Python = a direct implementation on NUMBER generated texts (default 200000)
  code_points  the same on every code point of Unicode, each in five contexts (two texts)
"""

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
# The generator of texts and the direct implementation are the tests' own.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

CASINGS = {"uncased": True, "cased": False, "multilingual-cased": False, "chinese": True}
CHUNK = 20000


def _vocabulary(data: Path, name: str):
    from keras_bert.tokenization.vocabulary import Vocabulary

    return Vocabulary.from_file(data / "vocab" / f"bert-base-{name}-vocab.txt")


def _tokenizers(data: Path, name: str):
    from keras_bert.tokenization.graph_wordpiece import GraphTokenizer
    from keras_bert.tokenization.wordpiece import WordPieceTokenizer

    vocabulary = _vocabulary(data, name)
    return GraphTokenizer(vocabulary, CASINGS[name]), WordPieceTokenizer(vocabulary, CASINGS[name])


def _paragraphs(data: Path) -> list[bytes]:
    lines = (data / "corpus" / "wikipedia_articles.txt").read_bytes().split(b"\n")
    return [line for line in lines if line]


def _chunks(texts: Iterable[bytes]) -> Iterable[list[bytes]]:
    texts = iter(texts)
    return iter(lambda: list(itertools.islice(texts, CHUNK)), [])


def _compare(data: Path, names: Iterable[str], texts: Callable[[str], Iterable[bytes]], directly: bool) -> None:
    from google_tokenizer import google_tokens
    from tokenizer_comparison import differences

    for name in names:
        graph, python = _tokenizers(data, name)
        num_texts = num_exact = 0
        wrong: list[str] = []
        for chunk in _chunks(texts(name)):
            num_texts += len(chunk)
            num_exact += int(sum(graph._normalize(chunk)[1].numpy()))
            wrong += differences(graph, python, chunk)
            if directly:
                ids, casing = python.vocabulary.ids, CASINGS[name]
                wrong += [repr(text) for text in chunk if python.tokenize(text) != google_tokens(text, ids, casing)]
        print(f"{name:20} {num_texts:9,} texts, {num_exact:9,} on the exact path, {len(wrong)} different", flush=True)
        print("\n".join(wrong[:5]), end="\n" * bool(wrong))


def corpus(data: Path) -> None:
    _compare(data, CASINGS, lambda name: _paragraphs(data), directly=True)


def generated(data: Path, number: str = "200000") -> None:
    from generated_texts import generated_texts

    def texts(name: str) -> Iterable[bytes]:
        tokens = _vocabulary(data, name).tokens
        return (text for _, text in itertools.islice(generated_texts(seed=2024, tokens=tokens), int(number)))

    _compare(data, CASINGS, texts, directly=True)


def code_points(data: Path) -> None:
    from generated_texts import every_code_point

    _compare(data, ["uncased", "cased"], lambda name: every_code_point(), directly=True)


def speed(data: Path) -> None:
    import tensorflow as tf
    import tensorflow_text
    from google_tokenizer import google_tokens

    texts = _paragraphs(data)
    num_bytes = sum(map(len, texts))
    print(f"{len(texts):,} paragraphs, {num_bytes / 1e6:.2f} MB; TensorFlow {tf.__version__}")
    for name in CASINGS:
        graph, python = _tokenizers(data, name)
        is_exact = graph._normalize(texts)[1].numpy()
        exact_bytes = sum(len(text) for text, exact in zip(texts, is_exact, strict=True) if exact)
        print(f"\n{name}: {100 * exact_bytes / num_bytes:.4f} % of the bytes on the exact path")
        fast_bert = tensorflow_text.FastBertTokenizer(
            list(python.vocabulary.tokens), token_out_type=tf.int32, lower_case_nfd_strip_accents=CASINGS[name]
        )
        _time_in_tf_data("GraphTokenizer.tokenize", graph.tokenize, texts)
        _time_in_tf_data("GraphTokenizer.tokenize_with_offsets", graph.tokenize_with_offsets, texts)
        _time_in_tf_data("the exact path alone", graph._exact, texts[::4])
        _time_in_tf_data("tf.text FastBertTokenizer", fast_bert.tokenize, texts)
        ids = python.vocabulary.ids
        _time_in_python("WordPieceTokenizer.encode", python.encode, texts[::4])
        _time_in_python("direct implementation", lambda text: google_tokens(text, ids, CASINGS[name]), texts[::40])  # noqa: B023
        hugging_face = _hugging_face(data, name)
        decoded = [text.decode() for text in texts[::4]]
        _time_in_python("Hugging Face tokenizers", hugging_face, decoded)


def _time_in_tf_data(name: str, function, texts: list[bytes], repeats: int = 5) -> None:
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    options.autotune.enabled = False
    dataset = tf.data.Dataset.from_tensor_slices(texts).batch(256).repeat(repeats + 1).map(function)
    times = []
    batches = -(-len(texts) // 256)
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
    """Seconds by the clock, and of this process on its core: the second ignores what else the machine does."""
    return np.array([time.perf_counter(), time.process_time()])


def _print_speed(name: str, num_bytes: int, times: list[np.ndarray]) -> None:
    clock, core = num_bytes / np.median(times, axis=0) / 1e6
    print(f"  {name:38} {core:7.2f} MB per second of the core, {clock:7.2f} by the clock", flush=True)


def _hugging_face(data: Path, name: str) -> Callable[[str], list[int]]:
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(
        str(data / "vocab" / f"bert-base-{name}-vocab.txt"), lowercase=CASINGS[name], strip_accents=CASINGS[name]
    )
    return lambda text: tokenizer.encode(text, add_special_tokens=False).ids


PARTS = {part.__name__: part for part in (speed, corpus, generated, code_points)}


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] not in PARTS:
        sys.exit(__doc__.strip())
    PARTS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])


if __name__ == "__main__":
    main()
