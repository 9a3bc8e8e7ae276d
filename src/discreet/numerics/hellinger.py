"""Hellinger distance between Dirichlet distributions, stable from parameters of 10⁻³ to 10³⁰.

With f(a, b) = ½(lnΓ(a) + lnΓ(b)) − lnΓ((a+b)/2) ≥ 0 the Bhattacharyya coefficient of Dir(a) and Dir(b) is
exp(−F), F = Σᵢ f(aᵢ, bᵢ) − f(Σa, Σb), and H = √(1 − exp(−F)). When Σa = Σb the last term is zero and F is
separable over the categories.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from discreet._typing import FloatArray
from discreet.errors import InvalidInput
from discreet.numerics.log_gamma import log_gamma_gap


def hellinger(a: npt.ArrayLike, b: npt.ArrayLike) -> FloatArray | float:
    """Hellinger distance between Dir(a) and Dir(b), in [0, 1].

    ``a`` and ``b`` hold Dirichlet parameters along the last axis and are broadcast over the leading ones;
    two plain vectors give a float.

    >>> round(hellinger((5, 5), (6, 4)), 12)
    0.233629480709
    """
    a = np.asarray(a, dtype=np.float64)
    b = np.asarray(b, dtype=np.float64)
    for name, value in (("a", a), ("b", b)):
        if value.ndim == 0 or value.shape[-1] < 2:
            raise InvalidInput(f"{name} must hold at least two Dirichlet parameters along its last axis")
        if not (np.isfinite(value).all() and (value > 0).all()):
            raise InvalidInput(f"{name} must hold positive, finite Dirichlet parameters")
    if a.shape[-1] != b.shape[-1]:
        raise InvalidInput(f"a has {a.shape[-1]} parameters and b has {b.shape[-1]}")
    gap = log_gamma_gap(a, b).sum(axis=-1) - log_gamma_gap(a.sum(axis=-1), b.sum(axis=-1))
    distance = np.sqrt(-np.expm1(-np.maximum(gap, 0.0)))
    return float(distance) if distance.ndim == 0 else distance
