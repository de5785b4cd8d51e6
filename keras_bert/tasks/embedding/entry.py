"""The entries of `SentenceEncoder` and of encoders without a task, see `registry.py`, and how they start."""

import dataclasses
import inspect
from collections.abc import Mapping

from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.config import POOLINGS
from keras_bert.program.errors import InputError
from keras_bert.registry import Export, Setting, Task
from keras_bert.tasks.settings import DOC_STRIDE, PROMPTS, are_names, is_count, is_hash, is_none_or, prompt_of

SENTENCE_ENCODER = Task(
    model="keras_bert.tasks.embedding.model.SentenceEncoder",
    text_task="keras_bert.tasks.embedding.task.EmbeddingTask",
    start="keras_bert.tasks.embedding.entry.start",
    told_as="sentence",
    export=Export(
        signatures="keras_bert.tasks.embedding.signatures.sentence_signatures",
        outputs=lambda model: {"": ("batch", model.embedding_size)},
        settings={
            "pooling": Setting(["mean"], lambda value: are_names(value, 1)),
            "normalize": Setting(True, lambda value: isinstance(value, bool)),
            "embedding_size": Setting(None, is_count),
            "doc_stride": DOC_STRIDE,
            "fingerprint": Setting(None, is_none_or(is_hash)),
            **PROMPTS,
        },
        derived=lambda model: {"embedding_size": model.embedding_size},
        in_graph=lambda model, options: _normalize(options) | prompt_of(options),
        options=("normalize", "prompt"),
        answers="keras_bert.tasks.embedding.encoding.vectors_of_texts",
        methods="keras_bert.tasks.embedding.encoding.LoadedSentenceEncoder",
    ),
    onnx="keras_bert.tasks.embedding.signatures.sentence_encoder",
    hub_task="sentence-similarity",
    example='model.predict(["a text"])',
)
ENCODER = Task(
    export=dataclasses.replace(
        SENTENCE_ENCODER.export,
        signatures="keras_bert.tasks.embedding.signatures.embedding_signatures",
        stored_as="SentenceEncoder",
        derived=lambda model: {},
        in_graph=lambda model, options: {
            **_normalize(options),
            "pooling": [options.pooling or "mean"],
            "embedding_size": model.config.hidden_size,
        },
        options=("normalize", "pooling", "text_pairs"),
        needed_parts=(),
    ),
    onnx="keras_bert.tasks.embedding.signatures.encoder",
    hub_task="feature-extraction",
    example='keras_bert.sentence_embeddings(model, ["a text"])',
)


def _normalize(options) -> dict:
    return {} if options.normalize is None else {"normalize": options.normalize}


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the constructor arguments of a `SentenceEncoder` or `SentenceClassifier`, and the checkpoint."""
    return {**_stated(model_class, checkpoint, "pooling" in arguments), **arguments}, checkpoint


def _stated(model_class: type, checkpoint: BertCheckpoint, has_pooling: bool) -> dict:
    """Returns the arguments that say how a checkpoint turns a text into a vector."""
    if checkpoint.sentence is not None:
        known = inspect.signature(model_class.__init__).parameters
        return {name: value for name, value in checkpoint.sentence.items() if name in known}
    pooling = checkpoint.config.sentence_pooling
    if pooling not in POOLINGS and not has_pooling:
        raise InputError(
            f"{checkpoint.path} turns texts into vectors by {str(pooling)[:100]!r}. "
            f"{model_class.__name__} computes a Transformer, a Pooling, Dense layers and Normalize, in this order. Use "
            "the model's own class or sentence-transformers, or give another pooling=[...] and train it."
        )
    return {"pooling": [pooling]}
