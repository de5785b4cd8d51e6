"""What task models need to work on texts: examples in, rows of tokens, answers and official scores out.

One module and one class per task. Nothing is imported here: models ask for their task when they are given texts.
"""
