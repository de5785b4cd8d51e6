# The small install: it serves exports for ONNX Runtime, without TensorFlow and Keras; see docs/runtimes.md.
#
#   docker build --file docker/runtime.Dockerfile --tag keras-bert-runtime .
#   docker run --rm --publish=8501:8501 --volume "$PWD/exports:/exports:ro" keras-bert-runtime /exports/sentiment
#
# EXTRAS names other runtimes and the tokenizers of other models, such as openvino,tokenizers,serving.
FROM python:3.12-slim AS build

ARG EXTRAS=onnx,serving
WORKDIR /source
COPY constraints.txt LICENSE ./
COPY keras_bert keras_bert
COPY run_scripts run_scripts
COPY runtime runtime
RUN python -m venv /opt/keras_bert \
    && /opt/keras_bert/bin/pip install --no-cache-dir --constraint constraints.txt "./runtime[${EXTRAS}]"

FROM python:3.12-slim
COPY --from=build /opt/keras_bert /opt/keras_bert
RUN useradd --create-home --uid 1000 server

# Neither files nor ports need another user.
USER 1000
EXPOSE 8501
# Other machines reach the port that `docker run` publishes.
ENTRYPOINT ["/opt/keras_bert/bin/keras-bert-serve", "--host=0.0.0.0"]
CMD ["--help"]
