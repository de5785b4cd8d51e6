"""BERT on Keras 3: from raw text to a served answer.

Importing this package loads neither TensorFlow nor Keras. They load when a name that needs them is first used.

config/         BertConfig: bert_config.json and the published sizes
registry.py     the names of all tasks and model families, and where their entries are
tokenization/   text -> token ids, in Python and in the TensorFlow graph
records/        TFRecords and the batches that are made from them
layers/         the formulas of the paper as Keras layers
models/         what all models share: encoder contract, losses, metrics and the training step
accelerate/     faster forms of the same computations
optimization/   AdamW, LAMB and learning rate schedules
checkpoints/    reads and writes weights in every format
encoders/       one place for each model family: its numbers, its names, and what it computes differently
tasks/          one folder per task: its model, examples, answers, scores, reports and signatures
training/       training runs: resuming, evaluation, several devices
embeddings/     uses of text vectors: similarity, search, word senses, summaries
serving/        exports a model as a SavedModel
tf_serving/     client, development server and checks for TensorFlow Serving
program/        command lines, output files, error messages
"""

import importlib

from keras_bert.program import quiet_tensorflow

__version__ = "0.1.0"

# Public name -> the module that defines it.
_PUBLIC = {
    "InputError": "keras_bert.program.errors",
    "BertConfig": "keras_bert.config",
    "Vocabulary": "keras_bert.tokenization.vocabulary",
    "load_vocabulary": "keras_bert.tokenization.kinds",
    "WordPieceTokenizer": "keras_bert.tokenization.wordpiece",
    "BytePairTokenizer": "keras_bert.tokenization.byte_pair",
    "SentencePieceTokenizer": "keras_bert.tokenization.sentence_piece",
    "GraphTokenizer": "keras_bert.tokenization.graph_wordpiece",
    "Encoder": "keras_bert.models.encoder_base",
    "BertEncoder": "keras_bert.encoders.bert.encoder",
    "BertPretrainer": "keras_bert.tasks.pretraining.pretrainer",
    "ElectraPretrainer": "keras_bert.tasks.pretraining.electra_pretrainer",
    "SpanPretrainer": "keras_bert.tasks.pretraining.span_pretrainer",
    "MaskedLM": "keras_bert.tasks.masked_lm.model",
    "SequenceClassifier": "keras_bert.tasks.classification.model",
    "TextClassifier": "keras_bert.tasks.classification.text_classifier",
    "SentenceEncoder": "keras_bert.tasks.embedding.model",
    "SparseEncoder": "keras_bert.tasks.sparse.model",
    "SentenceClassifier": "keras_bert.tasks.classification.sentence_classifier",
    "CrossEncoder": "keras_bert.tasks.ranking.model",
    "MultiVectorEncoder": "keras_bert.tasks.multi_vector.model",
    "TokenClassifier": "keras_bert.tasks.tagging.model",
    "SpanClassifier": "keras_bert.tasks.question_answering.model",
    "ReplacedTokenDetector": "keras_bert.tasks.pretraining.replaced_token_detector",
    "TransformerXL": "keras_bert.encoders.transformer_xl.model",
    "TextToText": "keras_bert.tasks.text_to_text.model",
    "MultipleChoice": "keras_bert.tasks.multiple_choice.model",
    "fill_masks": "keras_bert.tasks.masked_lm.mask_filling",
    "pseudo_perplexity": "keras_bert.tasks.masked_lm.mask_filling",
    "generate_text": "keras_bert.tasks.masked_lm.text_generation",
    "write_explanation_page": "keras_bert.tasks.explanation.page",
    "distill": "keras_bert.tasks.distillation",
    "enable_lora": "keras_bert.models.trainable_parts",
    "freeze": "keras_bert.models.trainable_parts",
    "save_adapter": "keras_bert.checkpoints.adapter_writer",
    "answers_frame": "keras_bert.tasks.answer_table",
    "BgeM3": "keras_bert.embeddings.bge_m3",
    "sentence_embeddings": "keras_bert.embeddings.text_vectors",
    "distil_static": "keras_bert.embeddings.static_distillation",
    "mine_hard_negatives": "keras_bert.embeddings.hard_negatives",
    "VectorIndex": "keras_bert.embeddings.vector_index",
    "summarize": "keras_bert.embeddings.summarization",
    "word_vectors": "keras_bert.embeddings.word_senses",
    "pretraining_dataset": "keras_bert.records.datasets",
    "AdamW": "keras_bert.optimization",
    "LAMB": "keras_bert.optimization",
    "WarmupLinearDecay": "keras_bert.optimization",
    "WarmupPolynomialDecay": "keras_bert.optimization",
    "WarmupCosineDecay": "keras_bert.optimization",
    "WarmupTrapezoid": "keras_bert.optimization",
    "WarmupConstant": "keras_bert.optimization",
}

__all__ = ["__version__", *_PUBLIC]

quiet_tensorflow.quiet_start_up()


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'keras_bert' has no attribute {name!r}")
    return getattr(importlib.import_module(_PUBLIC[name]), name)


def __dir__():
    return sorted(__all__)
