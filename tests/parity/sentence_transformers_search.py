"""Prints the scores of sentence-transformers' InformationRetrievalEvaluator for vectors with many equal cosines, as
JSON."""

import json

import numpy as np

KS = [1, 3, 10, 100]


def tied_vectors():
    """Returns vectors of 30 queries and 700 documents by id, and what is relevant. Cosines are multiples of 1/8."""
    draw = np.random.default_rng(5)
    queries, corpus = (
        {f"{kind}{draw.integers(10**9)}": vector for vector in draw.choice([-0.25, 0.25], (number, 16))}
        for kind, number in (("q", 30), ("d", 700))
    )
    relevant = {}
    for number, (name, vector) in enumerate(queries.items()):
        near = sorted(document for document in corpus if corpus[document] @ vector >= 0.5)
        relevant[name] = set(draw.choice(near, 1 + 7 * (number % 3), replace=False).tolist())
    relevant[next(iter(queries))] = set()
    return queries, corpus, relevant


def main() -> None:
    import torch
    from sentence_transformers.sentence_transformer.evaluation import InformationRetrievalEvaluator
    from sentence_transformers.util import cos_sim

    queries, corpus, relevant = tied_vectors()
    vectors = queries | corpus

    class Lookup(InformationRetrievalEvaluator):
        def embed_inputs(self, model, sentences, *args, **kwargs):
            return torch.tensor(np.stack([vectors[sentence] for sentence in sentences]), dtype=torch.float32)

    depths = dict.fromkeys(("mrr_at_k", "ndcg_at_k", "map_at_k", "precision_recall_at_k", "accuracy_at_k"), KS)
    texts = [{name: name for name in names} for names in (queries, corpus)]
    evaluator = Lookup(*texts, relevant, **depths, score_functions={"cosine": cos_sim}, corpus_chunk_size=300)
    found = evaluator.compute_all_metrics(None)["cosine"]
    print(json.dumps({f"{name[:-1]}{k}": float(score) for name, of in found.items() for k, score in of.items()}))


if __name__ == "__main__":
    main()
