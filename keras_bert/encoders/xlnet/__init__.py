"""XLNet: attention by distance, and a second stream that predicts.

config.py             XLNetConfig
encoder.py            XLNetEncoder: relative attention with memory, [CLS] last, two streams
entry.py              the entry
"""
