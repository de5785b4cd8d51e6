"""Shell scripts that start TensorFlow Serving on a kit: in Docker, or as a program of its own."""

# Both scripts listen to this machine alone unless they are told otherwise: TensorFlow Serving asks for no password.
_HEAD = """#!/usr/bin/env bash
# Starts TensorFlow Serving with the model NAME_OF_MODEL.
#
# REST: http://localhost:8501/v1/models/NAME_OF_MODEL, gRPC: localhost:8500.
# More flags of tensorflow_model_server can be given: they are passed on.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
"""

_DOCKER = """
image="${IMAGE:-NAME_OF_IMAGE}"
# Other machines reach the server with LISTEN=0.0.0.0.
listen="${LISTEN:-127.0.0.1}"
grpc_port="${GRPC_PORT:-8500}"
rest_port="${REST_PORT:-8501}"

flags=(
MODEL_FLAGS
  --model_config_file=/config/models.config
  --batching_parameters_file=/config/batching.config
  --monitoring_config_file=/config/monitoring.config
)

# The last flags win, so those of the command line come last.
exec docker run --rm --init \\
  --publish "${listen}:${grpc_port}:8500" \\
  --publish "${listen}:${rest_port}:8501" \\
  --volume "${here}/models:/models:ro" \\
  --volume "${here}/config:/config:ro" \\
  "${image}" "${flags[@]}" "$@"
"""

_BARE = """
server="${MODEL_SERVER:-tensorflow_model_server}"
grpc_port="${GRPC_PORT:-8500}"
rest_port="${REST_PORT:-8501}"

if ! command -v "${server}" > /dev/null; then
  echo "error: ${server} is not installed. Use serve_with_docker.sh, or set MODEL_SERVER=/path/to/it." >&2
  exit 1
fi

# The server takes absolute folders only; the file in config/ has those inside a container.
config="$(mktemp -d)"
trap 'rm -rf "${config}"' EXIT
escaped="$(printf '%s' "${here}/models/" | sed 's/[\\\\&|]/\\\\&/g')"
sed "s|base_path: \\"/models/|base_path: \\"${escaped}|" \\
  "${here}/config/models.config" > "${config}/models.config"

flags=(
MODEL_FLAGS
  --port="${grpc_port}"
  --rest_api_port="${rest_port}"
  --model_config_file="${config}/models.config"
  --batching_parameters_file="${here}/config/batching.config"
  --monitoring_config_file="${here}/config/monitoring.config"
)

# Not exec: the temporary folder is removed when the server ends. A signal to this script ends the server too, from the
# moment at which it starts.
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

# A signal ends the waiting before the server has ended. Of a server that was waited for to its end, wait says 127.
status=127
signalled="yes"
while [ -n "${signalled}" ]; do
  signalled=""
  waited=0
  wait "${server_process}" 2> /dev/null || waited="$?"
  if [ "${waited}" -ne 127 ]; then status="${waited}"; fi
done
exit "${status}"
"""

_FLAGS = """\
  # Requests that arrive together run together: config/batching.config.
  --enable_batching=true
  # The requests in assets.extra are answered before clients may ask.
  --enable_model_warmup=true
  # A new folder models/NAME_OF_MODEL/<number> is served without a restart, looked for so often.
  --file_system_poll_wait_seconds=10
  # A model that does not load is tried again so many times.
  --max_num_load_retries=2
  # A request over REST that takes longer is given up.
  --rest_api_timeout_in_ms=30000"""


def docker_script(name: str, image: str) -> str:
    """Returns a script that serves the kit it lies in with a Docker image of TensorFlow Serving."""
    return _filled(_HEAD + _DOCKER, name).replace("NAME_OF_IMAGE", image)


def bare_script(name: str) -> str:
    """Returns a script that serves the kit it lies in with the program tensorflow_model_server."""
    return _filled(_HEAD + _BARE, name)


def _filled(text: str, name: str) -> str:
    return text.replace("MODEL_FLAGS", _FLAGS).replace("NAME_OF_MODEL", name)
