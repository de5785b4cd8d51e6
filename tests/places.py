"""Folders that tests read: the project, its pages, and these tests."""

import os
import pathlib

TESTS = pathlib.Path(__file__).resolve().parent
PROJECT = TESTS.parent
DOCS = PROJECT / "docs"
# Real data; tests that need a part of it are skipped without it.
REAL_DATA = pathlib.Path(os.environ.get("KERAS_BERT_DATA", PROJECT.parent / "shared" / "data"))
