"""Faster forms of the same results. The code here knows neither layers nor models.

backend.py                tells whether Keras runs on TensorFlow, and provides the kernels if so
kernels.py                the kernels of the formulas: fewer passes over memory in training
tensorflow_functions.py   functions that TensorFlow recomputes in the backward pass or traces once
layer_state.py            a layer as a function of its weights and seeds
recomputation.py          gradient checkpointing
shared_trace.py           traces layers of one structure only once
unpadding.py              packs the rows of a batch into fewer rows, and unpacks the outputs
updates.py                parts of an optimizer's update in fewer passes over memory
block_runner.py           how the blocks of an encoder are called: recomputed, or traced once
"""
