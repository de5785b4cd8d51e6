"""Makes checkpoints with KerasHub or TF Model Garden, and runs them. It needs no keras_bert.

    python keras_checkpoints.py keras_hub|model_garden|open_folders FOLDER

FOLDER has `features.npz`. For each model, a checkpoint `<name>/` and its outputs `<name>.npz` are written there. All
weights are random numbers, including LayerNorms and biases. `open_folders` lets KerasHub open the folders that are
there, and writes the outputs of their encoders, and the token ids of the lines of `texts.txt`.
"""

import os
import sys

import numpy as np


def randomise(variables):
    generator = np.random.default_rng(3)
    for variable in variables:
        noise = generator.normal(0, 0.1, variable.shape).astype("float32")
        # Scales of LayerNorms are near one.
        variable.assign(1 + noise if "gamma" in getattr(variable, "path", variable.name) else noise)


def keras_hub(folder, features):
    import keras_hub

    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "quick", "brown", "fox", "##est"]
    inputs = {"token_ids": "input_ids", "padding_mask": "input_mask", "segment_ids": "segment_ids"}
    inputs = {theirs: features[ours] for theirs, ours in inputs.items()}

    def backbone():
        return keras_hub.models.BertBackbone(
            vocabulary_size=10, num_layers=2, num_heads=2, hidden_dim=8, intermediate_dim=16, max_sequence_length=12
        )

    tokenizer = keras_hub.models.BertTokenizer(vocabulary=vocabulary, lowercase=True, strip_accents=True)
    encoder = backbone()
    randomise(encoder.weights)
    encoder.save_to_preset(f"{folder}/encoder")
    np.savez(f"{folder}/encoder.npz", **{name: np.asarray(value) for name, value in encoder(inputs).items()})

    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, sequence_length=9)
    classifier = keras_hub.models.BertTextClassifier(backbone=backbone(), num_classes=3, preprocessor=preprocessor)
    randomise(classifier.weights)
    classifier.save_to_preset(f"{folder}/classifier")
    np.savez(f"{folder}/classifier.npz", logits=np.asarray(classifier(inputs)))

    preprocessor = keras_hub.models.BertMaskedLMPreprocessor(tokenizer, sequence_length=9)
    masked_lm = keras_hub.models.BertMaskedLM(backbone=backbone(), preprocessor=preprocessor)
    randomise(masked_lm.weights)
    masked_lm.save_to_preset(f"{folder}/masked_lm")


def open_folders(folder, features):
    import json
    import pathlib

    import keras_hub

    names = {"token_ids": "input_ids", "padding_mask": "input_mask", "segment_ids": "segment_ids"}
    texts = pathlib.Path(folder, "texts.txt").read_text().splitlines()
    for config in sorted(pathlib.Path(folder).glob("*/config.json")):
        preset = str(config.parent)
        backbone = keras_hub.models.Backbone.from_preset(preset)
        taken = {tensor.name for tensor in backbone.inputs}
        outputs = backbone({theirs: features[ours] for theirs, ours in names.items() if theirs in taken})
        outputs = outputs if isinstance(outputs, dict) else {"sequence_output": outputs}
        np.savez(f"{preset}.npz", **{name: np.asarray(value) for name, value in outputs.items()})
        tokenizer = keras_hub.models.Tokenizer.from_preset(preset)
        config.with_name("ids.json").write_text(json.dumps([np.asarray(tokenizer(text)).tolist() for text in texts]))


def model_garden(folder, features):
    import tensorflow as tf
    import tf_keras
    from official.nlp.modeling import layers, models, networks

    inputs = {"input_word_ids": "input_ids", "input_mask": "input_mask", "input_type_ids": "segment_ids"}
    inputs = {theirs: tf.constant(features[ours]) for theirs, ours in inputs.items()}
    sizes = {"vocab_size": 10, "hidden_size": 8, "num_layers": 2, "num_attention_heads": 2, "type_vocab_size": 2}

    def first(**more):
        return networks.BertEncoder(**sizes, intermediate_size=16, max_sequence_length=12, **more)

    def second():
        return networks.BertEncoderV2(**sizes, inner_dim=16, max_sequence_length=12)

    def keep(name, outputs, **items):
        tf.train.Checkpoint(**items).save(f"{folder}/{name}/bert_model.ckpt")
        np.savez(f"{folder}/{name}.npz", **{key: np.asarray(value) for key, value in outputs.items()})

    for name, encoder, item in (("encoder", first(dict_outputs=True), "model"), ("encoder_v2", second(), "encoder")):
        encoder(inputs)
        randomise(encoder.weights)
        outputs = encoder(inputs)
        keep(name, {key: outputs[key] for key in ("sequence_output", "pooled_output")}, **{item: encoder})

    classifier = models.BertClassifier(network=first(), num_classes=3)
    randomise(classifier.weights)
    keep("classifier", {"logits": classifier(inputs, training=False)}, model=classifier)

    head = layers.ClassificationHead(inner_dim=8, num_classes=2, name="next_sentence")
    approximate_gelu = lambda x: tf_keras.activations.gelu(x, approximate=True)  # noqa: E731
    pretrainer = models.BertPretrainerV2(second(), mlm_activation=approximate_gelu, classification_heads=[head])
    masked = {**inputs, "masked_lm_positions": tf.constant([[1, 3]] * 3)}
    pretrainer(masked)
    randomise(pretrainer.weights)
    outputs = pretrainer(masked)
    outputs = {"masked_lm_logits": outputs["mlm_logits"], "next_sentence_logits": outputs["next_sentence"]}
    keep("pretrainer", outputs, model=pretrainer, **pretrainer.checkpoint_items)

    keep("tagger", {}, model=models.BertTokenClassifier(network=first(), num_classes=3))
    keep("span", {}, model=models.BertSpanLabeler(network=first()))


if __name__ == "__main__":
    library, folder = sys.argv[1:]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    functions = {"keras_hub": keras_hub, "model_garden": model_garden, "open_folders": open_folders}
    functions[library](folder, dict(np.load(f"{folder}/features.npz")))
