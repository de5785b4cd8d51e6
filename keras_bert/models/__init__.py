"""What all models share: the base classes, the encoder contract, losses, metrics and the training step.

bert_layers.py         the layers of BERT made from a config
encoder_base.py        Encoder: the contract and the common code of all encoders; selects the class of a family
unpadded_encoder.py    wraps an encoder: computes without padding
decoder.py             the decoder of models that write texts: causal blocks with cross attention and a cache
shown_arguments.py     what methods show that pass arguments on, and the check of unknown options
base.py                the base class of all models: config, loading, saving
task_model.py          the base class of models with heads: loss as a sum of terms; FeatureModel, for features only
fit_callbacks.py       what Keras' callbacks and bars need to know of a model
losses.py              loss terms: a sum and a weight each; metrics that are ratios of such sums; example weights
distributed_model.py   the training step for several devices and for gradient accumulation
whole_batch_step.py    the same for losses over all texts of a batch
jax_model.py           the training step on Keras' JAX backend
distiller.py           trains a small model on what a large one computes
observed_encoder.py    gives the vectors and attention scores of all layers of a task model's encoder
trainable_parts.py     freezing and LoRA
layer_settings.py      what of this `.keras` files, pickles and copies keep
"""
