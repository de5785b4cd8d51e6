"""Weights on disk: reads and writes every format through one common form.

pretrained.py               loads models from checkpoints and saves them
checkpoint.py               the common form: our weight names, tensors read on demand
weight_list.py              the shape of each weight, and its name and layout in every format
family_formats.py           what a family's entry says about the files of other projects
tensor_checks.py            checks that a checkpoint has the weights that its config requires
model_card.py               writes README.md: what a model is and how to use it
name_table.py               maps weight names and layouts of a format to ours
formats.py                  detects the format of a checkpoint
model_classes.py            selects the model class for a checkpoint
model_fingerprint.py        tells whether two models give the same vectors or answers
model_weights.py            reads and assigns the weights of a model by name
model_folder.py             our format: bert_config.json, vocab.txt, model.weights.h5
google.py                   google-research/bert, TensorFlow 1
model_garden.py             TF Model Garden, TensorFlow 2
hugging_face.py             transformers: reads and writes folders
hugging_face_config.py      transformers: settings and labels in config.json
hugging_face_tokenizer.py   transformers: vocabulary, casing, accents
peft_adapter.py             adapters of PEFT: reads them, merged into their base models
adapter_writer.py           writes the LoRA of a model as an adapter of PEFT
sentence_transformers.py    modules and settings of sentence-transformers, for the readers and writers in tasks/
static_embedding.py         a vector per token, as sentence-transformers stores it
keras_hub.py                KerasHub presets: names, settings, reading
keras_hub_task.py           KerasHub presets: what task.json says
hub.py                      hf://owner/name: models of the Hugging Face hub
tensorflow_checkpoint.py    bert_model.ckpt files
keras_weights_file.py       .weights.h5 files
safetensors_file.py         .safetensors files
same_family.py              checks that another library computes the same
what_instead.py             says what to use instead of models that cannot be read
tensorflow_classes.py       tf_model.h5 and safetensors of transformers' TensorFlow classes, with PyTorch's names
torch_file.py               pytorch_model.bin, without torch
tensor_pickle.py            reads the pickle in it without executing it
conversion.py               converts any format to any other
resizing.py                 changes the number of positions, tokens or layers
casing.py                   tells whether a vocabulary is cased
verification.py             compares the outputs of a converted checkpoint with the original's
transformers_outputs.py     runs a folder by transformers, in a process of its own
"""
