#!/usr/bin/env bash
# Starts TensorFlow Serving with the model @@{name}.
#
# REST: http://localhost:8501/v1/models/@@{name}, gRPC: localhost:8500.
# Arguments are passed on to tensorflow_model_server.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

image="${IMAGE:-@@{image}}"
# Other machines reach the server with LISTEN=0.0.0.0.
listen="${LISTEN:-127.0.0.1}"
grpc_port="${GRPC_PORT:-8500}"
rest_port="${REST_PORT:-8501}"

flags=(
@@{flags}
  --model_config_file=/config/models.config
  --batching_parameters_file=/config/batching.config
  --monitoring_config_file=/config/monitoring.config
)

# The last of equal flags counts, so the arguments come last.
exec docker run --rm --init \
  --publish "${listen}:${grpc_port}:8500" \
  --publish "${listen}:${rest_port}:8501" \
  --volume "${here}/models:/models:ro" \
  --volume "${here}/config:/config:ro" \
  "${image}" "${flags[@]}" "$@"
