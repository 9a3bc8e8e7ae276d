"""The audit page: the exact loss of one mechanism, enumerated once and remembered."""

from __future__ import annotations

import math
import threading
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from discreet.mechanisms import check_options
from discreet.planning.audit import Audit, audit
from discreet.studio.questions import AuditQuestion

_busy = threading.Lock()


@dataclass(frozen=True)
class Audited:
    """An audit with its curve."""

    result: Audit
    epsilons: npt.NDArray[np.float64]
    deltas: npt.NDArray[np.float64]

    @property
    def claimed(self) -> float | None:
        return self.result.claimed.epsilon if self.result.claimed.is_private else None

    @property
    def share(self) -> float | None:
        """How much of the claimed ε is used."""
        if self.claimed is None or not math.isfinite(self.result.epsilon):
            return None
        return self.result.epsilon / self.claimed


def audited(question: AuditQuestion) -> Audited:
    question.check()
    with _busy:  # one enumeration at a time; the second of two equal questions finds the first one's answer
        return _audited(
            question.mechanism,
            question.alpha,
            question.records,
            question.budget,
            tuple(question.options.items()),
        )


@lru_cache(maxsize=64)
def _audited(
    name: str, prior: tuple[float, ...], n: int, epsilon: Fraction, options: tuple[tuple[str, Any], ...]
) -> Audited:
    built = check_options(name, dict(options))(prior=prior, n=n, epsilon=epsilon, **dict(options))
    result = audit(built, progress=False)
    return Audited(result, *result.profile(61))
