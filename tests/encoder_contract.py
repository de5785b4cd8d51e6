"""The contract of `Encoder`, checked for any encoder."""

import numpy as np

from keras_bert.models.encoder_base import PACKING, POOLED_OUTPUT, SEGMENTS, UNPADDING, Encoder

LENGTH = 8


def inputs_of(masks, vocab_size: int, seed: int = 0) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(seed)
    masks = np.array(masks, "int32")
    ids = draw.integers(1, vocab_size, masks.shape).astype("int32")
    segments = draw.integers(0, 2, masks.shape).astype("int32")
    return {"input_ids": ids * (masks > 0), "input_mask": masks, "segment_ids": segments * (masks > 0)}


def check_encoder(encoder: Encoder, tolerance: float = 1e-5) -> None:
    """Checks an encoder without dropout whose weights are not small.

    Args:
        encoder: made from a config with at least `LENGTH` positions.
        tolerance: the largest difference between ways to compute the same vectors.
    """

    def same(one, other):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=0, atol=tolerance)

    batch = inputs_of([[1] * LENGTH, [1] * 5 + [0] * 3, [1] * 2 + [0] * 6], encoder.config.vocab_size)
    is_token, width = batch["input_mask"] > 0, encoder.config.hidden_size
    outputs = {name: np.asarray(values) for name, values in encoder(batch).items()}

    # Checks shapes, and that a row depends on its own tokens only.
    assert outputs["sequence_output"].shape == (3, LENGTH, width)
    assert outputs["sequence_output"].std() > 0.1
    alone = encoder({name: values[1:2, :5] for name, values in batch.items()})
    same(np.asarray(alone["sequence_output"])[0], outputs["sequence_output"][1, :5])
    if POOLED_OUTPUT in encoder.supports:
        assert outputs["pooled_output"].shape == (3, width)
        same(np.asarray(alone["pooled_output"])[0], outputs["pooled_output"][1])

    # Selected tokens have the same vectors as without selection.
    columns = np.array([[3, 0], [4, 1], [1, 1]], "int32")
    selected = encoder.vectors_at(batch, columns)
    same(selected["sequence_output"], np.take_along_axis(outputs["sequence_output"], columns[:, :, None], axis=1))
    flat = np.array([9, 0, 17, 9], "int32")
    same(encoder.vectors_at_flat(batch, flat), outputs["sequence_output"].reshape(-1, width)[flat])
    if POOLED_OUTPUT in encoder.supports:
        same(selected["pooled_output"], outputs["pooled_output"])
        assert list(encoder.vectors_at(batch)) == ["pooled_output"]
        same(encoder.vectors_at(batch)["pooled_output"], outputs["pooled_output"])

    # Given positions are used, and giving the default positions changes nothing.
    positions = np.tile(np.arange(LENGTH, dtype="int32"), (3, 1))
    same(encoder(batch | {"position_ids": positions})["sequence_output"], outputs["sequence_output"])
    moved = np.asarray(encoder(batch | {"position_ids": positions[:, ::-1]})["sequence_output"])
    is_moved = np.abs(moved - outputs["sequence_output"])[is_token].max() > 10 * tolerance
    assert is_moved == encoder.has_positions

    if SEGMENTS in encoder.supports:
        other = encoder(batch | {"segment_ids": 0 * batch["segment_ids"]})["sequence_output"]
        assert np.abs(np.asarray(other) - outputs["sequence_output"])[is_token].max() > 10 * tolerance
    if PACKING in encoder.supports:
        _check_packing(encoder, batch, outputs, same)
    if UNPADDING in encoder.supports:
        encoder.unpadded = True
        try:
            without = encoder(batch)
            same(np.asarray(without["sequence_output"])[is_token], outputs["sequence_output"][is_token])
            same(without["pooled_output"], outputs["pooled_output"])
            same(encoder.vectors_at(batch)["pooled_output"], outputs["pooled_output"])
        finally:
            encoder.unpadded = False

    blocks = encoder.blocks_in_order()
    assert blocks
    for block in blocks:
        assert set(block.dense_layers()) == {"attention", "feed_forward"}


def _check_packing(encoder, batch, outputs, same) -> None:
    """Packs the second and third row of the batch into one row: the two sequences do not affect each other."""
    packed = {
        name: np.concatenate([values[1:2, :5], values[2:3, :2]], axis=1)
        for name, values in batch.items()
        if name != "input_mask"
    }
    packed["input_mask"] = np.array([[1] * 5 + [2] * 2], "int32")
    packed["cls_positions"] = np.array([[0, 5]], "int32")
    found = encoder(packed)
    same(np.asarray(found["sequence_output"])[0, :5], outputs["sequence_output"][1, :5])
    same(np.asarray(found["sequence_output"])[0, 5:], outputs["sequence_output"][2, :2])
    same(np.asarray(found["pooled_output"])[0], outputs["pooled_output"][1:])
    same(encoder.vectors_at(packed)["pooled_output"], found["pooled_output"])
