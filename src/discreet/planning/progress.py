"""Progress of work that takes more than two seconds, shown on a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")

QUIET_SECONDS = 2.0
"""Seconds before progress is shown."""


def track_progress(items: Sequence[Item], what: str, show: bool | None = None) -> Iterator[Item]:
    """Yield the items and show how many are done, on standard error.

    Parameters
    ----------
    items : sequence
        The items.
    what : str
        The name of the work.
    show : bool, optional
        Whether to show progress. By default it is shown on a terminal, after two seconds.

    Yields
    ------
    item

    Examples
    --------
    >>> list(track_progress([3, 1, 2], "sorting", show=False))
    [3, 1, 2]
    """
    shown = sys.stderr.isatty() if show is None else show
    patience, pause = (QUIET_SECONDS, 0.2) if show is None else (0.0, 0.0)
    start = last = time.monotonic()
    has_printed = False
    for done, item in enumerate(items):
        now = time.monotonic()
        if shown and now - start >= patience and now - last >= pause:
            print(f"\r{what}: {done} of {len(items)}", end="", file=sys.stderr, flush=True)
            last, has_printed = now, True
        yield item
    if has_printed:
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
