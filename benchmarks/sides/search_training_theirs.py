"""The side of sentence-transformers in `search_training_speed`: its model and its loss, AdamW and clipping of torch."""

import sentence_transformers
import torch
from sentence_transformers import MultiVectorEncoder, SparseEncoder
from sentence_transformers.multi_vector_encoder.losses import MultiVectorMultipleNegativesRankingLoss
from sentence_transformers.sparse_encoder.losses import SparseMultipleNegativesRankingLoss, SpladeLoss

from benchmarks.sides.pretraining_work import answer_requests
from benchmarks.sides.search_training_work import arguments_of_side, read_pairs


def main():
    arguments = arguments_of_side(__doc__)
    torch.manual_seed(1)
    if arguments.kind == "SPLADE":
        model = SparseEncoder(arguments.model, device="cpu")
        weights = {"document_regularizer_weight": 3e-3, "query_regularizer_weight": 3e-3}
        loss_of = SpladeLoss(model, SparseMultipleNegativesRankingLoss(model), **weights)
    else:
        model = MultiVectorEncoder(arguments.model, device="cpu")
        loss_of = MultiVectorMultipleNegativesRankingLoss(model)
    model.max_seq_length = arguments.length
    columns = zip(("query", "document"), read_pairs(arguments), strict=True)
    batch = [model.preprocess(texts, task=task) for task, texts in columns]
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-6, fused=True)
    model.train()

    def train():
        loss = loss_of([dict(column) for column in batch], None)
        loss = sum(loss.values()) if isinstance(loss, dict) else loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    about = {"side": f"sentence-transformers {sentence_transformers.__version__}, torch {torch.__version__}"}
    answer_requests(about, {"train": train}, arguments.steps, lambda loss: loss.item(), lambda: 0)


if __name__ == "__main__":
    main()
