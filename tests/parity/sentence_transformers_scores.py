"""Prints the retrieval scores of sentence-transformers as JSON: what `embedding_golden/scores.json` records.

    python tests/parity/sentence_transformers_scores.py > tests/embedding_golden/scores.json

The vectors are those of `made_up_vectors`, which test_embedding_scores.py gives to our functions.
"""

import json

import numpy as np


def made_up_vectors() -> tuple[np.ndarray, np.ndarray, list[set[int]]]:
    """Returns 40 queries, 300 documents, and the relevant documents of each query: 1 to 15 that are near to it."""
    draw = np.random.default_rng(0)
    queries, documents = draw.normal(size=(40, 16)), draw.normal(size=(300, 16))
    relevant = [set(draw.choice(300, size=1 + number % 15, replace=False).tolist()) for number in range(40)]
    for query, numbers in zip(queries, relevant, strict=True):
        documents[sorted(numbers)] += 0.6 * query
    return queries.astype("float32"), documents.astype("float32"), relevant


def main() -> None:
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator

    queries, documents, relevant = made_up_vectors()
    vectors = {f"q{number}": vector for number, vector in enumerate(queries)}
    vectors |= {f"d{number}": vector for number, vector in enumerate(documents)}

    class Lookup(InformationRetrievalEvaluator):
        def embed_inputs(self, model, sentences, *args, **kwargs):
            import torch

            return torch.tensor(np.stack([vectors[sentence] for sentence in sentences]))

    names = {kind: {name: name for name in vectors if name[0] == kind} for kind in "qd"}
    ids = {f"q{number}": {f"d{document}" for document in numbers} for number, numbers in enumerate(relevant)}
    depths = {"accuracy_at_k": [1, 5, 10], "precision_recall_at_k": [1, 5, 10], "mrr_at_k": [10]}
    evaluator = Lookup(names["q"], names["d"], ids, **depths, ndcg_at_k=[10], map_at_k=[100])
    from sentence_transformers.util import cos_sim

    evaluator.score_functions, evaluator.score_function_names = {"cosine": cos_sim}, ["cosine"]
    found = evaluator.compute_metrices(None)["cosine"]
    kept = {f"{name[:-1]}{k}": float(score) for name, scores in found.items() for k, score in scores.items()}
    print(json.dumps({name: score for name, score in kept.items() if "precision" not in name}, indent=1))


if __name__ == "__main__":
    main()
