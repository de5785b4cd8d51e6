"""Official metrics of the tasks, and reports of what a model gets wrong."""
