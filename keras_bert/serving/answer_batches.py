"""Record batches of Arrow with texts -> record batches with their vectors or answers, of a model of any task.

It needs a model and pyarrow; for exports to LiteRT and ONNX Runtime neither TensorFlow nor Keras.
"""

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from keras_bert.checkpoints.model_fingerprint import model_fingerprint
from keras_bert.embeddings.index_files import FINGERPRINT
from keras_bert.embeddings.index_rows import TEXT, VECTOR
from keras_bert.program.arrow_files import pa
from keras_bert.program.errors import InputError
from keras_bert.program.label_types import Label

_TYPES = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}
_LABEL_TYPES = {kind.__name__: arrow for kind, arrow in _TYPES.items()}


def answer_batches(
    model: Any,
    batches: Iterable[Any],
    *,
    text_columns: Sequence[str] = (TEXT,),
    columns: Sequence[str] | None = None,
    role: str | None = None,
    **options: Any,
) -> Iterator[Any]:
    """Returns each `pyarrow.RecordBatch` with the vectors or the answers of its texts in further columns.

    * of a `SentenceEncoder` `vector`, `FixedSizeList<float>[D]`;
    * of a `SparseEncoder` `indices`, `List<int32>`, token ids, and `values`, `List<float>`;
    * of a `MultiVectorEncoder` `vectors`, `List<FixedSizeList<float>[D]>`, one for each token;
    * of a `CrossEncoder` `score`, float;
    * of other models the fields of their answers, such as `label` and `probability`. Probabilities by label are a map.

    The metadata of the schema say which model that was (`model_sha256`, `model_kind`), its prompt and options.

    Args:
        model: a Keras model, or what `keras_bert.serving.load` returns.
        batches: batches with equal columns; those without rows are left out. A batch is in memory at once; a few
            thousand rows are best.
        text_columns: the columns of the texts: one, or those of the pairs or other examples that `predict` takes, such
            as the questions and the contexts.
        columns: the columns of the batches that are kept, in this order; None for all.
        role: for models that make vectors, what the texts are in a search, "query" or "document"; it selects the
            prompt, and the method `encode_query` or `encode_document`. None for the default prompt; the texts of a
            `MultiVectorEncoder` are then documents.
        **options: those of `encode` or `predict` of the model, such as `batch_size` and `max_seq_length`.

    Raises:
        InputError: a batch has no such column, or one that the answers have too; a text is missing; or as `encode` and
            `predict`.
    """
    compute, facts = _answering(model, role, options), answer_facts(model, role, **options)

    def answered(batch: Any) -> Any:
        kept = batch.schema.names if columns is None else list(columns)
        for name in (*text_columns, *kept):
            if name not in batch.schema.names:
                raise InputError(f"There is no column {name!r}. The columns are: {', '.join(batch.schema.names)}")
        texts = [batch[name].to_pylist() for name in text_columns]
        answers = _columns_of(compute(texts[0] if len(texts) == 1 else tuple(texts)), model)
        if taken := [name for name in kept if name in answers]:
            raise InputError(
                f"The answers have a column {taken[0]!r} too. Rename that of the texts, or leave it out and join both "
                "by their ids."
            )
        return pa.record_batch({**{name: batch[name] for name in kept}, **answers}).replace_schema_metadata(facts)

    return map(answered, filter(len, batches))


def answer_facts(model: Any, role: str | None = None, **options: Any) -> dict[bytes, str]:
    """Returns what the metadata of the batches say about the model; the arguments are those of `answer_batches`."""
    facts: dict[str, Any] = {"model_kind": model.kind, **options}
    if role is not None:
        facts["role"] = role
    if hasattr(model, "prompt"):
        name = options.get("prompt")
        facts["prompt"] = model.prompt(model.prompt_for(role) if role and name is None else name)
    if hasattr(model, "normalize"):
        facts["normalize"] = model.normalize if options.get("normalize") is None else options["normalize"]
    return {
        FINGERPRINT: model_fingerprint(model, of_answers=True),
        **{name.encode(): str(value) for name, value in facts.items()},
    }


def makes_vectors(model: Any) -> bool:
    """Returns whether a model, or a class of models, turns texts into vectors."""
    return hasattr(model, "prompt_for") and (hasattr(model, "encode") or hasattr(model, "encode_document"))


def _answering(model: Any, role: str | None, options: Mapping[str, Any]) -> Callable:
    """Returns the function from texts to vectors or answers."""
    is_encoder = makes_vectors(model)
    if role not in (None, "query", "document") or (role and not is_encoder):
        raise InputError(f"role is query or document, for models that make vectors. Received: {role!r:.100}")
    if not is_encoder:
        return functools.partial(model.predict, verbose=0, **options)
    if not hasattr(model, "encode_document"):
        prompt = {"prompt": model.prompt_for(role)} if role else {}
        return functools.partial(model.encode, on_progress=_no_progress, **{**prompt, **options})
    method = (
        model.encode if role is None and hasattr(model, "encode") else getattr(model, f"encode_{role or 'document'}")
    )
    return functools.partial(method, on_progress=_no_progress, **options)


def _no_progress(num_texts: int) -> None:
    pass


def _columns_of(answers: Any, model: Any) -> dict[str, Any]:
    """Returns the columns of vectors or answers, one or more."""
    if hasattr(answers, "tocsr"):
        splits = answers.indptr
        lists = {"indices": _numbers(answers.indices, pa.int32()), "values": _numbers(answers.data, pa.float32())}
        return {name: pa.ListArray.from_arrays(_numbers(splits, pa.int32()), one) for name, one in lists.items()}
    if isinstance(answers, np.ndarray):
        return {VECTOR: _vectors(answers)} if answers.ndim == 2 else {"score": _numbers(answers, pa.float32())}
    if isinstance(answers[0], np.ndarray):
        splits = _numbers(np.cumsum([0, *map(len, answers)]), pa.int32())
        return {"vectors": pa.ListArray.from_arrays(splits, _vectors(np.concatenate(answers)))}
    kind = _type_of(type(answers[0]), _LABEL_TYPES[getattr(model, "label_type", "str")])
    rows = pa.array([_plain(answer, kind) for answer in answers], kind)
    return dict(zip([field.name for field in kind], rows.flatten(), strict=True))


def _numbers(array: np.ndarray, kind: Any) -> Any:
    """Returns an array `[N]` as one of Arrow, without pandas, which `pyarrow.array` imports if it is installed."""
    array = np.ascontiguousarray(array, kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(array), [None, pa.py_buffer(array)])


def _vectors(array: np.ndarray) -> Any:
    return pa.FixedSizeListArray.from_arrays(_numbers(array.ravel(), pa.float32()), array.shape[1])


def _type_of(hint: Any, label: Any) -> Any:
    """Returns the type of Arrow for the hint of a field of answers; None for arrays, which no column has."""
    if hint == Label:
        return label
    arguments = [one for one in typing.get_args(hint) if one not in (types.NoneType, Ellipsis)]
    origin = typing.get_origin(hint)
    if origin is types.UnionType:
        return _type_of(arguments[0], label)
    if origin is dict:
        return pa.map_(pa.string(), _type_of(arguments[1], label))
    if origin in (list, tuple) and len(arguments) == 1:
        return pa.list_(_type_of(arguments[0], label))
    if origin is tuple:
        fields = {str(number): _type_of(one, label) for number, one in enumerate(arguments)}
    elif dataclasses.is_dataclass(hint):
        hints = typing.get_type_hints(hint)
        fields = {field.name: _type_of(hints[field.name], label) for field in dataclasses.fields(hint)}
    else:
        return _TYPES.get(hint)
    return pa.struct({name: kind for name, kind in fields.items() if kind is not None})


def _plain(value: Any, kind: Any) -> Any:
    """Returns a value in an answer as pyarrow takes it for a type of `_type_of`."""
    if pa.types.is_struct(kind) and value is not None:
        values = value if isinstance(value, tuple) else [getattr(value, field.name) for field in kind]
        return {field.name: _plain(one, field.type) for field, one in zip(kind, values, strict=True)}
    if pa.types.is_map(kind):
        return [(str(name), one) for name, one in value.items()]
    if pa.types.is_list(kind):
        return [_plain(one, kind.value_type) for one in value]
    return value
