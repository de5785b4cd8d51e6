"""Answers of transformers to texts. It needs torch and transformers, not keras_bert.

    python transformers_texts.py FOLDER COPY < TEXTS_JSON

FOLDER has a classifier and its tokenizer. COPY gets both as transformers writes them. TEXTS_JSON has two lists of
texts. The last line of the output has, as JSON, the ids and the logits of the first texts alone, and of the pairs.
"""

import json
import sys

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer


def main(folder: str, copy: str) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    columns = json.load(sys.stdin)
    found = [answers(tokenizer, model, columns[:1]), answers(tokenizer, model, columns)]
    tokenizer.save_pretrained(copy)
    model.save_pretrained(copy)
    print(json.dumps(found))


def answers(tokenizer, model, columns) -> tuple:
    batch = tokenizer(*columns, padding=True, return_tensors="pt")
    if getattr(model.config, "type_vocab_size", 0) < 2:  # as KLUE's users have to do
        batch.pop("token_type_ids", None)
    with torch.no_grad():
        logits = model(**batch).logits
    ids = [row[mask > 0].tolist() for row, mask in zip(batch["input_ids"], batch["attention_mask"], strict=True)]
    return ids, logits.tolist()


if __name__ == "__main__":
    main(*sys.argv[1:])
