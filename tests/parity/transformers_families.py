"""Writes small random models of transformers and their outputs. It needs torch and transformers, not keras_bert.

    python transformers_families.py JOBS_JSON

JOBS_JSON has a list of `[class name, config, folder, options]`. A folder gets the model's files and `outputs.npz`: the
inputs, and for both dtypes `hidden_states` [L + 1, B, S, H] and the logits under transformers' names. The weights are
stored as float32. Options:

    lengths      the lengths of the rows; [9, 6, 4] by default.
    left         whether the padding is in front of the tokens.
    train        whether to run in training mode, in which a BigBird has random blocks.
    num_global   the number of global tokens of a Longformer. None: those that transformers selects for the task, in
                 rows of two texts.
"""

import json
import sys

import numpy as np
import torch
import transformers


def main(jobs_file):
    with open(jobs_file, encoding="utf-8") as file:
        jobs = json.load(file)
    for class_name, config, folder, options in jobs:
        write_model(class_name, config, folder, **options)


def write_model(class_name, config, folder, lengths=(9, 6, 4), train=False, num_global=-1, left=False):
    torch.manual_seed(0)
    model_class = getattr(transformers, class_name)
    model = model_class(model_class.config_class(**config)).train(train)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        if model.config.model_type == "mobilebert":  # our padding is zeros, whatever was trained
            model.get_input_embeddings().weight[model.config.pad_token_id] = 0
    model.save_pretrained(folder)
    config = model.config
    generator = np.random.default_rng(0)
    mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
    mask = mask[:, ::-1] if left else mask
    ids = np.where(mask, generator.integers(3, config.vocab_size, mask.shape), config.pad_token_id)
    segments = generator.integers(0, 2, mask.shape) * (getattr(config, "type_vocab_size", 0) > 1)
    inputs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask.astype("int64"))}
    if getattr(config, "type_vocab_size", 0):
        inputs["token_type_ids"] = torch.tensor(segments)
    more, columns = {}, None
    if config.model_type == "xlnet":
        segments = generator.integers(0, 2, mask.shape)
        inputs, more, columns = xlnet_rows(ids, mask, segments, predicts=class_name.endswith("LMHeadModel"))
    if num_global is None:
        ids[:, 2:4] = config.sep_token_id
        ids[np.arange(len(lengths)), np.array(lengths) - 1] = config.sep_token_id
        inputs["input_ids"] = torch.tensor(ids)
    elif num_global >= 0:
        more["global_mask"] = np.array(
            [
                np.isin(np.arange(max(lengths)), row[:num_global])
                for row in (generator.permutation(length) for length in lengths)
            ]
        )
        inputs["global_attention_mask"] = torch.tensor(more["global_mask"].astype("int64"))
    if class_name.endswith("MultipleChoice"):
        inputs = {name: values[None] for name, values in inputs.items()}
    outputs = {}
    # In float64, eager attention gives NaN for padding outside of every window of ModernBERT.
    for name, dtype, attention in (("float32", torch.float32, "eager"), ("float64", torch.float64, "sdpa")):
        if config.model_type == "xlnet" and name == "float64":
            continue  # transformers mixes it with float32
        if config.model_type != "xlnet":
            model.set_attn_implementation(attention)
        with torch.no_grad():
            found = model.to(dtype)(**inputs, output_hidden_states=True)
            states = found.hidden_states
            if "perm_mask" in inputs:  # those states are of rows without hidden tokens
                plain = {key: values for key, values in inputs.items() if key not in ("perm_mask", "target_mapping")}
                states = model.transformer(**plain, output_hidden_states=True).hidden_states
        outputs[f"{name}:hidden_states"] = np.stack([in_our_columns(state.numpy(), columns) for state in states])
        for key, values in found.items():
            if key.endswith("logits"):
                outputs[f"{name}:{key}"] = in_our_columns(values.numpy(), columns)
    np.savez(f"{folder}/outputs.npz", input_ids=ids, input_mask=mask, segment_ids=segments, **more, **outputs)


def xlnet_rows(ids, mask, segments, predicts):
    """Returns rows as transformers' XLNet takes them, further inputs of ours, and the column there of each of ours.

    There padding is on the left and the first token of our rows, [CLS], is the last.
    """
    length, lengths = mask.shape[1], mask.sum(axis=1, keepdims=True)
    ours = np.arange(length)
    columns = np.where(ours == 0, length - 1, np.where(mask, length - lengths + ours - 1, ours - lengths))
    theirs = [np.empty_like(values) for values in (ids, mask, segments)]
    for values, filled in zip((ids, mask, np.where(ours == 0, 2, segments)), theirs, strict=True):
        np.put_along_axis(filled, columns, values, axis=1)
    inputs = {"input_ids": theirs[0], "attention_mask": theirs[1].astype("int64"), "token_type_ids": theirs[2]}
    more = {}
    if predicts:
        more["masked_lm_positions"] = np.tile([1, 3], (len(ids), 1))
        places = np.take_along_axis(columns, more["masked_lm_positions"], axis=1)
        mapping = (places[:, :, None] == ours).astype("float32")
        inputs |= {"target_mapping": mapping, "perm_mask": np.repeat(mapping.sum(1)[:, None], length, axis=1)}
    return {name: torch.tensor(values) for name, values in inputs.items()}, more, columns


def in_our_columns(values, columns):
    """Returns values of tokens, `[B, S, ...]`, in our order of columns; other values as they are."""
    if columns is None or values.shape[:2] != columns.shape:
        return values
    return np.take_along_axis(values, columns.reshape(*columns.shape, *[1] * (values.ndim - 2)), axis=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
