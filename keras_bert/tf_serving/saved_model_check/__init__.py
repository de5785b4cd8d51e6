"""Finds, in any SavedModel and without loading it, what goes wrong in TensorFlow Serving: a module for each place."""
