"""What all models share: the base classes, the encoder contract, losses, metrics and the training step.

bert_layers.py         the layers of BERT made from a config
encoder_base.py        Encoder: the contract and the common code of all encoders
encoder_tokens.py      Tokens: the tokens that an encoder has read from a batch of features
encoders.py            selects the encoder class of a model family
unpadded_encoder.py    wraps an encoder: computes without padding
prompts.py             the texts that a model puts before each text
decoder.py             the decoder of models that write texts: causal blocks with cross attention and a cache
calibrated_model.py    the base class of models whose logits a temperature divides
shown_arguments.py     the constructor's arguments, which `from_pretrained` takes and shows
base.py                the base class of all models: config, loading, saving
task_model.py          the base class of models with heads: loss as a sum of terms
task_verbs.py          its compile, fit, evaluate, predict and explain, on features and on texts
verb_options.py        checks their options
fit_callbacks.py       what Keras' callbacks need to know of a model
losses.py              loss terms: a sum and a weight each
chosen_loss.py         the choice among the losses of a model that has several
metrics.py             metrics that are ratios of sums
distributed_model.py   the training step for several devices and for gradient accumulation
jax_model.py           the training step on Keras' JAX backend
distiller.py           trains a small model on what a large one computes
observed_encoder.py    gives the vectors and attention scores of all layers of a task model's encoder
trainable_parts.py     freezing and LoRA
layer_settings.py      what of this `.keras` files, pickles and copies keep
new_parts.py           tracks weights that the checkpoint did not contain
"""
