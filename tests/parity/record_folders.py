"""Records what transformers, tokenizers, sentencepiece and sentence-transformers compute from the recorded folders.

    HF_HUB_OFFLINE=1 python tests/parity/record_folders.py

It was run with transformers 5.23, tokenizers 0.23.3, sentencepiece 0.2.3, sentence-transformers 6.2 and torch 2.13. It
prints how far the numbers are from those that were there:

    family_golden/examples.json             ids of texts and of pairs: `tokenizers/...`
    family_golden/heads.json                scores of classifiers: zero-shot, and of pairs
    embedding_golden/sparse.json            vectors of texts, in float64: `expected`
    embedding_golden/multi_vector.json      vectors of the tokens 0, 3 and -1 of texts, and similarities
"""

import json
import pathlib
import sys

import numpy as np
from sentence_transformers import CrossEncoder, MultiVectorEncoder, SparseEncoder
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer
from transformers import AutoTokenizer, pipeline

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from places import TESTS
from recorded_folders import recorded_folder

# Name in examples.json -> sources, each with its reader and folder. The first gives `ids`; `different` has the ids of
# another source for the texts where they are not the same.
SOURCES = {
    "xlm_roberta": {
        "file of transformers 4": ("file", "xlm-roberta"),
        "transformers 5, both files": ("class", "xlm-roberta"),
        "transformers 5, its own file": ("class", "xlm-roberta-v5"),
        "transformers 5, model file only": ("class", "xlm-roberta-model-only"),
    },
    "camembert": {
        "transformers 5, model file only": ("class", "camembert"),
        "transformers 5, its own file": ("class", "camembert-v5"),
    },
    "deberta": {
        "sentencepiece": ("pieces", "deberta-v2"),
        "file of transformers 4": ("file", "deberta-v2-v4-file"),
        "transformers 5, model file only": ("class", "deberta-v2"),
        "transformers 5, file of transformers 4": ("class", "deberta-v2-v4-file"),
        "transformers 5, its own file": ("class", "deberta-v2-v5"),
    },
    "mpnet": {
        "file of transformers 4": ("file", "mpnet"),
        "transformers 5, both files": ("class", "mpnet"),
        "transformers 5, vocab.txt only": ("class", "mpnet-vocab-only"),
    },
    "gemma": {
        "file": ("file", "gemma"),
        "transformers 5": ("class", "gemma"),
        "transformers 5, class GemmaTokenizer": ("class", "gemma-as-GemmaTokenizer"),
    },
}
PAIRS = {"deberta": "file of transformers 4"}  # the first source, but sentencepiece has no rows of two texts


def main():
    record_tokenizers(TESTS / "family_golden" / "examples.json")
    record_classifiers(TESTS / "family_golden" / "heads.json")
    record_sparse_vectors(TESTS / "embedding_golden" / "sparse.json")
    record_multi_vectors(TESTS / "embedding_golden" / "multi_vector.json")


def record_tokenizers(path):
    examples = json.loads(path.read_text("utf-8"))
    for name, sources in SOURCES.items():
        recorded = examples[f"tokenizers/{name}"]
        texts = recorded["texts"]
        functions = {source: ids_function(kind, folder) for source, (kind, folder) in sources.items()}
        ids = {source: [function(text) for text in texts] for source, function in functions.items()}
        first = next(iter(sources))
        different = {
            source: {str(number): row for number, row in enumerate(rows) if row != ids[first][number]}
            for source, rows in ids.items()
            if source != first
        }
        row_of_pair = functions[PAIRS.get(name, first)]
        pairs = [{"texts": pair["texts"], "ids": row_of_pair(*pair["texts"])} for pair in recorded["pairs"]]
        made = {"source": first, "texts": texts, "ids": ids[first], "different": different, "pairs": pairs}
        print(name, "changed:", [key for key, values in made.items() if values != recorded[key]])
        examples[f"tokenizers/{name}"] = made
    lines = (f"{json.dumps(name)}: {json.dumps(values, separators=(',', ':'))}" for name, values in examples.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


def ids_function(kind, name):
    """Returns a function from a text to its ids without special tokens, or from two texts to the ids of their row."""
    folder = recorded_folder("tokenizers", name)
    if kind == "pieces":
        return SentencePieceProcessor(model_file=str(next(folder.glob("*.model")))).encode
    if kind == "file":
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        return lambda *texts: tokenizer.encode(*texts, add_special_tokens=len(texts) > 1).ids
    tokenizer = AutoTokenizer.from_pretrained(folder)
    return lambda *texts: tokenizer(*texts, add_special_tokens=len(texts) > 1).input_ids


def record_classifiers(path):
    recorded = json.loads(path.read_text("utf-8"))
    texts, labels, pairs = [recorded[key] for key in ("texts", "labels", "pairs")]
    made = {"texts": texts, "labels": labels, "pairs": pairs}
    for name in ("nli_entail_first", "nli_entail_last"):
        ask = pipeline("zero-shot-classification", model=str(recorded_folder("heads", name)), device=-1)
        made[name] = {}
        for key, multi_label in (("one label", False), ("several labels", True)):
            rows = ask(texts, candidate_labels=labels, multi_label=multi_label)
            scores = [dict(zip(row["labels"], row["scores"], strict=True)) for row in rows]
            made[name][key] = [[row[label] for label in labels] for row in scores]
    for name in ("ce1", "ce1s", "ce3s"):
        model = CrossEncoder(str(recorded_folder("heads", name)), device="cpu")
        made[name] = model.predict([tuple(pair) for pair in pairs]).tolist()
    write(path, recorded, made)


def record_sparse_vectors(path):
    recorded = json.loads(path.read_text("utf-8"))
    expected = {}
    for name, methods in recorded["expected"].items():
        model = SparseEncoder(str(recorded_folder("heads", name)), device="cpu").double()
        found = {
            method: getattr(model, method)(recorded["texts"], convert_to_sparse_tensor=False) for method in methods
        }
        expected[name] = {method: vectors.tolist() for method, vectors in found.items()}
    write(path, recorded, {**recorded, "expected": expected})


def record_multi_vectors(path):
    recorded = json.loads(path.read_text("utf-8"))
    model = MultiVectorEncoder(str(recorded_folder("heads", "colbert")), device="cpu")
    queries, documents = model.encode_query(recorded["queries"]), model.encode_document(recorded["documents"])
    made = {"queries": recorded["queries"], "documents": recorded["documents"]}
    made["tokens"] = [[len(vectors) for vectors in texts] for texts in (queries, documents)]
    for name, texts in (("query_vectors", queries), ("document_vectors", documents)):
        made[name] = [vectors[[0, 3, -1]].tolist() for vectors in texts]
    made["similarity"] = model.similarity(queries, documents).tolist()
    write(path, recorded, made)


def write(path, before, made):
    """Writes a file, new numbers with seven digits behind the point, and prints how far they are from those before."""
    made = {name: values if values == before.get(name) else rounded(values) for name, values in made.items()}
    for name, values in made.items():
        old, new = numbers(before.get(name)), numbers(values)
        farthest = max(map(abs, np.subtract(old, new)), default=0) if len(old) == len(new) else "new"
        print(path.name, name, farthest)
    path.write_text(json.dumps(made) + "\n", "utf-8")


def numbers(values):
    """Returns the numbers in lists and dictionaries, as one list."""
    if isinstance(values, (list, dict)):
        parts = values.values() if isinstance(values, dict) else values
        return [number for part in parts for number in numbers(part)]
    return [values] if isinstance(values, (int, float)) else []


def rounded(values):
    if isinstance(values, dict):
        return {key: rounded(value) for key, value in values.items()}
    if isinstance(values, list):
        return [rounded(value) for value in values]
    return round(values, 7) if isinstance(values, float) else values


if __name__ == "__main__":
    main()
