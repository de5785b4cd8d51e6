"""Checks the files beside the graph: assets and the fingerprint."""

import os
from collections.abc import Iterator

from keras_bert.program.private_interfaces import private
from keras_bert.tf_serving.saved_model_check.reading import SavedModelFiles
from keras_bert.tf_serving.saved_model_check.report import Finding, error, note, warning

FINGERPRINT_FILE = "fingerprint.pb"
ASSET_FOLDER = "assets"
# Field of the fingerprint -> the file or part that it is the hash of.
_HASHES = {
    "graph_def_program_hash": "the graph",
    "signature_def_hash": "the signatures",
    "saved_object_graph_hash": "the objects",
    "checkpoint_hash": "the variables",
}


def check_assets(model: SavedModelFiles) -> Iterator[Finding]:
    """Yields findings about missing files that the graph reads, and about files that nothing reads."""
    folder = os.path.join(model.folder, ASSET_FOLDER)
    named = set()
    for asset in model.meta_graph.asset_file_def:
        name = asset.filename
        named.add(os.path.normpath(name))
        where = f"{ASSET_FOLDER}/{name}"
        if os.path.isabs(name) or ".." in name.split("/"):
            happens = "The name of the file points outside the model. The file is missing on a server: loading fails."
            yield error("absolute-path", where, happens, "export the model again.")
        elif not os.path.isfile(os.path.join(folder, name)):
            happens = "The graph reads this file, but it is missing: loading fails with No such file or directory."
            yield error("missing-asset", where, happens, "copy the whole folder again, or export it anew.")
    for parent, _, names in sorted(os.walk(folder)):
        for name in sorted(names):
            path = os.path.relpath(os.path.join(parent, name), folder)
            if path not in named:
                yield warning(
                    "stale-asset",
                    f"{ASSET_FOLDER}/{path}",
                    "Nothing in the model names this file. It may remain from an export into the same folder, and "
                    "misleads people.",
                    "remove it; export into a new folder; put files for clients into assets.extra.",
                )


def check_fingerprint(model: SavedModelFiles) -> Iterator[Finding]:
    """Yields a finding if the fingerprint belongs to other files."""
    from tensorflow.core.protobuf import fingerprint_pb2

    path = os.path.join(model.folder, FINGERPRINT_FILE)
    if not os.path.isfile(path):
        happens = "It is missing. Servers load the model, but nothing identifies it."
        yield note("no-fingerprint", FINGERPRINT_FILE, happens, "save it with TensorFlow 2.12 or later.")
        return
    try:
        with open(path, "rb") as file:
            written = fingerprint_pb2.FingerprintDef.FromString(file.read())
        create = private("tensorflow.python.saved_model.pywrap_saved_model.fingerprinting.CreateFingerprintDef")
        actual = fingerprint_pb2.FingerprintDef.FromString(create(model.folder))
    except Exception as failure:  # TensorFlow's C++ code raises any exception for damaged files
        happens = f"It cannot be compared with the model: {str(failure).splitlines()[0]}."
        yield warning("stale-fingerprint", FINGERPRINT_FILE, happens, "export the model again.")
        return
    if written.version.producer != actual.version.producer:
        happens = "It was written by another release of TensorFlow, whose hashes cannot be compared with ours."
        yield note("other-fingerprint", FINGERPRINT_FILE, happens, "nothing, if the model was not changed.")
        return
    changed = [name for field, name in _HASHES.items() if getattr(written, field) != getattr(actual, field)]
    if not changed and written.saved_model_checksum != actual.saved_model_checksum:
        changed = ["saved_model.pb"]
    if changed:
        yield warning(
            "stale-fingerprint",
            FINGERPRINT_FILE,
            f"It belongs to another model: {', '.join(changed)} changed after it was written. Servers load the model, "
            "but tools that tell models apart by it are misled.",
            "export the model again; tools that edit saved_model.pb leave the old fingerprint.",
        )
