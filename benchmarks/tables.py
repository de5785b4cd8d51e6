"""Tables in Markdown, and the times of two sides as a ratio."""

import statistics
from collections.abc import Iterable, Sequence


def table_lines(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Returns the lines of a table.

    >>> table_lines(["side", "ms"], [["ours", "3"]])
    ['| side | ms |', '|---|---|', '| ours | 3 |']
    """
    lines = [f"| {' | '.join(cells)} |" for cells in (columns, *rows)]
    return [lines[0], "|---" * len(columns) + "|", *lines[1:]]


def ratio_of(numerators: Sequence[float], denominators: Sequence[float]) -> str:
    """Returns the ratios of measurements that were made in turns: the median, the smallest and the largest.

    >>> ratio_of([2.0, 3.0, 8.0], [2.0, 2.0, 2.0])
    '1.50 (1.00 to 4.00)'
    """
    ratios = [one / other for one, other in zip(numerators, denominators, strict=True)]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"
