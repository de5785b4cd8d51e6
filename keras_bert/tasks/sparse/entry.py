"""The entry of `SparseEncoder`, see `registry.py`."""

from keras_bert.checkpoints import checkpoint as form
from keras_bert.checkpoints.weight_list import Weight
from keras_bert.registry import Export, Head, Setting, Task
from keras_bert.tasks.masked_lm.entry import MASKED_LM_HEAD
from keras_bert.tasks.settings import PROMPTS, is_count_or_none, prompt_of

QUERY_WEIGHTS = Head(
    form.QUERY_WEIGHTS,
    weights=lambda config: [Weight(f"{form.QUERY_WEIGHTS}/weight", (config.vocab_size,))],
    is_optional=True,
)
SPARSE_ENCODER = Task(
    model="keras_bert.tasks.sparse.model.SparseEncoder",
    heads=(MASKED_LM_HEAD, QUERY_WEIGHTS),
    text_task="keras_bert.tasks.sparse.task.SparseTask",
    start="keras_bert.tasks.sparse.checkpoint.start",
    read="keras_bert.tasks.sparse.checkpoint.read",
    write="keras_bert.tasks.sparse.checkpoint.write",
    told_by="pooling_strategy",
    export=Export(
        signatures="keras_bert.tasks.sparse.signatures.sparse_signatures",
        outputs=lambda model: {"": ("batch", model.config.vocab_size)},
        settings={
            "static_queries": Setting(False, lambda value: isinstance(value, bool)),
            "max_query_length": Setting(None, is_count_or_none),
            "max_active_dims": Setting(None, is_count_or_none),
            "default_route": Setting("document", lambda value: value in ("document", "query")),
            **PROMPTS,
        },
        in_graph=lambda model, options: prompt_of(options),
        options=("top_k", "prompt"),
        answers="keras_bert.tasks.sparse.answers.token_weights",
        methods="keras_bert.tasks.sparse.encoding.LoadedSparseEncoder",
    ),
    hub_task="feature-extraction",
    example='model.decode(model.encode(["a text"]), top_k=10)',
)
