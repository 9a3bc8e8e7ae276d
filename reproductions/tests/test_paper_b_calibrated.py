"""M_β calibrated exactly, in quick settings."""

from __future__ import annotations

from discreet_reproductions.paper_b import calibrated


def test_exact_calibration_lowers_the_error() -> None:
    (row,) = calibrated.measure((1.0, 1.0), 0.8, 8)
    assert row["budget, exact"] > 1.2 * row["budget, definition"]
    assert row["lattice"] < row["mbeta, exact"] < row["mbeta, definition"]
    unused, laplace = calibrated.statements([row])
    assert (unused.agrees, laplace.name) == ("yes", "beats-laplace")
