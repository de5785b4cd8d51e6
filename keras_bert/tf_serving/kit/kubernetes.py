"""A Kubernetes manifest for a kit: configuration, volume of the models, deployment and service."""

import json
import math
import re
from collections.abc import Mapping

_MEBIBYTE = 1 << 20
# What the server itself takes.
_SERVER_BYTES = 512 * _MEBIBYTE
# Weights, and what a batch needs beside them, against the bytes on disk.
_MEMORY_PER_DISK = 1.5

_MANIFEST = """\
# TensorFlow Serving with the model {name}. Before `kubectl apply -f kubernetes.yaml`:
# the volume {label}-models must hold what this kit has in models/.
apiVersion: v1
kind: ConfigMap
metadata:
  name: {label}-config
  labels: {{app: {label}}}
data:
{config}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {label}-models
  labels: {{app: {label}}}
spec:
  # Every pod reads it; whoever publishes a new version writes it.
  accessModes: [ReadWriteMany]
  resources:
    requests:
      storage: {storage}Mi
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {label}
  labels: {{app: {label}}}
spec:
  replicas: {replicas}
  selector:
    matchLabels: {{app: {label}}}
  template:
    metadata:
      labels: {{app: {label}}}
      annotations:
        prometheus.io/scrape: "true"
        prometheus.io/port: "8501"
        prometheus.io/path: {metrics_path}
    spec:
      containers:
        - name: server
          image: {image}
          args:
            - --model_config_file=/config/models.config
            - --enable_batching=true
            - --batching_parameters_file=/config/batching.config
            - --monitoring_config_file=/config/monitoring.config
            - --file_system_poll_wait_seconds=10
          ports:
            - {{name: grpc, containerPort: 8500}}
            - {{name: rest, containerPort: 8501}}
          # The REST port opens when the model is loaded and warm.
          startupProbe:
            httpGet: {{path: {status_path}, port: rest}}
            periodSeconds: 5
            failureThreshold: 60
          readinessProbe:
            httpGet: {{path: {status_path}, port: rest}}
            periodSeconds: 5
          livenessProbe:
            tcpSocket: {{port: grpc}}
            periodSeconds: 20
          resources:
            # One version is {model_bytes:,} bytes on disk. The limit has room for two of them: a new version is
            # loaded before the old one goes.
            requests: {{cpu: "{cpus}", memory: {memory_request}Mi}}
            limits: {{memory: {memory_limit}Mi}}
          securityContext:
            allowPrivilegeEscalation: false
          volumeMounts:
            - {{name: models, mountPath: /models, readOnly: true}}
            - {{name: config, mountPath: /config, readOnly: true}}
      volumes:
        - name: models
          persistentVolumeClaim: {{claimName: {label}-models}}
        - name: config
          configMap: {{name: {label}-config}}
---
apiVersion: v1
kind: Service
metadata:
  name: {label}
  labels: {{app: {label}}}
spec:
  selector: {{app: {label}}}
  ports:
    - {{name: grpc, port: 8500, targetPort: grpc}}
    - {{name: rest, port: 8501, targetPort: rest}}
"""


def kubernetes_manifest(
    name: str,
    image: str,
    config_files: Mapping[str, str],
    metrics_path: str,
    model_bytes: int,
    replicas: int = 2,
    cpus: int = 2,
) -> str:
    """Returns the YAML of a deployment whose pods serve one model from a shared volume.

    Args:
        name: the model; in names of Kubernetes it is in lower case, with '-' for other characters.
        image: of TensorFlow Serving.
        config_files: name -> text of the server's configuration files.
        metrics_path: where the server gives its metrics.
        model_bytes: the size of one version on disk, from which memory is estimated.
    """
    one_version = model_bytes * _MEMORY_PER_DISK
    return _MANIFEST.format(
        name=name,
        label=kubernetes_name(name),
        image=json.dumps(image),
        config="\n".join(
            f"  {file}: |\n" + "\n".join(f"    {line}" for line in text.splitlines())
            for file, text in sorted(config_files.items())
        ),
        metrics_path=json.dumps(metrics_path),
        status_path=json.dumps(f"/v1/models/{name}"),
        model_bytes=model_bytes,
        replicas=replicas,
        cpus=cpus,
        # Room for a few versions.
        storage=max(1024, _mebibytes(4 * model_bytes)),
        memory_request=_mebibytes(_SERVER_BYTES + one_version),
        memory_limit=_mebibytes(_SERVER_BYTES + 2 * one_version),
    )


def kubernetes_name(name: str) -> str:
    """Returns a name as Kubernetes takes it: `Sentiment_v1` -> `sentiment-v1`."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:50].strip("-")


def _mebibytes(size: float) -> int:
    return math.ceil(size / _MEBIBYTE)
