"""Encoders with rotary positions: one encoder, whose config has the columns in which the families differ.

config.py        RotaryConfig: the columns
encoder.py       RotaryEncoder
block.py         one layer
attention.py     self-attention with rotary positions
names.py         the weights, and their names in transformers
entries.py       how the files of these families in transformers are read: what their entries share
onnx.py          `RotaryEncoder` as ONNX operations
modern_bert.py   ModernBERT and mmBERT: Warner et al., 2024, arXiv 2412.13663
nomic_bert.py    NomicBERT: Nussbaum et al., 2024, arXiv 2402.01613
gte.py           GTE: Zhang et al., 2024, arXiv 2407.19669
jina_v3.py       jina-embeddings-v3: Sturua et al., 2024, arXiv 2409.10173
euro_bert.py     EuroBERT: Boizard et al., 2025, arXiv 2503.05500
neo_bert.py      NeoBERT: Le Breton et al., 2025, arXiv 2502.19587
gemma.py         Gemma 3 with attention in both directions: Vera et al., 2025, arXiv 2509.20354
"""
