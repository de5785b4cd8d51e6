"""Folders that tests read: the project, its pages, and these tests."""

import pathlib

TESTS = pathlib.Path(__file__).resolve().parent
PROJECT = TESTS.parent
DOCS = PROJECT / "docs"
