"""XLNet: attention by distance, and a second stream that predicts.

entry.py   the entry
files.py   the parts of its files that have another form than ours
"""
