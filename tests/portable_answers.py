"""Questions for loaded exports. As a program, it shows that answers need only the packages of the small install.

python tests/portable_answers.py reads pickled triples (name of a model, folder of its export, runtime) and writes
pickled answers, or the text of an error.
"""

import pickle
import sys
import traceback

TEXTS = [
    "The council of the city voted on Tuesday, 7 to 2.",
    "Größe\tñandú\u00a0Ångström e\u0301te\u0301 ﬁnd",
    "中文和 English 混在一起。 Москва и мир, العربية",
    "\u200bzero\u0000width 👩‍🚀 http://example.org/?q=1#x",
    "fox " * 100,
    "x" * 300,
    "the",
]
SECOND_TEXTS = ["and the fox", "is it?", "中", "ok", "a " * 60, "fox", "walking"]
QUESTIONS = ["who is it ?", "what of the fox ?", "и ?"]
# No two windows of the long context have the same tokens: models without absolute positions would give equal answers.
_DIGITS_OF_PI = "31415926535897932384626433832795028841971693993751058209749445923078164062862089"
_LONG = " ".join(["the", "fox", "is", "it"][int(digit) % 4] for digit in _DIGITS_OF_PI)
CONTEXTS = [_LONG, "中文和 English 混在一起, of the fox.", "Größe é fox"]
CHOICES = [["a", "the fox", "中文"], ["of", "fox " * 60, "?"], ["a", "dog", "the"]]
WORDS = [["the", "fox"], ["é", "中", "x" * 60]]


def _masked(model) -> list:
    from keras_bert import fill_masks

    mask = model.vocabulary.special_tokens.mask
    texts = [f"the {mask} fox {mask}.", mask, f"a {mask} " + "the fox " * 3]
    return [fill_masks(model, texts, top_k=3), fill_masks(model, texts, joint=True)]


def _ranked(model) -> list:
    lists = model.predict((["the fox"] * 2, ["a", "b c"], ["fox", "中"]))
    return [model.predict((TEXTS, SECOND_TEXTS)), lists, model.rank("the fox", TEXTS, top_k=3)]


def _vectors_with_prompt(model) -> list:
    return [model.encode(TEXTS), model.encode(["a", "b"], prompt="query"), model.predict((TEXTS, SECOND_TEXTS))]


def _vectors_of_encoder(model):
    from keras_bert import sentence_embeddings

    options = {} if hasattr(model, "encode") and hasattr(model, "prompts") else {"pooling": "max", "normalize": False}
    return sentence_embeddings(model, TEXTS, **options)


def _sparse_vectors(model) -> list:
    vectors = [model.encode_query(TEXTS), model.encode_document(TEXTS), *model.predict((TEXTS, SECOND_TEXTS))]
    return [one.toarray() for one in vectors]


def _vectors_of_tokens(model) -> list:
    pairs = model.predict((TEXTS, SECOND_TEXTS))
    return [model.encode_query(QUESTIONS), model.encode_document(TEXTS), pairs, model.rank("the fox", TEXTS, top_k=3)]


def _written(model) -> list:
    # An export has its options.
    options = {"num_beams": 2, "max_new_tokens": 3} if hasattr(model, "generate") else {}
    return model.predict(["who", "7 to 2", "a dog"], **options)


# Name of a model in tiny_models.py -> function of that model, loaded or not, that returns its answers.
ANSWERS = {
    "classifier": lambda model: model.predict(TEXTS),
    "pairs": lambda model: model.predict((TEXTS, SECOND_TEXTS)),
    "several labels": lambda model: model.predict(TEXTS),
    "regression": lambda model: model.predict(TEXTS),
    "windows": lambda model: model.predict(TEXTS, max_seq_length=20),
    "few-shot classifier": lambda model: model.predict(TEXTS),
    "cross-encoder": _ranked,
    "tagger": lambda model: [model.predict(TEXTS), model.predict(WORDS)],
    "span": lambda model: model.predict((QUESTIONS, CONTEXTS)),
    "choice": lambda model: model.predict((QUESTIONS, CHOICES)),
    "masked words": _masked,
    "pretrainer": _masked,
    "sentence encoder": _vectors_with_prompt,
    "all poolings": lambda model: model.encode(TEXTS),
    "first token": lambda model: model.encode(TEXTS),
    "encoder": _vectors_of_encoder,
    "writer": _written,
    "sparse encoder": _sparse_vectors,
    "multi-vector encoder": _vectors_of_tokens,
}


# Packages that the full package needs and the small install does not.
OF_THE_FULL_PACKAGE = ("tensorflow", "tensorflow_text", "tensorflow_datasets", "keras", "h5py", "ml_dtypes", "sklearn")
OF_THE_FULL_PACKAGE += ("scipy", "google_crc32c", "sentencex", "onnx", "jax")


def as_in_the_small_install(*further_packages: str) -> None:
    """Lets later imports of packages fail as if they were not installed, and those of other modules of the project."""
    sys.modules.update(dict.fromkeys([*OF_THE_FULL_PACKAGE, *further_packages]))
    # An editable installation finds all modules in the clone.
    sys.meta_path[:] = [finder for finder in sys.meta_path if "__editable__" not in getattr(finder, "__module__", "")]


def main() -> None:
    as_in_the_small_install()
    from keras_bert.serving import load

    output, sys.stdout = sys.stdout.buffer, sys.stderr  # ranking prints notes
    while True:
        name, folder, runtime = pickle.load(sys.stdin.buffer)
        try:
            answers = ANSWERS[name](load(folder, runtime, num_threads=1))
        except Exception:
            answers = traceback.format_exc()
        pickle.dump(answers, output)
        output.flush()


if __name__ == "__main__":
    main()
