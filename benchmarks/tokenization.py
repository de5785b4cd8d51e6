"""Proves and times the tokenizer on the real corpus, on generated texts and beside other tokenizers.

Command: python -m benchmarks.tokenization PART DATA_FOLDER [NUMBER_OR_PYTHON]

Parts:
  speed        MB/s inside tf.data on one core, and the share of bytes on each path (start it with taskset -c 0)
  corpus       graph = Python on the whole Wikipedia corpus, ids and offsets, all four vocabularies
  generated    graph = Python = a direct implementation on NUMBER generated texts (default 200000)
  code_points  the same on every code point of Unicode, each in five contexts (two texts)
  agreement    every kind of difference between Hugging Face tokenizers and Google, counted
  versions     the SavedModel in another PYTHON's TensorFlow (2.12.1, say) gives the same ids and offsets
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import unicodedata
from collections import Counter
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


def agreement(data: Path, number: str = "200000") -> None:
    from generated_texts import generated_texts

    for name in CASINGS:
        tokens = _vocabulary(data, name).tokens
        generator = itertools.islice(generated_texts(seed=2024, tokens=tokens), int(number))
        made = [text for kind, text in generator if kind not in ("invalid UTF-8", "random bytes")]
        for source, texts in (("Wikipedia", _paragraphs(data)), ("generated", made)):
            _print_agreement(f"{name}, {source}", data, name, [text.decode() for text in texts])


def _print_agreement(title: str, data: Path, name: str, texts: list[str]) -> None:
    from keras_bert.tokenization.wordpiece import WordPieceTokenizer, split_at_white_space

    theirs = _hugging_face(data, name)
    ours = WordPieceTokenizer(_vocabulary(data, name), CASINGS[name]).encode
    stretches = Counter(stretch for text in texts for stretch in split_at_white_space(text))
    kinds: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for stretch, count in stretches.items():
        if ours(stretch) != theirs(stretch):
            for kind in _kinds_of_difference(stretch, ours, theirs):
                kinds[kind] += count
                examples[kind] = min(stretch, examples.get(kind, stretch), key=len)
    num_texts = sum(ours(text) != theirs(text) for text in texts)
    print(f"\n{title}: {num_texts:,} of {len(texts):,} texts differ ({stretches.total():,} words)")
    for kind, count in kinds.most_common():
        print(f"  {count:7,} words  {kind}, as {examples[kind][:20]!a}", flush=True)


def _class_in_old_tables_differs(character: str, start: str) -> bool:
    # What was in Unicode 3.2 already is in every table.
    category = unicodedata.category(character)
    return category.startswith(start) and category not in ("Cn", "Co", unicodedata.ucd_3_2_0.category(character))


def _without(condition: Callable[[str], bool]) -> Callable[[str], str]:
    return lambda text: "".join(character for character in text if not condition(character))


# Kind of difference -> what takes it out of a text.
KINDS: dict[str, Callable[[str], str]] = {
    "special tokens in the text stay whole": lambda text: text.replace("[", "<"),
    "words of 101 to 200 characters are unknown": lambda text: text[:60],
    "the final sigma becomes an ordinary one": lambda text: text.replace("\N{GREEK CAPITAL LETTER SIGMA}", "s"),
    "the ideographs U+2B820 to U+2B91F are not split": _without(lambda c: 0x2B820 <= ord(c) < 0x2B920),
    "private-use characters are dropped": _without(lambda c: unicodedata.category(c) == "Co"),
    "punctuation that its older Unicode tables class otherwise": _without(
        lambda c: _class_in_old_tables_differs(c, "P")
    ),
    "marks that its older Unicode tables class otherwise": _without(lambda c: _class_in_old_tables_differs(c, "M")),
    "format characters that its older Unicode tables class otherwise": _without(
        lambda c: _class_in_old_tables_differs(c, "C")
    ),
    "letters that its older Unicode tables class otherwise": _without(lambda c: _class_in_old_tables_differs(c, "L")),
}


def _kinds_of_difference(text: str, ours, theirs) -> list[str]:
    """The kinds without which the two would agree on `text`, and with any of which they do not."""

    def agree_without(left_in: str | None) -> bool:
        changed = text
        for kind, take_out in KINDS.items():
            changed = changed if kind == left_in else take_out(changed)
        return ours(changed) == theirs(changed)

    if not agree_without(None):
        return ["other"]
    return [kind for kind in KINDS if not agree_without(kind)] or ["several of them, any of which taken out is enough"]


ASK = """
import json, sys
import tensorflow as tf
import tensorflow_text
module = tf.saved_model.load(sys.argv[1])
texts = [bytes.fromhex(line) for line in open(sys.argv[2]).read().split("\\n")]
found = module.tokenize(tf.constant(texts))
json.dump([part.to_list() for part in found], open(sys.argv[3], "w"))
print("TensorFlow", tf.__version__, "tensorflow-text", tensorflow_text.__version__)
"""


def versions(data: Path, python: str) -> None:
    import tensorflow as tf
    from generated_texts import every_code_point, generated_texts

    for name in ("uncased", "multilingual-cased"):
        graph, reference = _tokenizers(data, name)
        made = (text for _, text in generated_texts(seed=5, tokens=reference.vocabulary.tokens))
        texts = [*itertools.islice(made, 20000), *every_code_point(0, 0x1FFFF), *_paragraphs(data)[:2000]]
        module = tf.Module()
        module.tokenizer = graph
        module.tokenize = tf.function(graph.tokenize_with_offsets, input_signature=[tf.TensorSpec([None], tf.string)])
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(module, f"{folder}/model")
            Path(folder, "texts").write_text("\n".join(text.hex() for text in texts))
            paths = [f"{folder}/{part}" for part in ("model", "texts", "found")]
            run = subprocess.run([python, "-c", ASK, *paths], check=True, capture_output=True, text=True)
            found = json.loads(Path(folder, "found").read_text())
        expected = [part.to_list() for part in graph.tokenize_with_offsets(texts)]
        wrong = sum(
            one != other for one, other in zip(zip(*found, strict=True), zip(*expected, strict=True), strict=True)
        )
        print(f"{name}: {run.stdout.strip()}: {wrong} of {len(texts):,} texts different", flush=True)


PARTS = {part.__name__: part for part in (speed, corpus, generated, code_points, agreement, versions)}


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] not in PARTS:
        sys.exit(__doc__.strip())
    PARTS[sys.argv[1]](Path(sys.argv[2]), *sys.argv[3:])


if __name__ == "__main__":
    main()
