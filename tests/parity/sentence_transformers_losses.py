"""Prints the losses of sentence-transformers and their gradients as JSON, in float64.

    python tests/parity/sentence_transformers_losses.py < cases.json

Standard input has made-up numbers: `vectors` [B, C, D], `guide` [B, C, G], `scores` [B, T], kinds of labels; and cases
of `embedding` and `ranking`: [name, class, arguments, kind]. Kind is what the loss takes, see the functions.
"""

import json
import sys

import torch

torch.set_default_dtype(torch.float64)
torch.Tensor.float = torch.Tensor.double  # the losses of lists compute in float32

from sentence_transformers import cross_encoder  # noqa: E402
from sentence_transformers.sentence_transformer import losses  # noqa: E402
from sentence_transformers.sentence_transformer.losses import gist_embed  # noqa: E402


def embedding_loss(name, arguments, kind, vectors, given):
    """`kind`: [number of texts, key of the labels or None]."""
    num_texts, key = kind
    labels = None if key is None else torch.tensor(given[key])
    columns = [vectors[:, number] for number in range(num_texts)]
    model = torch.nn.Identity()
    if name != "GISTEmbedLoss":
        loss = getattr(losses, name)(model=model, **arguments)
        return loss.compute_loss_from_embeddings(columns, labels)
    guides = [torch.tensor(given["guide"])[:, number] for number in range(num_texts)]
    loss = gist_embed.GISTEmbedLoss.__new__(gist_embed.GISTEmbedLoss)
    torch.nn.Module.__init__(loss)
    for key, value in {"margin": 0.0, "margin_strategy": "absolute", "temperature": 0.01, **arguments}.items():
        setattr(loss, key, value)
    loss.contrast_anchors, loss.contrast_positives = (
        arguments.get(key, True) for key in ("contrast_anchors", "contrast_positives")
    )
    loss.__dict__.update(model="model", guide="guide", must_retokenize=False, gather_across_devices=False)
    loss.similarity_fct, loss.cross_entropy_loss = torch.nn.CosineSimilarity(dim=-1), torch.nn.CrossEntropyLoss()
    gist_embed.embed_columns = lambda model, features: columns if model == "model" else guides
    return loss.forward([{} for _ in columns], None)


class Scores(cross_encoder.CrossEncoder):
    """A cross-encoder whose scores are looked up: a text is its place, (query, number)."""

    def __init__(self, scores):
        torch.nn.Module.__init__(self)
        self.scores = scores

    num_labels, device = 1, torch.device("cpu")

    def preprocess(self, pairs, **_):
        return {"places": torch.tensor([place for _, place in pairs])}

    def forward(self, inputs):
        places = inputs["places"]
        return {"scores": self.scores[places[:, 0], places[:, 1]]}


def ranking_loss(name, arguments, key, scores, given):
    """`key`: that of the labels of each text."""
    scheme = arguments.pop("weighting_scheme", None)
    if scheme is not None:
        arguments["weighting_scheme"] = getattr(cross_encoder.losses, scheme)()
    loss = getattr(cross_encoder.losses, name)(Scores(scores), **arguments)
    queries, texts = range(scores.shape[0]), range(scores.shape[1])
    labels = torch.tensor(given[key])
    if name == "MarginMSELoss":
        return loss([list(queries), *([(query, text) for query in queries] for text in texts)], labels)
    return loss([list(queries), [[(query, text) for text in texts] for query in queries]], list(labels))


def main() -> None:
    given, found = json.load(sys.stdin), {}
    for family, function, values in (("embedding", embedding_loss, "vectors"), ("ranking", ranking_loss, "scores")):
        for label, name, arguments, kind in given[family]:
            inputs = torch.tensor(given[values], requires_grad=True)
            value = function(name, arguments, kind, inputs, given)
            value.backward()
            found[label] = {"loss": value.item(), "gradient": inputs.grad.tolist()}
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
