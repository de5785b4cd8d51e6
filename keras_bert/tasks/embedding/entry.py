"""The entries of `SentenceEncoder` and of encoders without a task, see `registry.py`."""

import dataclasses

from keras_bert.registry import Export, Setting, Task
from keras_bert.tasks.settings import DOC_STRIDE, PROMPTS, are_names, is_count, is_hash, is_none_or, prompt_of

SENTENCE_ENCODER = Task(
    model="keras_bert.tasks.embedding.model.SentenceEncoder",
    text_task="keras_bert.tasks.embedding.task.EmbeddingTask",
    start="keras_bert.tasks.embedding.checkpoint.start",
    read="keras_bert.tasks.embedding.checkpoint.read",
    write="keras_bert.tasks.embedding.checkpoint.write",
    told_by="pooling",
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
    hugging_face_onnx="keras_bert.tasks.embedding.signatures.token_vectors",
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
