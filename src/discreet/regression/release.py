"""What a fit publishes: coefficient draws, their guarantee, and the public settings that led to them."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._interop import inference_data
from discreet._typing import FloatArray
from discreet.documents.base import read_document, write_document
from discreet.errors import CorruptReleaseError
from discreet.privacy.guarantee import Guarantee

if TYPE_CHECKING:
    from discreet.documents.base import Receipt

__all__ = ["FORMAT", "VERSION", "LogisticRelease", "clipped", "versions"]


FORMAT = "discreet/logistic"
VERSION = 1
_BELOW = 1 - 1e-12
_SQUARABLE = 1e150


@dataclass(frozen=True)
class LogisticRelease:
    """Draws of logistic regression coefficients, ready to be published; JSON round trip.

    ``coefficients`` is nested as draws × models × columns, ``intercepts`` as draws × models. There is one
    model for two classes (of the second against the first) and one per class otherwise. ``settings`` are
    public: they were fixed before the data were looked at.
    """

    private: bool
    estimator: str
    classes: tuple[Any, ...]
    coefficients: FloatArray
    intercepts: FloatArray
    norm_bound: float
    guarantee: Guarantee
    settings: Mapping[str, Any] = field(default_factory=dict)
    features: tuple[str, ...] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    receipt: Receipt | None = field(default=None, compare=False, repr=False)
    """What the ledger charged for it, where one did. Not a part of the release: the JSON does not hold it."""

    def log_odds(self, rows: FloatArray) -> FloatArray:
        """log p/(1 − p), shape (rows, models), p averaged over the draws; rows are clipped as in the fit."""
        inside = clipped(np.asarray(rows, dtype=np.float64), self.norm_bound)
        scores = np.einsum("ij,kmj->kim", inside, self.coefficients) + self.intercepts[:, None, :]
        if len(scores) == 1:
            return np.asarray(scores[0], dtype=np.float64)
        yes = np.logaddexp.reduce(-np.logaddexp(0.0, -scores), axis=0)
        no = np.logaddexp.reduce(-np.logaddexp(0.0, scores), axis=0)
        return np.asarray(yes - no, dtype=np.float64)

    def probabilities(self, rows: FloatArray) -> FloatArray:
        """The probability of each class, shape (rows, classes); one-versus-rest values are normalised."""
        share = _sigmoid(self.log_odds(rows))
        if len(self.classes) == 2:
            return np.hstack([1 - share, share])
        total = share.sum(axis=1, keepdims=True)
        even = np.full_like(share, 1 / len(self.classes))
        return np.asarray(np.divide(share, total, out=even, where=total > 0), dtype=np.float64)

    def to_json(self) -> str:
        """The release as a JSON document with a checksum; :meth:`from_json` reads it back."""
        content = {
            "private": self.private,
            "estimator": self.estimator,
            "classes": list(self.classes),
            "features": None if self.features is None else list(self.features),
            "coefficients": self.coefficients.tolist(),
            "intercepts": self.intercepts.tolist(),
            "norm_bound": self.norm_bound,
            "settings": dict(self.settings),
            "guarantee": self.guarantee.to_dict(),
            "versions": dict(self.versions),
        }
        return write_document(FORMAT, VERSION, content)

    @classmethod
    def from_json(cls, text: str) -> LogisticRelease:
        """Reads what :meth:`to_json` wrote; an edited or unknown document is refused."""
        content = read_document(text, FORMAT, VERSION)
        try:
            names = content["features"]
            release = cls(
                private=bool(content["private"]),
                estimator=str(content["estimator"]),
                classes=tuple(content["classes"]),
                coefficients=np.array(content["coefficients"], dtype=np.float64),
                intercepts=np.array(content["intercepts"], dtype=np.float64),
                norm_bound=float(content["norm_bound"]),
                guarantee=Guarantee.from_dict(content["guarantee"]),
                settings=content["settings"],
                features=None if names is None else tuple(names),
                versions=content["versions"],
            )
            if release.coefficients.ndim != 3 or release.intercepts.shape != release.coefficients.shape[:2]:
                raise ValueError("the coefficients are not nested as draws, models, columns")
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            raise CorruptReleaseError(f"the release lacks a part or has a malformed one: {error}") from None
        return release

    def to_arviz(self) -> Any:
        """The draws as ArviZ inference data, with what all of them together cost among its attributes."""
        together = "none: not private" if not self.private else str(self.guarantee)
        draws = {"coef": self.coefficients[None], "intercept": self.intercepts[None]}
        return inference_data(draws, {"guarantee": together, "draws": len(self.coefficients)})

    def __str__(self) -> str:
        number = len(self.coefficients)
        kind = "Private" if self.private else "NOT PRIVATE (seeded or without noise):"
        draws = "one draw" if number == 1 else f"{number} draws"
        text = f"{kind} logistic regression, {draws}, classes {', '.join(map(str, self.classes))}, "
        text += ", ".join(f"{name} {value}" for name, value in self.settings.items() if value is not None)
        if not self.private:
            return text
        shared = f" for all {number} draws together" if number > 1 else ""
        return f"{text}\nGuarantee{shared}: {self.guarantee}. {self.guarantee.meaning()}"


def clipped(rows: FloatArray, bound: float) -> FloatArray:
    """Rows with ‖x‖ > bound scaled down to it; a little below, so that rounding cannot exceed the bound."""
    most = bound * _BELOW
    largest = np.abs(rows).max(axis=1, keepdims=True, initial=0.0)
    plain = (largest == 0) | ((largest > 1 / _SQUARABLE) & (largest < _SQUARABLE))
    unit = np.where(plain, 1.0, largest)  # squares of the others are infinite or 0
    inside = rows / unit
    norms = np.linalg.norm(inside, axis=1, keepdims=True)
    with np.errstate(over="ignore"):
        long = norms * unit > most
    shorter = inside * (most / np.maximum(norms, 1e-300))
    return np.asarray(np.where(long, shorter, rows), dtype=np.float64)


def versions() -> dict[str, str]:
    from discreet._version import __version__

    return {"discreet": __version__, "python": platform.python_version(), "numpy": np.__version__}


def _sigmoid(scores: FloatArray) -> FloatArray:
    return np.asarray(0.5 * np.tanh(0.5 * scores) + 0.5, dtype=np.float64)
