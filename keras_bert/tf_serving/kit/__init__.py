"""What a server needs beside the model: warm-up requests, configuration, start scripts, a Kubernetes manifest."""
