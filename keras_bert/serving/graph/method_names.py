"""The names of TensorFlow Serving's methods in a SavedModel."""

import os

from keras_bert.program.atomic_output import atomic_file
from keras_bert.program.private_interfaces import private

_METHOD_NAMES = {"classify": "tensorflow/serving/classify", "regress": "tensorflow/serving/regress"}


def name_methods(version_folder: str | os.PathLike) -> None:
    """Names the methods of the signatures `classify` and `regress`, and rewrites the fingerprint.

    `tf.saved_model.save` writes the name of predict for every signature. Servers can check the names
    (`--enable_signature_method_name_check`).
    """
    from tensorflow.core.protobuf import saved_model_pb2

    path = os.path.join(version_folder, "saved_model.pb")
    with open(path, "rb") as file:
        saved_model = saved_model_pb2.SavedModel.FromString(file.read())
    signatures = saved_model.meta_graphs[0].signature_def
    for signature in _METHOD_NAMES.keys() & signatures.keys():
        signatures[signature].method_name = _METHOD_NAMES[signature]
    with atomic_file(path) as file:
        file.write(saved_model.SerializeToString(deterministic=True))
    # The fingerprint of TensorFlow has hashes of the file. There is no public function to write it.
    private("tensorflow.python.saved_model.fingerprinting_utils.write_fingerprint")(os.fspath(version_folder))
