#!/usr/bin/env bash
# Starts TensorFlow Serving with the model @@{name}.
#
# REST: http://localhost:8501/v1/models/@@{name}, gRPC: localhost:8500.
# Arguments are passed on to tensorflow_model_server.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

server="${MODEL_SERVER:-tensorflow_model_server}"
grpc_port="${GRPC_PORT:-8500}"
rest_port="${REST_PORT:-8501}"

if ! command -v "${server}" > /dev/null; then
  echo "error: ${server} is not installed. Use serve_with_docker.sh, or set MODEL_SERVER=/path/to/it." >&2
  exit 1
fi

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
  --port="${grpc_port}"
  --rest_api_port="${rest_port}"
  # The folders in config/models.config are those of a container.
  --model_name=@@{name}
  --model_base_path="${here}/models/@@{name}"
  --batching_parameters_file="${here}/config/batching.config"
  --monitoring_config_file="${here}/config/monitoring.config"
)

# The last of equal flags counts, so the arguments come last.
exec "${server}" "${flags[@]}" "$@"
