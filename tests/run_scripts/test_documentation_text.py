import textwrap

import pytest

from run_scripts.documentation_corpus import is_prose, paragraphs_of_docstring, read_packages

GOOGLE_STYLE = """Computes the mean of all the values in a tensor.

    The result is `nan` when there is no value, see the guide for the
    *reason*.

    The text behind a link such as https://example.org/guide is for readers of the web.

    >>> mean([1, 2])
    1.5

    ```python
    mean(of=[1, 2, 3], and_of=the_rest, in_a_line_that_is_code_and_not_prose)
    ```

    Args:
        values: The numbers to take the mean of, in any
            order that is convenient.
        axis (int): int or None.

    Returns:
        A number, or a tensor of numbers if there is an axis.
    """

NUMPY_STYLE = """Return the mean of the values in an array.

    Parameters
    ----------
    values : array_like
        The numbers to take the mean of, in any order that
        is convenient.
    axis : int, optional
        Axis.

    .. versionadded:: 1.5
       In this version it was added for the first time.

    Notes
    -----
    The code is as simple as it can be, and is used by :func:`~library.median` too::

        return the_sum_of_all_values(in_the_array) / of_the_number_of_them.

    * A list has items that are sentences of their own.
    * It has **more** than one of them if it is not short.
    """


def test_google_style_docstrings_give_their_sentences():
    assert paragraphs_of_docstring(GOOGLE_STYLE) == [
        "Computes the mean of all the values in a tensor.",
        "The result is nan when there is no value, see the guide for the reason.",
        "The numbers to take the mean of, in any order that is convenient.",
        "A number, or a tensor of numbers if there is an axis.",
    ]


def test_numpy_style_docstrings_give_their_sentences():
    assert paragraphs_of_docstring(NUMPY_STYLE) == [
        "Return the mean of the values in an array.",
        "The numbers to take the mean of, in any order that is convenient.",
        "In this version it was added for the first time.",
        "The code is as simple as it can be, and is used by library.median too:",
        "A list has items that are sentences of their own.",
        "It has more than one of them if it is not short.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Too short.",
        "x: int, y: int, z: float, w: float or None.",
        "A sentence of the kind that ends without a full stop",
        "You may use it under the terms of the licence that came with it.",
        "It is \\frac{1}{2} of the sum of all the numbers in it.",
        "The half of a pair \ud800 is not to be written to a file.",
    ],
)
def test_lists_formulas_licences_and_fragments_are_not_prose(text):
    assert not is_prose(text)


def test_modules_are_read_without_importing_them(tmp_path, monkeypatch):
    package = tmp_path / "animals"
    (package / "tests").mkdir(parents=True)
    (package / "__init__.py").write_text('"""All the animals that are in the zoo of the city."""\nraise SystemExit')
    (package / "fox.py").write_text(
        textwrap.dedent('''
            class Fox:
                """A fox is quick, and it is brown in most of the world."""
                if True:
                    def jump(self):
                        """Jumps over the dog that is next to it."""
                        text = "A long text in a function is taken if it is on its own."
            add_doc("Fox", ("eat", """Eats what there is to eat, and does not ask for more."""))
            TOPICS = {"food": "The food of a fox is all that it can find in the wood."}
        ''')
    )
    (package / "broken.py").write_text('"""This is not the Python that you are looking for."""\ndef (:')
    (package / "no_prose.py").write_text("x = 1")
    (package / "tests" / "test_fox.py").write_text('"""A test is not what we would call documentation."""')
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "first" / "animals").mkdir(parents=True)  # without __init__.py: a real package of this name wins
    monkeypatch.syspath_prepend(tmp_path / "first")
    modules = read_packages(["animals", "not_installed"])
    assert [(module.name, len(module.paragraphs)) for module in modules] == [("animals", 1), ("animals.fox", 5)]
    assert modules[1].paragraphs[0] == "A fox is quick, and it is brown in most of the world."
    assert modules[1].paragraphs[-1] == "The food of a fox is all that it can find in the wood."
