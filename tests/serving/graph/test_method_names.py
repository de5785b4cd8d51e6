"""SavedModels name the methods of TensorFlow Serving that their signatures are for."""

import tensorflow as tf

from keras_bert.serving.export import name_methods


def test_classify_and_regress_are_named_as_servers_name_them_and_the_fingerprint_is_that_of_the_file(tmp_path):
    from tensorflow.core.protobuf import saved_model_pb2

    double = tf.function(lambda x: {"y": x * 2.0}, input_signature=[tf.TensorSpec([None], name="x")], autograph=False)
    names = ("classify", "regress", "serving_default")
    tf.saved_model.save(tf.Module(), tmp_path, signatures=dict.fromkeys(names, double))
    before = tf.saved_model.experimental.read_fingerprint(str(tmp_path)).saved_model_checksum
    name_methods(tmp_path)
    assert tf.saved_model.experimental.read_fingerprint(str(tmp_path)).saved_model_checksum != before
    saved_model = saved_model_pb2.SavedModel.FromString((tmp_path / "saved_model.pb").read_bytes())
    methods = [saved_model.meta_graphs[0].signature_def[name].method_name for name in names]
    assert methods == [f"tensorflow/serving/{method}" for method in ("classify", "regress", "predict")]
    answer = tf.saved_model.load(tmp_path).signatures["regress"](x=tf.constant([1.5]))
    assert answer["y"].numpy().tolist() == [3.0]
