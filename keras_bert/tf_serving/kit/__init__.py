"""Files that a server needs beside the model.

making.py            makes the whole folder
warm_up.py           warm-up requests, each answered once before it is written
sample_requests.py   makes sample requests from signatures
kit_texts.py         fills in the text files of templates/
templates/           start scripts, Kubernetes manifest, models.config, monitoring.config, README.md
"""
