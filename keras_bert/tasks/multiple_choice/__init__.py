"""A prompt and several choices, of which one is right.

examples.py   checked prompts and choices, and the token rows made from them
task.py       the task for `fit`, `evaluate` and `predict`
report.py     how often each position is right and is chosen, and the worst errors
"""
