"""Records `tests/family_golden/text_to_text.npz` from transformers' EncoderDecoderModel, for tests without torch.

    python tests/parity/record_text_to_text.py tests/family_golden/text_to_text.npz

The file has the config of a tiny BERT, all weights under their names in transformers, 100 sources, 100 target rows with
their logits and losses, and what `generate` writes for the sources: greedily, and with 4 beams and two settings.
"""

import copy
import json
import sys

import numpy as np
import torch
import transformers
from transformers.trainer_pt_utils import LabelSmoother

SHAPE = {"vocab_size": 37, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 32}
SHAPE |= {"max_position_embeddings": 24, "type_vocab_size": 2, "hidden_act": "gelu"}
PAD, START, END = 0, 2, 3
NUM_STEPS = 250
NUM_SOURCES, LENGTH, TARGET_LENGTH, NEW_TOKENS = 100, 9, 8, 14
SEARCHES = {
    "greedy": {"num_beams": 1},
    "beams": {"num_beams": 4, "num_return_sequences": 4},
    "long_beams": {"num_beams": 4, "length_penalty": 2.0, "min_new_tokens": 5},
}


def main(path):
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    model = transformers.EncoderDecoderModel(
        encoder=transformers.BertModel(transformers.BertConfig(**SHAPE), add_pooling_layer=False),
        decoder=transformers.BertLMHeadModel(
            transformers.BertConfig(**SHAPE, is_decoder=True, add_cross_attention=True)
        ),
    ).eval()
    train(model, rng)
    for name in ("decoder_start_token_id", "bos_token_id", "cls_token_id"):
        setattr(model.config, name, START)
    model.config.pad_token_id, model.config.eos_token_id = PAD, END
    sources = rows(rng, LENGTH)
    targets = rows(rng, TARGET_LENGTH)
    recorded = {"config": json.dumps(SHAPE), "sources": sources, "targets": targets}
    recorded |= {f"weights/{name}": values.numpy() for name, values in model.state_dict().items() if kept(name)}
    inputs = {"input_ids": torch.tensor(sources), "attention_mask": torch.tensor(sources != PAD).long()}
    labels = torch.tensor(np.where(targets[:, 1:] == PAD, -100, targets[:, 1:]))
    with torch.no_grad():
        # In float64: in float32 the two differ by up to 3e-5 from rounding.
        found = copy.deepcopy(model).double()(**inputs, decoder_input_ids=torch.tensor(targets[:, :-1]))
    recorded["logits"] = found.logits.float().numpy()
    recorded["smoothed_loss"] = LabelSmoother(epsilon=0.1)({"logits": found.logits}, labels).numpy()
    flat = found.logits.reshape(-1, SHAPE["vocab_size"])
    recorded["torch_loss"] = torch.nn.functional.cross_entropy(flat, labels.reshape(-1), label_smoothing=0.1).numpy()
    for name, options in SEARCHES.items():
        found = model.generate(
            **inputs,
            max_new_tokens=NEW_TOKENS,
            do_sample=False,
            decoder_start_token_id=START,
            pad_token_id=PAD,
            eos_token_id=END,
            return_dict_in_generate=True,
            output_scores=True,
            **options,
        )
        ids = found.sequences[:, 1:].numpy()
        recorded[f"{name}/ids"] = np.pad(ids, [(0, 0), (0, NEW_TOKENS - ids.shape[1])]).astype("int32")
        if name != "greedy":
            recorded[f"{name}/scores"] = found.sequences_scores.numpy()
        print(name, len({tuple(row) for row in ids.tolist()}), "texts;", np.bincount((ids != PAD).sum(axis=1)))
    np.savez_compressed(path, **recorded)


def kept(name):
    """Leaves out the second names of tied weights and buffers."""
    return not name.endswith(("predictions.decoder.weight", "predictions.decoder.bias", "position_ids"))


def train(model, rng):
    """Teaches a model to reverse its source a little, so that answers depend on the sources and end."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(NUM_STEPS):
        ids = rows(rng, LENGTH)
        targets = np.array([[START, *row[row > END][::-1], END, *row[row == PAD]] for row in ids])
        inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(ids != PAD).long()}
        logits = model(**inputs, decoder_input_ids=torch.tensor(targets[:, :-1])).logits
        labels = torch.tensor(np.where(targets == PAD, -100, targets)[:, 1:])
        torch.nn.functional.cross_entropy(logits.reshape(-1, SHAPE["vocab_size"]), labels.reshape(-1)).backward()
        optimizer.step()
        optimizer.zero_grad()


def rows(rng, length):
    """Returns rows `[START, tokens, END, padding]` of different lengths, int64 `[NUM_SOURCES, length]`."""
    ids = rng.integers(5, SHAPE["vocab_size"], (NUM_SOURCES, length))
    lengths = rng.integers(3, length + 1, (NUM_SOURCES, 1))
    columns = np.arange(length)
    ids = np.where(columns == 0, START, np.where(columns == lengths - 1, END, ids))
    return np.where(columns < lengths, ids, PAD).astype("int64")


if __name__ == "__main__":
    main(*sys.argv[1:])
