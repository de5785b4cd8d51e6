"""Faster ways to compute the same results. The code here knows neither layers nor models.

backend.py                says on which backend Keras runs, and provides what depends on it
kernels.py                the formulas of layers/formulas.py in fewer passes over memory, for training
numbered_attention.py     attention within numbered sequences without a score for every pair of tokens, on JAX
tensorflow_functions.py   functions that TensorFlow recomputes in the backward pass or traces once
text_groups.py            products with a large table, for few texts at a time
jax_devices.py            divides a batch among devices, on JAX
traced_functions.py       keeps the traced functions of a model until a part of it changes
unpadding.py              packs the rows of a batch into fewer rows, and unpacks the outputs
updates.py                parts of an optimizer's update in fewer passes over memory
block_runner.py           runs the blocks of a model: recomputed (gradient checkpointing), or traced once
"""
