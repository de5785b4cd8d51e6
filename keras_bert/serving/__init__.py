"""A model -> an export and its answers."""
