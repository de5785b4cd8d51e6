"""Computes without padding: a wrapper around any encoder that supports packed rows."""

from keras import ops

from keras_bert.accelerate.unpadding import pack_rows, unpack
from keras_bert.layers.gathering import vectors_at
from keras_bert.records import features


class UnpaddedEncoder:
    """Packs a batch into fewer rows, runs an encoder on them, and unpacks the vectors. For inference on TensorFlow.

    The encoder must support packing. For `few_shapes` see `pack_rows`.
    """

    def __init__(self, encoder, few_shapes: bool):
        self._encoder = encoder
        self._few_shapes = few_shapes

    def encode(self, inputs, training=False) -> dict:
        """As `Encoder.encode`. Each vector of padding is a copy of the vector of its row's first token."""
        packed, rows = self._packed(inputs)
        outputs = self._encoder.encode(rows)
        result = {
            "sequence_output": unpack(outputs["sequence_output"], packed.flat_indices),
            "pooled_output": unpack(outputs["pooled_output"], packed.first_flat_indices),
        }
        if "hidden_states" in outputs:
            result["hidden_states"] = [unpack(state, packed.flat_indices) for state in outputs["hidden_states"]]
        return result

    def encode_at(self, inputs, columns=None, training=False) -> dict:
        """As `Encoder.encode_at`."""
        if columns is not None:
            outputs = self.encode(inputs)
            sequence_output = vectors_at(outputs["sequence_output"], columns)
            return {"sequence_output": sequence_output, "pooled_output": outputs["pooled_output"]}
        packed, rows = self._packed(inputs)
        pooled = self._encoder.encode_at(rows)["pooled_output"]  # [R, K, H]
        return {"pooled_output": unpack(pooled, packed.first_flat_indices)}

    def _packed(self, inputs):
        """Returns the packed batch, and the encoder inputs made from it."""
        ids, mask = (ops.cast(inputs[name], "int32") for name in (features.INPUT_IDS, features.INPUT_MASK))
        takes_segments = self._encoder.takes_segments
        segments = ops.cast(inputs[features.SEGMENT_IDS], "int32") if takes_segments else ops.zeros_like(ids)
        positions = inputs.get(features.POSITION_IDS, self._encoder.positions_of(mask))
        hidden_size = self._encoder.config.hidden_size
        packed = pack_rows(ids, mask, ops.cast(positions, "int32"), segments, hidden_size, few_shapes=self._few_shapes)
        return packed, {
            features.INPUT_IDS: packed.input_ids,
            features.INPUT_MASK: packed.input_mask,
            features.POSITION_IDS: packed.positions,
            features.SEGMENT_IDS: packed.segment_ids,
            features.CLS_POSITIONS: packed.first_columns,
        }
