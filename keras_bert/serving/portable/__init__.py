"""Exports that other runtimes run: a folder with the network, the tokenizer's files and all that answers need.

folder.py                writes and reads such folders
portable_models.py       what a format stores: the model in float32, with its settings for texts
tokenizer_vectors.py     texts with their ids, for those who port the tokenizer to another language
litert_model.py          model.tflite, by TensorFlow's converter
litert_engine.py         runs it without TensorFlow
onnx_model.py            model.onnx, made from the layers, and packed.onnx for rows of several sequences
hugging_face_folder.py   a Hugging Face folder with an ONNX file, for programs that are not ours
row_layouts.py           arranges rows as a runtime computes them fastest: packed, or in groups of similar length
onnx_engine.py           runs model.onnx with ONNX Runtime
openvino_engine.py       runs model.onnx with OpenVINO
saved_model_engine.py    runs SavedModels with TensorFlow, for the same loader
runtimes.py              which runtimes can run a folder here, and which one is taken
loading.py               keras_bert.serving.load: predict(texts) of every export
loaded_models.py         the models that it returns: the tasks' code on an engine; their signature serving_default
checked_engine.py        checks the features before an engine gets them
"""
