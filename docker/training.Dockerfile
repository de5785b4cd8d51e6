# The library and all its commands, for training on a processor or on NVIDIA's GPUs.
#
#   docker build --file docker/training.Dockerfile --tag keras-bert .
#   docker build --file docker/training.Dockerfile --build-arg TENSORFLOW='tensorflow[and-cuda]' --tag keras-bert-gpu .
#   docker run --rm --gpus=all --volume "$PWD:/work" keras-bert-gpu keras-bert-run-classifier --data_dir=data ...
#
# To serve a model: make_serving_kit writes a Dockerfile beside the model.
FROM python:3.12-slim

ARG TENSORFLOW=tensorflow
WORKDIR /source
COPY constraints.txt setup.py pyproject.toml MANIFEST.in README.md LICENSE ./
COPY data_prep data_prep
COPY keras_bert keras_bert
COPY run_scripts run_scripts
RUN pip install --no-cache-dir --constraint constraints.txt "${TENSORFLOW}" '.[parquet,hub,plots,tensorboard]' \
    && useradd --create-home --uid 1000 trainer \
    && install --directory --owner=trainer /work

# The user's files are in /work; they belong to user 1000, or give `docker run --user`.
USER 1000
WORKDIR /work
CMD ["keras-bert-run-pretraining", "--help"]
