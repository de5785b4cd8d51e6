"""Faster ways to compute the same results. The code here knows neither layers nor models.

backend.py                says on which backend Keras runs, and provides the modules below that need it
kernels.py                the formulas of layers/formulas.py in fewer passes over memory, for training
fused_attention.py        attention without scores in memory, for inference on other backends
numbered_attention.py     attention within numbered sequences without a score for every pair of tokens, on JAX
tensorflow_functions.py   functions that TensorFlow recomputes in the backward pass or traces once
text_groups.py            products with a large table, for few texts at a time
layer_state.py            runs a layer as a function of its weights and dropout seeds
recomputation.py          gradient checkpointing
jax_devices.py            divides a batch among devices, on JAX
traced_functions.py       keeps the traced functions of a model until a part of it changes
shared_trace.py           traces layers of the same structure only once
unpadding.py              packs the rows of a batch into fewer rows, and unpacks the outputs
updates.py                parts of an optimizer's update in fewer passes over memory
block_runner.py           runs the blocks of a model: recomputed, or traced once
"""
