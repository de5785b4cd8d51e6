"""Checks which keys of a results file a page of the documentation names."""

import pathlib
import re

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"


def undocumented_keys(results_file: pathlib.Path, page: str) -> list[str]:
    """Returns the keys of `key = value` lines that the page does not show as code."""
    named = set(re.findall(r"`(\w+)`", (DOCS / page).read_text("utf-8")))
    keys = [line.split(" = ")[0] for line in results_file.read_text().splitlines()]
    return [key for key in keys if key not in named]
