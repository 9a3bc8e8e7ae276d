"""The output of a mechanism, the noise in it, and its exact privacy loss where that has a closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from discreet._numerics.noises import Noise


class Output:
    """One private output: the counts of the released posterior, and the noisy counts if they are published.

    ``decode`` computes the released counts from the noisy ones on first use; this costs no privacy.
    """

    def __init__(
        self,
        counts: tuple[int, ...] | None,
        noisy: tuple[int, ...] | None = None,
        decode: Callable[[tuple[int, ...]], tuple[int, ...]] | None = None,
    ) -> None:
        self._counts = counts
        self.noisy = noisy
        self._decode = decode

    @property
    def counts(self) -> tuple[int, ...]:
        if self._counts is None:
            assert self.noisy is not None
            assert self._decode is not None
            self._counts = self._decode(self.noisy)
        return self._counts

    @property
    def first(self) -> tuple[int, ...]:
        """The output before any decoding."""
        return self.counts if self.noisy is None else self.noisy

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Output) and (self.noisy, self.counts) == (other.noisy, other.counts)

    def __hash__(self) -> int:
        return hash(self.noisy if self.noisy is not None else self.counts)

    def __repr__(self) -> str:
        return f"Output({self.counts!r}, {self.noisy!r})"


class CountNoise(NamedTuple):
    """Published counts and the distribution of the noise in them, for inference."""

    values: tuple[int, ...]
    noise: Noise


class PublishedLoss(NamedTuple):
    """The exact privacy loss of everything that a release publishes, in closed form."""

    epsilon: float
    delta: Callable[[float], float]
    """The smallest δ for each ε."""
    worst: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
    """Counts, their neighbour, and an outcome at which the loss is attained."""
