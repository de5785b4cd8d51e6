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

# The server needs absolute folders; those in config/models.config are for a container.
config="$(mktemp -d)"
trap 'rm -rf "${config}"' EXIT
escaped="$(printf '%s' "${here}/models/" | sed 's/[\\&|]/\\&/g')"
sed "s|base_path: \"/models/|base_path: \"${escaped}|" \
  "${here}/config/models.config" > "${config}/models.config"

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
  --model_config_file="${config}/models.config"
  --batching_parameters_file="${here}/config/batching.config"
  --monitoring_config_file="${here}/config/monitoring.config"
)

# Without exec, the temporary folder is removed when the server ends. From the start of the server on, a signal to this
# script ends the server too.
server_process=""
signalled=""
stop_server() {
  signalled="yes"
  if [ -n "${server_process}" ]; then kill -TERM "${server_process}" 2> /dev/null || true; fi
}
trap stop_server INT TERM
"${server}" "${flags[@]}" "$@" &
server_process="$!"
if [ -n "${signalled}" ]; then stop_server; fi

# A signal ends `wait` before the server has ended. Once the server's status has been collected, `wait` returns 127.
status=127
signalled="yes"
while [ -n "${signalled}" ]; do
  signalled=""
  waited=0
  wait "${server_process}" 2> /dev/null || waited="$?"
  if [ "${waited}" -ne 127 ]; then status="${waited}"; fi
done
exit "${status}"
