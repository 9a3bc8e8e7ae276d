"""Parts of a machine that some tests need: PostgreSQL, Spark, Chromium."""

from __future__ import annotations

import os

import pytest


def need(lacking: str | None) -> None:
    """Skips and says what is lacking; where everything must be there (CI is set), that is a failure."""
    if lacking is None:
        return
    print(f"skipped: {lacking}")
    if os.environ.get("CI"):
        pytest.fail(lacking)
    pytest.skip(lacking)
