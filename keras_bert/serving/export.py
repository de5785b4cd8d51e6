"""A model becomes a SavedModel: text in, answer out, with nothing of Python, Keras or this package inside."""

import os
import tempfile

import tensorflow as tf

from keras_bert.atomic_output import atomic_folder
from keras_bert.checkpoints.pretrained import checkpoint_of, model_of
from keras_bert.errors import InputError
from keras_bert.models.masked_lm import BertMaskedLM
from keras_bert.models.pretrainer import BertPretrainer
from keras_bert.models.sequence_classifier import BertSequenceClassifier
from keras_bert.serving.canonical_graph import make_canonical
from keras_bert.serving.signatures.classification import classifier_signatures
from keras_bert.serving.signatures.masked_lm import fill_mask_signatures
from keras_bert.serving.signatures.rows import SignatureOptions
from keras_bert.serving.versions import next_version_folder
from keras_bert.tokenization.graph_wordpiece import GraphTokenizer
from keras_bert.trainable_parts import lora_layers

DEFAULT_TOP_K = 5

# What each kind of model can be asked.
_SIGNATURES = {
    BertSequenceClassifier: classifier_signatures,
    BertMaskedLM: fill_mask_signatures,
    BertPretrainer: fill_mask_signatures,
}


def export_for_serving(
    model,
    path: str | os.PathLike,
    *,
    text_pairs: bool = False,
    top_k: int = DEFAULT_TOP_K,
    max_seq_length: int | None = None,
) -> str:
    """Writes the next version of a SavedModel that TensorFlow Serving takes, and returns its folder.

    What it answers is described in `keras_bert.serving.signatures`. The tokenizer is in the graph; `vocab.txt` and
    `bert_config.json` lie in its `assets` for people and clients. The same model gives the same bytes, except for
    `fingerprint.pb`, which holds a random number.

    Args:
        model: a `BertSequenceClassifier`, a `BertMaskedLM` or a `BertPretrainer`, whose `vocabulary` is set.
        path: the folder of versions `1`, `2`, ...; it may be a model folder. The new version has the next number, and
            appears whole or not at all.
        text_pairs: whether a classifier takes two texts.
        top_k: how many tokens a pre-trained model proposes for each [MASK].
        max_seq_length: longer texts are cut to so many tokens; the default is all of the model's positions. Give the
            length that a model was trained with if it has seen no longer ones.

    Raises:
        InputError: the model has no vocabulary or is none that can be exported, an argument is out of range, `path` is
            a file or cannot be written to, or no space is left.
    """
    max_seq_length = model.config.max_position_embeddings if max_seq_length is None else max_seq_length
    _check(model, max_seq_length, text_pairs, top_k)
    if lora_layers(model):
        model = model_of(type(model), checkpoint_of(model))  # with the matrices of LoRA in its kernels
    version = next_version_folder(path)
    tokenizer = GraphTokenizer(model.vocabulary, do_lower_case=model.config.do_lower_case)
    make_signatures = next(make for kind, make in _SIGNATURES.items() if isinstance(model, kind))
    signatures = make_signatures(model, tokenizer, SignatureOptions(max_seq_length, text_pairs, top_k))
    with atomic_folder(version) as folder, tempfile.TemporaryDirectory() as assets:
        tf.saved_model.save(_servable(model, tokenizer, assets), folder, signatures=signatures)
        make_canonical(folder)
    return version


def _servable(model, tokenizer, asset_folder: str) -> tf.Module:
    """Returns what the SavedModel consists of beside its functions: weights, tokenizer and files."""
    # `model.export` and ExportArchive write every variable twice and drop the files (keras#23553).
    servable = tf.Module()
    servable.weights = [weight.value for weight in model.weights]
    servable.tokenizer = tokenizer
    vocabulary_file = os.path.join(asset_folder, "vocab.txt")
    model.vocabulary.save(vocabulary_file)
    servable.vocabulary_file = tf.saved_model.Asset(vocabulary_file)
    config_file = os.path.join(asset_folder, "bert_config.json")
    model.config.save(config_file)
    servable.config_file = tf.saved_model.Asset(config_file)
    return servable


def _check(model, max_seq_length: int, text_pairs: bool, top_k: int) -> None:
    if not isinstance(model, (BertSequenceClassifier, BertMaskedLM, BertPretrainer)):
        raise InputError(
            "Only a BertSequenceClassifier, a BertMaskedLM or a BertPretrainer can be exported. Received: "
            f"{type(model).__name__}"
        )
    if getattr(model, "problem_type", "classification") != "classification":
        raise InputError(
            f"Only classifiers of one label can be exported so far. Received: a model of the problem type "
            f"{model.problem_type}"
        )
    if model.vocabulary is None:
        raise InputError(
            "The model has no vocabulary, so an export of it could not take text. Set model.vocabulary = "
            "Vocabulary.from_file(path), or put vocab.txt into the model folder."
        )
    model.config.check_vocabulary(len(model.vocabulary))
    model.config.check_sequence_length(max_seq_length)
    # [CLS], a token and [SEP], and for pairs a second token and a second [SEP].
    shortest = 5 if text_pairs else 3
    if max_seq_length < shortest:
        raise InputError(f"max_seq_length must be at least {shortest}. Received: {max_seq_length}")
    if text_pairs and not isinstance(model, BertSequenceClassifier):
        raise InputError(f"text_pairs is for classifiers. Received: a {type(model).__name__}")
    if text_pairs and model.config.type_vocab_size < 2:
        raise InputError("The model knows one segment only (type_vocab_size=1), so it cannot take pairs of texts.")
    if not 1 <= top_k <= model.config.vocab_size:
        raise InputError(f"top_k must be between 1 and the vocabulary's {model.config.vocab_size}. Received: {top_k}")
