"""How a `MultiVectorEncoder` starts from a checkpoint."""

from collections.abc import Mapping

from keras_bert.checkpoints.checkpoint import BertCheckpoint
from keras_bert.checkpoints.multi_vector_files import MARK, with_marks
from keras_bert.config import POOLINGS
from keras_bert.program.errors import InputError
from keras_bert.tasks.settings import is_row_length
from keras_bert.tasks.text_rows import checked_length
from keras_bert.tokenization.kinds import python_tokenizer


def start(model_class: type, checkpoint: BertCheckpoint, arguments: Mapping) -> tuple[dict, BertCheckpoint]:
    """Returns the constructor arguments of a `MultiVectorEncoder`, and the checkpoint.

    Marks in prompts that the user gives become tokens that are found in a text as a whole. Marks of a folder of
    sentence-transformers stay as they are read there.

    Raises:
        InputError: a mark is no token of the vocabulary, or the model has fewer positions than a length.
    """
    told, pooling = checkpoint.multi_vector or {}, checkpoint.config.sentence_pooling
    if not told and checkpoint.sentence is None and pooling not in POOLINGS and "dense" not in arguments:
        raise InputError(
            f"{checkpoint.path} turns texts into vectors by {str(pooling)[:100]!r}. Save it as a "
            f"{model_class.__name__} of sentence-transformers 6, or give dense=[...] and train it."
        )
    stated = dict(told)
    if not told and checkpoint.sentence is not None and checkpoint.sentence.get("dense"):
        stated["dense"] = checkpoint.sentence["dense"]  # as there, the layers of a text become those of each token
    found = {**stated, **arguments}
    for length in (found.get("query_length"), found.get("document_length"), _length(found.get("query_expansion"))):
        checked_length(checkpoint.config, length if is_row_length(length) else None)
    prompts = found.get("prompts") or {}
    if checkpoint.vocabulary is None:
        return found, checkpoint
    texts = [text for text in prompts.values() if isinstance(text, str)]  # the model refuses the others
    if prompts != told.get("prompts", {}):
        checkpoint = with_marks(checkpoint, texts)
    remarks = []
    encode = python_tokenizer(checkpoint.vocabulary, checkpoint.config.do_lower_case).encode
    for text in texts:
        mark = MARK.match(text)
        if mark and len(encode(mark[0])) > 1:
            remarks.append(f"its mark {mark[0]!r:.50} is {len(encode(mark[0]))} tokens, as in sentence-transformers")
    words = found.get("skiplist_words") or ()
    missing = [word for word in words if isinstance(word, str) and word not in checkpoint.vocabulary.ids]
    if missing:
        remarks.append(f"words of the skip list that are not one token are ignored: {', '.join(missing)[:100]}")
    return found, checkpoint.replace(remarks=(*checkpoint.remarks, *remarks))


def _length(expansion) -> int | None:
    return expansion.get("length") if isinstance(expansion, Mapping) else None
