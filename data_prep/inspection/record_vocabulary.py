"""The vocabulary of records: the one that the user names, or the one that is found beside them."""

import os
from collections.abc import Sequence

from keras_bert.program.errors import InputError
from keras_bert.records.manifests import read_manifests, real_path, vocabulary_hashes
from keras_bert.tokenization.kinds import find_vocabulary, load_vocabulary
from keras_bert.tokenization.tokenizer import TokenTable


def vocabulary_of_records(paths: Sequence[str], vocab_file: str | None = None) -> tuple[TokenTable | None, str]:
    """Returns the vocabulary of record files, and where it is in words. Without one, ids stand for tokens.

    A vocabulary is looked for beside the records and in the folder above. It is only used when the manifests beside
    the records have its hash, or have none.

    Raises:
        InputError: the vocabulary that the user named cannot be read.
    """
    # A file that is a link has its manifest where it leads to.
    folders = sorted({os.path.dirname(place(path)) for path in paths for place in (os.path.abspath, real_path)})
    manifests = [manifest for folder in folders for _, manifest in read_manifests(folder)]
    hashes = {value for manifest in manifests for value in vocabulary_hashes(manifest)}
    if vocab_file is not None:
        vocabulary = load_vocabulary(vocab_file)
        differs = hashes and vocabulary.sha256 not in hashes
        return vocabulary, f"{vocab_file}{', which is not the one that the manifest has' if differs else ''}"
    for folder in dict.fromkeys(place for beside in folders for place in (beside, os.path.dirname(beside))):
        try:
            vocabulary = find_vocabulary(folder)
        except InputError:
            continue
        if vocabulary is not None and (not hashes or vocabulary.sha256 in hashes):
            return vocabulary, folder
    return None, "there is none of these records beside them, so ids are shown (--vocab_file names one)"
