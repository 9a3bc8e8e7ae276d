"""How much work something may be: processor time of this process, which neighbours do not change."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def processor_seconds(most: float) -> Iterator[None]:
    """Fails where what happens inside takes more; ``most`` is far above what is expected."""
    begun = time.process_time()
    yield
    assert time.process_time() - begun < most
