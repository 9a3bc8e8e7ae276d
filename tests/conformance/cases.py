"""One row per mechanism and setting; every row goes through the same assertions in this folder."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import discreet
from discreet.errors import NoiseWarning

PRIORS = ((1.0, 1.0), (0.5, 0.5), (7.0, 4.0), (1.0, 1.0, 1.0), (2.0, 3.0, 4.0))
EPSILONS = ("0.1", "0.8", "3")
SIZES = range(1, 13)


@dataclass(frozen=True)
class Case:
    mechanism: str
    prior: tuple[float, ...]
    epsilon: str
    options: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def sizes(self) -> Iterable[int]:
        """The n at which the exact distribution is checked."""
        return SIZES

    def build(self, n: int) -> discreet.Mechanism:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoiseWarning)
            return discreet.mechanism(
                self.mechanism, prior=self.prior, n=n, epsilon=self.epsilon, **self.options
            )

    def __str__(self) -> str:
        prior = ",".join(f"{a:g}" for a in self.prior)
        options = "".join(f"-{name}={value}" for name, value in self.options.items())
        return f"{self.mechanism}-({prior})-{self.epsilon}{options}"


MECHANISMS: list[tuple[str, dict[str, Any]]] = [
    ("lszhang", {}),
    ("lsdim", {}),
    ("lshist", {}),
    ("lattice", {}),
    ("ehd", {}),
    ("ehd", {"calibration": "exact"}),
    ("ehds", {}),
    ("ehds", {"gamma": 0.25}),
    ("ehds", {"calibration": "exact"}),
    ("ehdl-calibrated", {}),
    ("exponential", {"score": "kl"}),
    ("exponential", {"score": "total-variation", "calibration": "exact"}),
    ("exponential", {"score": "l1"}),
    ("mbeta", {"delta": "1/2000"}),
    ("ehdl", {}),
]
CASES = [
    Case(name, prior, epsilon, options)
    for (name, options), prior, epsilon in itertools.product(MECHANISMS, PRIORS, EPSILONS)
]

REPLACE_ONE = sorted({name for name, _ in MECHANISMS})
"""Those that every row of this table goes through; the others have rows in ``test_add_remove.py``."""
INDEPENDENT = ("gaussian", "geometric")
