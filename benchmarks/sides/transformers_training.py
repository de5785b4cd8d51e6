"""The side `transformers` of `training_speed`: `BertForPreTraining` on torch, with its own loss.

It runs on a GPU if torch finds one. --dtype=bfloat16 is torch's autocast. For other families than BERT it is the
masked LM.

Its masked-LM loss scores the vocabulary at every token. Gradients are clipped by their norm; AdamW is torch's, without
decay for biases and layer norms.
"""

import torch
import transformers

from benchmarks.sides.pretraining_work import answer_requests, arguments_of_side, random_batch

_IGNORED_LABEL = -100  # of torch's cross-entropy
_WEIGHT_DECAY = 0.01


def main():
    arguments = arguments_of_side(__doc__)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = getattr(torch, arguments.dtype)
    torch.manual_seed(1)
    vocab_size = arguments.config["vocab_size"]
    batch = random_batch(arguments.batch_size, arguments.length, arguments.predictions, vocab_size)
    if arguments.folder:
        model = transformers.AutoModelForMaskedLM.from_pretrained(arguments.folder).train()
    else:
        # Our "gelu" is the tanh approximation.
        act = {"gelu": "gelu_pytorch_tanh", "gelu_erf": "gelu"}[arguments.config["hidden_act"]]
        config = transformers.BertConfig(**arguments.config | {"hidden_act": act})
        model = transformers.AutoModelForPreTraining.from_config(config, attn_implementation="sdpa").train()
    if arguments.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.to(device)
    optimizer = torch.optim.AdamW(_decayed_and_other_weights(model), lr=1e-4, fused=device == "cuda")
    tensors = {name: torch.from_numpy(column).to(device) for name, column in batch.items()}
    names = {"input_ids": "input_ids", "attention_mask": "input_mask", "token_type_ids": "segment_ids"}
    inputs = {theirs: tensors[ours].long() for theirs, ours in names.items()}
    inputs["labels"] = torch.full_like(inputs["input_ids"], _IGNORED_LABEL)
    inputs["labels"].scatter_(1, tensors["masked_lm_positions"].long(), tensors["masked_lm_ids"].long())
    if arguments.folder:
        if getattr(model.config, "type_vocab_size", 0) < 2:
            del inputs["token_type_ids"]
    else:
        inputs["next_sentence_label"] = tensors["next_sentence_labels"][:, 0].long()

    def train():
        with torch.autocast(device, dtype, enabled=dtype != torch.float32):
            loss = model(**inputs).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return loss

    def gpu_memory():
        return torch.cuda.max_memory_allocated() if device == "cuda" else 0

    about = {"side": f"transformers {transformers.__version__}, torch {torch.__version__}"}
    answer_requests(about, {"train": train}, arguments.steps, lambda loss: loss.item(), gpu_memory)


def _decayed_and_other_weights(model) -> list[dict]:
    groups = {True: [], False: []}
    for name, weight in model.named_parameters():
        groups[not (name.endswith(".bias") or "LayerNorm" in name)].append(weight)
    return [{"params": groups[True], "weight_decay": _WEIGHT_DECAY}, {"params": groups[False], "weight_decay": 0.0}]


if __name__ == "__main__":
    main()
