"""Files that a server needs beside the model.

making.py            makes the whole folder
warm_up.py           warm-up requests, each answered once before it is written
sample_requests.py   makes sample requests from signatures
server_files.py      models.config, batching and monitoring parameters
start_scripts.py     start scripts for Docker and for an installed server
kubernetes.py        the Kubernetes manifest
"""
