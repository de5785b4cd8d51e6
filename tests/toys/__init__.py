"""A toy task and a toy family, as somebody would add them from outside of the package: see docs/extending.md.

urgency/    a task: how urgent a message is
distance/   a family: tokens attend less to distant ones
"""
