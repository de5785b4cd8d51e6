"""Refuses unknown options of `encode`, with a hint for those of sentence-transformers."""

import inspect
from collections.abc import Callable, Iterable

from keras_bert.models.shown_arguments import check_options

_INSTEAD = {
    "normalize_embeddings": "Give normalize=True.",
    "show_progress_bar": "A bar appears after ten seconds. Give on_progress, a function of the texts in each batch.",
    "precision": "The vectors are float32. Round them afterwards.",
    "convert_to_tensor": "The vectors are arrays. Convert them afterwards, as by torch.from_numpy(vectors).",
    "convert_to_numpy": "The vectors are arrays already.",
    "prompt_name": "Give prompt, which is the name of a prompt.",
    "truncate_dim": "Give dimensions.",
}
# What a hint tells to give instead.
_NAMED = {"normalize_embeddings": "normalize", "prompt_name": "prompt", "truncate_dim": "dimensions"}


def check_encode_options(verb: Callable, unknown: Iterable[str]) -> None:
    """Raises `InputError` for the first of the options that `verb`, a model's `encode`, does not have."""
    unknown = list(unknown)
    if not unknown:  # reading a signature takes a few percent of the time for a short text
        return
    known = inspect.signature(verb).parameters
    # A hint may name an option that another kind of model has.
    hints = {name: hint for name, hint in _INSTEAD.items() if _NAMED.get(name) in (None, *known)}
    check_options(verb, unknown=unknown, instead=hints)
