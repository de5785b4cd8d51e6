"""The encoder written by hand in TensorFlow's operations: what a Keras model is held against.

No layers, no dropout, no rows of several sequences: token ids in, the last layer's vectors out. It is as fast as we can
write it with operations that stock TensorFlow has, and so stands for what a BERT in TensorFlow can reach.

* Products with weights are two-dimensional, `[T, H] x [H, .]` for all T = B * S tokens, with tf.nn.bias_add behind
  them: TensorFlow's optimiser makes one kernel of product, bias and GELU.
* Query, key and value are products of their own: one product of three times the width has to be cut up again.
* Heads are gathered: a transposition prepares itself anew at each call.
* LayerNorm is a batch normalisation whose channels are the tokens: that is one kernel instead of seven.

Tried and no faster on two cores: weights as constants, one product for query, key and value, softmax written out,
LayerNorm by `tf.math.squared_difference` or with means by matrix products.
"""

import tensorflow as tf

from keras_bert.config import BertConfig

_MASKED = -30000.0


def plain_encoder(encoder):
    """Returns a function of input_ids, input_mask and segment_ids, int32 `[B, S]`, that computes `[B, S, H]`.

    Args:
        encoder: a `BertEncoder` of float32, whose variables are used. Its `hidden_act` must be one of the two GELUs.
    """
    weights = {variable.path.split("/", 1)[1]: variable.value for variable in encoder.variables}
    return tf.function(lambda *inputs: _encode(weights, encoder.config, *inputs), autograph=False)


def _encode(weights, config: BertConfig, input_ids, input_mask, segment_ids):
    # B = batch, S = sequence length, T = B * S, H = hidden size, N = number of heads, D = head size
    batch, length = tf.unstack(tf.shape(input_ids))
    hidden = _embeddings(weights, config, input_ids, segment_ids, length)
    bias = (1.0 - tf.cast(input_mask[:, None, None, :], tf.float32)) * _MASKED  # [B, 1, 1, S]
    for layer in range(config.num_hidden_layers):
        own = f"layer_{layer}"
        attended = _attention(weights, f"{own}/attention", config, hidden, bias, batch, length)
        hidden = _layer_norm(weights, f"{own}/attention_layer_norm", config, hidden + attended)
        inner = _gelu(_dense(weights, f"{own}/intermediate_dense", hidden), config)
        hidden = _layer_norm(
            weights, f"{own}/output_layer_norm", config, hidden + _dense(weights, f"{own}/output_dense", inner)
        )
    return tf.reshape(hidden, (batch, length, config.hidden_size))


def _embeddings(weights, config, input_ids, segment_ids, length):
    tokens = tf.gather(weights["embeddings/token_embeddings"], tf.reshape(input_ids, [-1]))
    segments = tf.one_hot(tf.reshape(segment_ids, [-1]), config.type_vocab_size)
    tokens += tf.matmul(segments, weights["embeddings/segment_embeddings"])
    tokens = tf.reshape(tokens, (-1, length, config.hidden_size)) + weights["embeddings/position_embeddings"][:length]
    return _layer_norm(weights, "embeddings/layer_norm", config, tf.reshape(tokens, (-1, config.hidden_size)))


def _attention(weights, name, config, hidden, bias, batch, length):
    num_heads, head_size = config.num_attention_heads, config.head_size
    query, key, value = (
        _swapped(_dense(weights, f"{name}/{part}", hidden), batch, length, num_heads, head_size)
        for part in ("query", "key", "value")
    )
    scores = tf.matmul(query * head_size**-0.5, key, transpose_b=True)  # [B, N, S, S]
    gathered = tf.matmul(tf.nn.softmax(scores + bias), value)  # [B, N, S, D]
    gathered = _swapped(gathered, batch, num_heads, length, head_size)
    return _dense(weights, f"{name}/output_dense", tf.reshape(gathered, (-1, config.hidden_size)))


def _swapped(values, batch, first, second, size):
    """Numbers of the shape `[batch, first, second, size]` -> `[batch, second, first, size]`."""
    rows = tf.reshape(tf.range(batch * first * second), (batch, first, second))
    return tf.gather(tf.reshape(values, (-1, size)), tf.transpose(rows, (0, 2, 1)))


def _dense(weights, name, values):
    return tf.nn.bias_add(tf.matmul(values, weights[f"{name}/kernel"]), weights[f"{name}/bias"])


def _gelu(values, config):
    return tf.nn.gelu(values, approximate=config.hidden_act == "gelu")


def _layer_norm(weights, name, config, values):
    tokens, hidden_size = tf.unstack(tf.shape(values))
    normal, *_ = tf.raw_ops.FusedBatchNormV3(
        x=tf.reshape(values, (1, tokens, hidden_size, 1)),
        scale=tf.ones([tokens]),
        offset=tf.zeros([tokens]),
        mean=tf.zeros([0]),
        variance=tf.zeros([0]),
        epsilon=config.layer_norm_eps,
        data_format="NCHW",
    )
    return tf.reshape(normal, (-1, config.hidden_size)) * weights[f"{name}/gamma"] + weights[f"{name}/beta"]
