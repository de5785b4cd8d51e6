"""The sides of the speed benchmarks: each is a process in the environment of its engine. They share only NumPy."""
