"""Files that TensorFlow Serving needs beside the model.

making.py      makes the whole folder
warm_up.py     warm-up requests, each answered once before it is written
kit_texts.py   fills in the text files of templates/
templates/     start scripts, Dockerfile, Kubernetes manifest, configuration files, README.md
"""
