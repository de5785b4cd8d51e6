"""The page docs/one_document.md: its examples run one after the other, and print the shown outputs."""

import doctest
import re

import pytest
from places import DOCS

PAGE = DOCS / "one_document.md"


@pytest.mark.slow
def test_every_output_on_the_page_is_that_of_the_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text("utf-8")
    blocks = [match for match in re.finditer(r"```python\n(.*?)```", text, re.S) if ">>>" in match[1]]
    assert len(blocks) >= 10
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    names, report = {}, []
    for block in blocks:
        first_line = text.count("\n", 0, block.start(1))
        test = doctest.DocTestParser().get_doctest(block[1], names, "one_document.md", str(PAGE), first_line)
        runner.run(test, out=report.append, clear_globs=False)
        names = test.globs
    assert not runner.failures, "".join(report)
