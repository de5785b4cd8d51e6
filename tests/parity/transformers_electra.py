"""Computes the losses of transformers' ELECTRA. It needs torch and transformers, not keras_bert.

    python transformers_electra.py FOLDER

FOLDER has the folders `generator` and `discriminator` of two models, and `records.npz` with the features of a batch,
the rows with replaced tokens `replaced_ids` and their labels `is_replaced`. `losses.npz` gets both losses and all
logits.
"""

import pathlib
import sys

import numpy as np
import torch
import transformers


def main(folder):
    folder = pathlib.Path(folder)
    with np.load(folder / "records.npz") as saved:
        x = {name: torch.tensor(saved[name]).long() for name in saved.files}
    others = {"attention_mask": x["input_mask"], "token_type_ids": x["segment_ids"]}
    labels = torch.full_like(x["input_ids"], -100)
    for row, entry in zip(*torch.nonzero(x["masked_lm_weights"], as_tuple=True), strict=True):
        labels[row, x["masked_lm_positions"][row, entry]] = x["masked_lm_ids"][row, entry]
    generator = transformers.ElectraForMaskedLM.from_pretrained(folder / "generator").double().eval()
    discriminator = transformers.ElectraForPreTraining.from_pretrained(folder / "discriminator").double().eval()
    with torch.no_grad():
        first = generator(x["input_ids"], **others, labels=labels)
        second = discriminator(x["replaced_ids"], **others, labels=x["is_replaced"])
    np.savez(
        folder / "losses.npz",
        masked_lm_loss=first.loss,
        masked_lm_logits=first.logits,
        disc_loss=second.loss,
        disc_logits=second.logits,
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
