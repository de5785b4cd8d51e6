"""CHANGELOG.md has the form of Keep a Changelog 1.1.0."""

import datetime
import re

from places import PROJECT

TEXT = (PROJECT / "CHANGELOG.md").read_text("utf-8")
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def faults(text: str) -> list[str]:
    found = []
    head, *versions = re.split(r"^## ", text, flags=re.M)
    if not head.startswith("# Changelog\n") or "](https://keepachangelog.com/en/1.1.0/)" not in head:
        found.append("the head does not name the format")
    names = [version.split("\n", 1)[0] for version in versions]
    if names[:1] != ["[Unreleased]"]:
        found.append("the first version is not [Unreleased]")
    dates = []
    for name in names[1:]:
        match = re.fullmatch(r"\[\d+\.\d+\.\d+\] - (\d{4}-\d\d-\d\d)( \[YANKED\])?", name)
        found += [] if match else [f"{name} is not [1.2.3] - 2026-12-31"]
        dates += [datetime.date.fromisoformat(match[1])] if match else []
    if dates != sorted(dates, reverse=True):
        found.append("the newest version is not first")
    for name, version in zip(names, versions, strict=True):
        start, *sections = re.split(r"^### ", version, flags=re.M)
        kinds = [section.split("\n", 1)[0] for section in sections]
        if kinds != [kind for kind in KINDS if kind in kinds] or start.partition("\n")[2].strip():
            found.append(f"{name} has {kinds}")
        for kind, section in zip(kinds, sections, strict=True):
            lines = [line for line in section.split("\n")[1:] if line]
            if not lines or not all(line.startswith(("* ", "  ")) for line in lines):
                found.append(f"{name}, {kind}: not a list of changes")
    return found


def test_the_changelog_keeps_its_form():
    assert faults(TEXT) == []
