"""XLNet: attention by distance, and a second stream that predicts.

config.py             XLNetConfig
encoder.py            XLNetEncoder: relative attention with memory, [CLS] last, two streams
files.py              the parts of its files that have another form than ours
entry.py              the entry
"""
