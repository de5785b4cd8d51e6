"""The messages of TF Serving's API as tables: field name -> (number, type).

Names, numbers and types are those of tensorflow-serving-api 2.21.0, and for `BatchingParameters`,
which is not in that wheel, those of TF Serving's .proto files at commit 9d981c5.

Types are written as in .proto files. A third element names the field's `oneof`. What only TF Serving itself uses
(reloading, streams, session runs, composite tensors, resources) is left out: protobuf preserves unknown fields.
"""

# TensorFlow's own messages; `tf.train.Example` is the message tensorflow.Example.
TENSORFLOW = {
    "TensorShapeProto.Dim": {"size": (1, "int64"), "name": (2, "string")},
    "TensorShapeProto": {"dim": (2, "repeated TensorShapeProto.Dim"), "unknown_rank": (3, "bool")},
    "TensorProto": {
        "dtype": (1, "DataType"),
        "tensor_shape": (2, "TensorShapeProto"),
        "version_number": (3, "int32"),
        "tensor_content": (4, "bytes"),
        "half_val": (13, "repeated int32"),
        "float_val": (5, "repeated float"),
        "double_val": (6, "repeated double"),
        "int_val": (7, "repeated int32"),
        "string_val": (8, "repeated bytes"),
        "scomplex_val": (9, "repeated float"),
        "int64_val": (10, "repeated int64"),
        "bool_val": (11, "repeated bool"),
        "dcomplex_val": (12, "repeated double"),
        "uint32_val": (16, "repeated uint32"),
        "uint64_val": (17, "repeated uint64"),
        "float8_val": (18, "bytes"),
    },
    "TensorInfo.CooSparse": {
        "values_tensor_name": (1, "string"),
        "indices_tensor_name": (2, "string"),
        "dense_shape_tensor_name": (3, "string"),
    },
    "TensorInfo": {
        "name": (1, "string", "encoding"),
        "coo_sparse": (4, "TensorInfo.CooSparse", "encoding"),
        "dtype": (2, "DataType"),
        "tensor_shape": (3, "TensorShapeProto"),
    },
    "SignatureDef": {
        "inputs": (1, "map<string, TensorInfo>"),
        "outputs": (2, "map<string, TensorInfo>"),
        "method_name": (3, "string"),
        "defaults": (4, "map<string, TensorProto>"),
    },
    "BytesList": {"value": (1, "repeated bytes")},
    "FloatList": {"value": (1, "repeated float")},
    "Int64List": {"value": (1, "repeated int64")},
    "Feature": {
        "bytes_list": (1, "BytesList", "kind"),
        "float_list": (2, "FloatList", "kind"),
        "int64_list": (3, "Int64List", "kind"),
    },
    "Features": {"feature": (1, "map<string, Feature>")},
    "Example": {"features": (1, "Features")},
}

_ANSWERING = {
    "ModelSpec": {
        "name": (1, "string"),
        "version": (2, "google.protobuf.Int64Value", "version_choice"),
        "version_label": (4, "string", "version_choice"),
        "signature_name": (3, "string"),
    },
    "ExampleList": {"examples": (1, "repeated tensorflow.Example")},
    "ExampleListWithContext": {
        "examples": (1, "repeated tensorflow.Example"),
        "context": (2, "tensorflow.Example"),
    },
    "Input": {
        "example_list": (1, "ExampleList", "kind"),
        "example_list_with_context": (2, "ExampleListWithContext", "kind"),
    },
    "PredictRequest": {
        "model_spec": (1, "ModelSpec"),
        "inputs": (2, "map<string, tensorflow.TensorProto>"),
        "output_filter": (3, "repeated string"),
    },
    "PredictResponse": {
        "model_spec": (2, "ModelSpec"),
        "outputs": (1, "map<string, tensorflow.TensorProto>"),
    },
    "Class": {"label": (1, "string"), "score": (2, "float")},
    "Classifications": {"classes": (1, "repeated Class")},
    "ClassificationResult": {"classifications": (1, "repeated Classifications")},
    "ClassificationRequest": {"model_spec": (1, "ModelSpec"), "input": (2, "Input")},
    "ClassificationResponse": {"model_spec": (2, "ModelSpec"), "result": (1, "ClassificationResult")},
    "Regression": {"value": (1, "float")},
    "RegressionResult": {"regressions": (1, "repeated Regression")},
    "RegressionRequest": {"model_spec": (1, "ModelSpec"), "input": (2, "Input")},
    "RegressionResponse": {"model_spec": (2, "ModelSpec"), "result": (1, "RegressionResult")},
    "InferenceTask": {"model_spec": (1, "ModelSpec"), "method_name": (2, "string")},
    "MultiInferenceRequest": {"tasks": (1, "repeated InferenceTask"), "input": (2, "Input")},
}

_MANAGING = {
    "SignatureDefMap": {"signature_def": (1, "map<string, tensorflow.SignatureDef>")},
    "GetModelMetadataRequest": {"model_spec": (1, "ModelSpec"), "metadata_field": (2, "repeated string")},
    "GetModelMetadataResponse": {
        "model_spec": (1, "ModelSpec"),
        "metadata": (2, "map<string, google.protobuf.Any>"),
    },
    "StatusProto": {"error_code": (1, "tensorflow.error.Code"), "error_message": (2, "string")},
    "ModelVersionStatus": {
        "version": (1, "int64"),
        "state": (2, "ModelVersionStatus.State"),
        "status": (3, "StatusProto"),
    },
    "GetModelStatusRequest": {"model_spec": (1, "ModelSpec")},
    "GetModelStatusResponse": {"model_version_status": (1, "repeated ModelVersionStatus")},
}

_POLICY = "FileSystemStoragePathSourceConfig.ServableVersionPolicy"
_CONFIGURING = {
    "FileSystemStoragePathSourceConfig": {},
    f"{_POLICY}.Latest": {"num_versions": (1, "uint32")},
    f"{_POLICY}.All": {},
    f"{_POLICY}.Specific": {"versions": (1, "repeated int64")},
    _POLICY: {
        "latest": (100, f"{_POLICY}.Latest", "policy_choice"),
        "all": (101, f"{_POLICY}.All", "policy_choice"),
        "specific": (102, f"{_POLICY}.Specific", "policy_choice"),
    },
    "LogCollectorConfig": {"type": (1, "string"), "filename_prefix": (2, "string")},
    "SamplingConfig": {"sampling_rate": (1, "double"), "attributes": (2, "int32")},
    "LoggingConfig": {
        "log_collector_config": (1, "LogCollectorConfig"),
        "sampling_config": (2, "SamplingConfig"),
        "custom_logging_config": (3, "google.protobuf.Any"),
    },
    "ModelConfig": {
        "name": (1, "string"),
        "base_path": (2, "string"),
        "model_type": (3, "ModelType"),
        "model_platform": (4, "string"),
        "model_version_policy": (7, _POLICY),
        "version_labels": (8, "map<string, int64>"),
        "logging_config": (6, "LoggingConfig"),
    },
    "ModelConfigList": {"config": (1, "repeated ModelConfig")},
    "ModelServerConfig": {
        "model_config_list": (1, "ModelConfigList", "config"),
        "custom_model_config": (2, "google.protobuf.Any", "config"),
    },
    "BatchingParameters": {
        "max_batch_size": (1, "google.protobuf.Int64Value"),
        "batch_timeout_micros": (2, "google.protobuf.Int64Value"),
        "max_enqueued_batches": (3, "google.protobuf.Int64Value"),
        "num_batch_threads": (4, "google.protobuf.Int64Value"),
        "thread_pool_name": (5, "google.protobuf.StringValue"),
        "enable_large_batch_splitting": (8, "google.protobuf.BoolValue"),
        "max_execution_batch_size": (9, "google.protobuf.Int64Value"),
        "allowed_batch_sizes": (6, "repeated int64"),
        "pad_variable_length_inputs": (7, "bool"),
    },
}

# The records of warm-up files.
_LOGS = {
    "ClassifyLog": {"request": (1, "ClassificationRequest")},
    "RegressLog": {"request": (1, "RegressionRequest")},
    "PredictLog": {"request": (1, "PredictRequest")},
    "MultiInferenceLog": {"request": (1, "MultiInferenceRequest")},
    "PredictionLog": {
        "classify_log": (2, "ClassifyLog", "log_type"),
        "regress_log": (3, "RegressLog", "log_type"),
        "predict_log": (6, "PredictLog", "log_type"),
        "multi_inference_log": (4, "MultiInferenceLog", "log_type"),
    },
}

TENSORFLOW_SERVING = {**_ANSWERING, **_MANAGING, **_CONFIGURING, **_LOGS}

# Full name -> values. Quantised types ("Q") and references are left out: requests cannot contain them.
ENUMS = {
    "tensorflow.DataType": {
        "DT_INVALID": 0,
        "DT_FLOAT": 1,
        "DT_DOUBLE": 2,
        "DT_INT32": 3,
        "DT_UINT8": 4,
        "DT_INT16": 5,
        "DT_INT8": 6,
        "DT_STRING": 7,
        "DT_COMPLEX64": 8,
        "DT_INT64": 9,
        "DT_BOOL": 10,
        "DT_BFLOAT16": 14,
        "DT_UINT16": 17,
        "DT_COMPLEX128": 18,
        "DT_HALF": 19,
        "DT_RESOURCE": 20,
        "DT_VARIANT": 21,
        "DT_UINT32": 22,
        "DT_UINT64": 23,
    },
    "tensorflow.error.Code": {
        "OK": 0,
        "CANCELLED": 1,
        "UNKNOWN": 2,
        "INVALID_ARGUMENT": 3,
        "DEADLINE_EXCEEDED": 4,
        "NOT_FOUND": 5,
        "ALREADY_EXISTS": 6,
        "PERMISSION_DENIED": 7,
        "UNAUTHENTICATED": 16,
        "RESOURCE_EXHAUSTED": 8,
        "FAILED_PRECONDITION": 9,
        "ABORTED": 10,
        "OUT_OF_RANGE": 11,
        "UNIMPLEMENTED": 12,
        "INTERNAL": 13,
        "UNAVAILABLE": 14,
        "DATA_LOSS": 15,
    },
    "tensorflow.serving.ModelVersionStatus.State": {
        "UNKNOWN": 0,
        "START": 10,
        "LOADING": 20,
        "AVAILABLE": 30,
        "UNLOADING": 40,
        "END": 50,
    },
    "tensorflow.serving.ModelType": {"MODEL_TYPE_UNSPECIFIED": 0, "TENSORFLOW": 1, "OTHER": 2},
}
