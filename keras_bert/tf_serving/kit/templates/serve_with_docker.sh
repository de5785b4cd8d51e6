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
  # Requests that arrive together are joined: config/batching.config.
  --enable_batching=true
  # The requests in assets.extra run before the server accepts requests of clients.
  --enable_model_warmup=true
  # Seconds between searches for a new folder models/@@{name}/<number>, which is served without a restart.
  --file_system_poll_wait_seconds=10
  # How often loading a model is tried again.
  --max_num_load_retries=2
  # A REST request that takes longer ends with an error.
  --rest_api_timeout_in_ms=30000
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
