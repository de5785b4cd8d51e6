"""The sides of the speed benchmarks: each a process in the environment of its engine. They share NumPy and no more."""
