"""The entry of `MultiVectorEncoder`, see `registry.py`."""

from keras_bert.registry import Export, Setting, Task
from keras_bert.tasks.settings import PROMPTS, is_count, is_count_or_none, is_none_or

_LENGTH = Setting(None, is_count_or_none)

# The checkpoint's weights of the projection are named as the dense layers of a SentenceEncoder.
MULTI_VECTOR_ENCODER = Task(
    model="keras_bert.tasks.multi_vector.model.MultiVectorEncoder",
    text_task="keras_bert.tasks.multi_vector.task.MultiVectorTask",
    start="keras_bert.tasks.multi_vector.checkpoint.start",
    read="keras_bert.tasks.multi_vector.checkpoint.read",
    write="keras_bert.tasks.multi_vector.checkpoint.write",
    told_by="dense",
    export=Export(
        signatures="keras_bert.tasks.multi_vector.signatures.multi_vector_signatures",
        outputs=lambda model: {"": ("batch", "length", model.vector_size)},
        settings={
            "vector_size": Setting(None, is_count),
            "query_expansion": Setting(None, is_none_or(lambda value: isinstance(value, dict))),
            "query_length": _LENGTH,
            "document_length": _LENGTH,
            "skiplist_words": Setting([], lambda value: isinstance(value, list)),
            "skiplist_tasks": Setting(["document"], lambda value: isinstance(value, list)),
            "similarity_fn_name": Setting("maxsim", lambda value: isinstance(value, str)),
            **PROMPTS,
        },
        derived=lambda model: {"vector_size": model.vector_size},
        answers="keras_bert.tasks.multi_vector.encoding.vectors_of_texts",
        methods="keras_bert.tasks.multi_vector.encoding.LoadedMultiVectorEncoder",
    ),
    hub_task="sentence-similarity",
    example='model.rank("a query", ["a text", "another text"])',
)
