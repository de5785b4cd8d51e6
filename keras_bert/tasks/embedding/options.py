"""Refuses unknown options of `encode`, with a hint for those of sentence-transformers."""

from collections.abc import Callable, Iterable

from keras_bert.models.verb_options import check_options

_INSTEAD = {
    "normalize_embeddings": "Give normalize=True.",
    "show_progress_bar": "Give on_progress, a function that is called with the number of texts of each batch.",
    "precision": "The vectors are float32. Round them afterwards.",
    "convert_to_tensor": "The vectors are a NumPy array. Convert it afterwards, as by torch.from_numpy(vectors).",
    "convert_to_numpy": "The vectors are a NumPy array already.",
    "prompt_name": "Give prompt, which is the name of a prompt.",
    "truncate_dim": "Give dimensions.",
}


def check_encode_options(verb: Callable, unknown: Iterable[str]) -> None:
    """Raises `InputError` for the first of the options that `verb`, a model's `encode`, does not have."""
    check_options(verb, unknown=unknown, instead=_INSTEAD)
