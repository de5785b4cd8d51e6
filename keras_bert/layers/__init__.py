"""The formulas of the papers, and the Keras layers made of them. Layers take numbers, not configs.

bert_layer.py           the base class of the layers: their configs and dense layers; merges LoRA
formulas.py             the formulas: tensors in, tensors out
choosing.py             chooses between formulas and kernels
embeddings.py           token + position + segment embeddings, and the base class of embeddings
attention.py            multi-head self-attention
cross_attention.py      attention of a decoder to a source
transformer_block.py    one layer of the encoder
token_embeddings.py     token embeddings without positions
relative_attention.py   multi-head self-attention with relative positions, segments and a memory, and a layer with it
activations.py          exact GELU, its tanh approximation, and the other activations
layer_norm.py           LayerNorm and RMSNorm
dropout.py              dropout that draws 16 random bits per number
blocks.py               rows in blocks, each of which attends to few others
numbered_mask.py        attention mask and positions from the numbers in input_mask
gathering.py            gathers vectors at selected columns
heads.py                pooler, masked-LM head, and the head before ModernBERT's last layers
token_replacement.py    draws tokens from a masked LM and puts them into rows
span_boundary.py        the tokens of a masked span from the two tokens beside it: SpanBERT
text_pooling.py         the vectors of tokens -> one vector for the text
vocabulary_pooling.py   the vectors of tokens -> a weight for each token of the vocabulary: SPLADE
layer_mixture.py        a learnt weighted mean of the vectors of several layers
"""
