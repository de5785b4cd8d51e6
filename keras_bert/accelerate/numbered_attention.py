"""Attention within numbered sequences, without a score or a bias for every pair of tokens in memory: for JAX.

`attention` computes long rows block by block, and calls fused kernels on a GPU. Padding and packing are read from the
numbers of `input_mask`. The calls of GPU kernels were checked on a CPU only; docs/decisions/fused_attention_on_jax.md
says how.

Reference: Dao et al., 2022, arXiv 2205.14135.
"""

import jax
import keras
from jax import lax
from jax import numpy as jnp

# From this many keys on, blocks take less time and memory than the formula on a CPU, and kernels took less on a GPU.
FEWEST_KEYS = 512
_BLOCK = 128
_MASKED = -30000.0
# Queries that only fill up the last block. No key has this number.
_NO_QUERY = -1


def is_chosen(length: int, head_size: int, dtype: str, training: bool) -> bool:
    """Returns whether `attention` is used for rows of `length` tokens instead of the formula.

    Inference on a GPU keeps Keras' function, see `fused_attention`. `keras.config.disable_flash_attention()` makes
    this always false.
    """
    if length < FEWEST_KEYS or keras.config.is_flash_attention_enabled() is False:
        return False
    return jax.default_backend() == "cpu" or (training and _has_kernels(head_size, dtype))


def attention(query, key, value, query_numbers, key_numbers):
    """As `formulas.attention` without dropout, where a token attends to the tokens with its own number.

    Args:
        query: float `[B, N, F, D]`, divided by the square root of D.
        key, value: `[B, N, S, D]` of that dtype.
        query_numbers: int `[B, F]`, the numbers of the tokens that attend; None: all do, and F = S.
        key_numbers: int `[B, S]`, 0 for padding, n for the n-th sequence of the row.

    Returns:
        `[B, N, F, D]`. Padding attends to all tokens of its row, but in packed rows with a kernel to padding only. In
        rows without tokens, the vectors mean nothing.
    """
    numbers = key_numbers if query_numbers is None else query_numbers
    inputs = (query, key, value, numbers, key_numbers)
    if not _has_kernels(query.shape[-1], query.dtype.name):
        return in_blocks(*inputs)
    # XLA would copy the whole batch to every device for Pallas' kernel, which also takes one number for query and key.
    takes_segments = query_numbers is None and keras.distribution.distribution() is None
    is_single = jnp.all(key_numbers <= 1) & jnp.all(key_numbers[:, 1:] <= key_numbers[:, :-1])
    return lax.cond(is_single, by_lengths, by_segments if takes_segments else in_blocks, *inputs)


def _has_kernels(head_size: int, dtype: str) -> bool:
    """Returns whether there is an NVIDIA GPU of compute capability 8.0 or more, and its kernels take these heads."""
    if jax.default_backend() != "gpu" or dtype not in ("bfloat16", "float16") or head_size % 8 or head_size > 128:
        return False
    # An AMD GPU has a name such as gfx942 there.
    capability = str(getattr(jax.local_devices()[0], "compute_capability", ""))
    return capability.replace(".", "", 1).isdigit() and float(capability) >= 8.0


def by_lengths(query, key, value, query_numbers, key_numbers, implementation="cudnn"):
    """As `attention` with cuDNN's kernel, for rows of one sequence with padding on the right."""
    query, key, value = (jnp.swapaxes(part, 1, 2) for part in (query, key, value))  # [B, S, N, D]
    # An empty row would have no probabilities.
    lengths = jnp.maximum(jnp.sum(key_numbers, axis=1, dtype="int32"), 1)
    found = jax.nn.dot_product_attention(
        query, key, value, scale=1.0, key_value_seq_lengths=lengths, implementation=implementation
    )
    return jnp.swapaxes(found, 1, 2)


def by_segments(query, key, value, query_numbers, key_numbers, interpret=False):
    """As `attention` with Pallas' Triton kernel, for packed rows whose tokens all attend."""
    from jax.experimental.pallas.ops.gpu import attention as pallas_attention

    length = query.shape[2]
    missing = -length % _BLOCK
    parts = [jnp.swapaxes(_filled(part, 2, missing), 1, 2) for part in (query, key, value)]
    numbers = _filled(key_numbers, 1, missing, _NO_QUERY)
    sizes = pallas_attention.BlockSizes.get_default()
    found = pallas_attention.mha(*parts, numbers, sm_scale=1.0, block_sizes=sizes, interpret=interpret)
    return jnp.swapaxes(found, 1, 2)[:, :, :length]


@jax.custom_vjp
def in_blocks(query, key, value, query_numbers, key_numbers):
    """As `attention`, block by block: only the scores of a block of queries and a block of keys are in memory.

    Blocks whose tokens do not attend to each other are skipped, so short sequences in a long row cost little. The
    backward pass keeps the inputs, the outputs and the logarithm of each row's sum.
    """
    return _forward(query, key, value, query_numbers, key_numbers)[0]


def _forward(query, key, value, query_numbers, key_numbers):
    dtype = jnp.promote_types(query.dtype, "float32")
    queries, keys, first, last = _blocks_of(query, (key, value), query_numbers, key_numbers)

    def of_block(_, block):
        (query, numbers), first, last = block
        *rows, size = query.shape

        def add_keys(index, sums):
            total, weight, largest = sums
            key, value, key_numbers = (part[index] for part in keys)
            scores, allowed = _scores(query, key, numbers, key_numbers, dtype)
            larger = jnp.maximum(largest, jnp.max(scores, axis=-1))
            weights = jnp.where(allowed, jnp.exp(scores - larger[..., None]), 0)
            shrunk = jnp.exp(largest - larger)
            gathered = _product("bnqk,bnkd->bnqd", weights.astype(value.dtype), value, dtype)
            return total * shrunk[..., None] + gathered, weight * shrunk + jnp.sum(weights, axis=-1), larger

        sums = jnp.zeros((*rows, size), dtype), jnp.zeros(rows, dtype), jnp.full(rows, _MASKED, dtype)
        total, weight, largest = lax.fori_loop(first, last, add_keys, sums)
        weight = jnp.where(weight > 0, weight, 1)
        return None, ((total / weight[..., None]).astype(query.dtype), largest + jnp.log(weight))

    _, (found, logarithms) = lax.scan(of_block, None, (queries, first, last))
    found = _joined(found, query.shape[2])
    return found, (query, key, value, query_numbers, key_numbers, found, logarithms)


def _backward(kept, upstream):
    query, key, value, query_numbers, key_numbers, found, logarithms = kept
    dtype = logarithms.dtype
    products = jnp.sum(upstream.astype(dtype) * found.astype(dtype), axis=-1)[..., None]
    queries, keys, first, last = _blocks_of(query, (key, value), query_numbers, key_numbers)
    others = _in_blocks_first(upstream, 2), _in_blocks_first(products, 2)

    def of_block(gradients, block):
        (query, numbers), (upstream, products), logarithms, first, last = block

        def add_keys(index, gradients):
            to_query, to_keys, to_values = gradients
            key, value, key_numbers = (part[index] for part in keys)
            scores, allowed = _scores(query, key, numbers, key_numbers, dtype)
            weights = jnp.where(allowed, jnp.exp(scores - logarithms[..., None]), 0)
            to_scores = weights * (_product("bnqd,bnkd->bnqk", upstream, value, dtype) - products)
            weights, to_scores = weights.astype(query.dtype), to_scores.astype(query.dtype)
            to_query += _product("bnqk,bnkd->bnqd", to_scores, key, dtype)
            to_keys = to_keys.at[index].add(_product("bnqk,bnqd->bnkd", to_scores, query, dtype))
            to_values = to_values.at[index].add(_product("bnqk,bnqd->bnkd", weights, upstream, dtype))
            return to_query, to_keys, to_values

        to_query, *gradients = lax.fori_loop(first, last, add_keys, (jnp.zeros(query.shape, dtype), *gradients))
        return tuple(gradients), to_query

    gradients = jnp.zeros(keys[0].shape, dtype), jnp.zeros(keys[1].shape, dtype)
    gradients, to_query = lax.scan(of_block, gradients, (queries, others, logarithms, first, last))
    to_all = _joined(to_query, query.shape[2]), *(_joined(part, key.shape[2]) for part in gradients)
    return *(part.astype(query.dtype) for part in to_all), None, None


in_blocks.defvjp(_forward, _backward)


def _scores(query, key, query_numbers, key_numbers, dtype):
    """Returns the scores of a block `[B, N, b, b]` and whether the tokens attend, `[B, 1, b, b]`."""
    query_numbers, key_numbers = query_numbers[:, None, :, None], key_numbers[:, None, None, :]
    allowed = ((query_numbers == key_numbers) | (query_numbers == 0)) & (key_numbers != 0)
    return jnp.where(allowed, _product("bnqd,bnkd->bnqk", query, key, dtype), _MASKED), allowed


def _product(axes, left, right, dtype):
    return jnp.einsum(axes, left, right, preferred_element_type=dtype)


def _blocks_of(query, keys, query_numbers, key_numbers):
    """Returns the blocks of queries with their numbers, those of keys, and each query block's range of key blocks."""
    query_numbers = _in_blocks_first(query_numbers, 1, _NO_QUERY)
    key_numbers = _in_blocks_first(key_numbers, 1)
    may_attend = _blocks_that_attend(query_numbers, key_numbers)
    any_block = jnp.any(may_attend, axis=1)
    first = jnp.argmax(may_attend, axis=1)
    last = jnp.where(any_block, may_attend.shape[1] - jnp.argmax(may_attend[:, ::-1], axis=1), 0)
    queries = _in_blocks_first(query, 2), query_numbers
    return queries, (*(_in_blocks_first(part, 2) for part in keys), key_numbers), first, last


def _blocks_that_attend(query_numbers, key_numbers):
    """Returns whether tokens of a block may attend to those of another one: int `[Q, B, b]`, `[K, B, b]` -> `[Q, K]`.

    It compares the smallest and largest number of each block in all rows of the batch.
    """

    def span(numbers):
        smallest = jnp.min(jnp.where(numbers > 0, numbers, jnp.iinfo(numbers.dtype).max), axis=2)
        return smallest, jnp.max(numbers, axis=2)

    (least, most), (key_least, key_most) = span(query_numbers), span(key_numbers)
    has_padding = jnp.any(query_numbers == 0, axis=2)[:, None]
    overlap = (least[:, None] <= key_most) & (key_least <= most[:, None])
    return jnp.any((has_padding | overlap) & (key_most > 0), axis=2)


def _in_blocks_first(values, axis: int, fill=0):
    """Divides an axis into blocks, which become the first axis; the last block is filled up."""
    values = _filled(values, axis, -values.shape[axis] % _BLOCK, fill)
    shape = (*values.shape[:axis], -1, _BLOCK, *values.shape[axis + 1 :])
    return jnp.moveaxis(values.reshape(shape), axis, 0)


def _joined(blocks, length: int):
    """Joins blocks: `[C, B, N, b, D]` -> `[B, N, length, D]`."""
    joined = jnp.moveaxis(blocks, 0, 2)
    return joined.reshape(*joined.shape[:2], -1, joined.shape[-1])[:, :, :length]


def _filled(values, axis: int, missing: int, fill=0):
    widths = [(0, missing if place == axis else 0) for place in range(values.ndim)]
    return jnp.pad(values, widths, constant_values=fill) if missing else values
