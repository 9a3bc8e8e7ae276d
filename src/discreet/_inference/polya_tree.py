"""The posterior of the shares of many ordered cells, from noisy counts, under a Pólya tree prior.

A Dirichlet(1) prior over k cells weighs as much as k evenly spread records. A Pólya tree (Lavine 1992) does
not: the cells are halved repeatedly, and the share of a node's records in its left half has a Beta(a, a)
prior, or Beta(a₁, a₂) in proportion to the numbers of cells if the halves are unequal. The smoothness a of a
node is unknown, one of nine numbers from 1/64 to 1024, and small at the top of the tree. From a node to each
half it grows fourfold, as for a smooth density, or stays, or rarely jumps to any value. So neighbouring cells
in smooth regions inform each other, and empty regions stay empty (Wong and Ma 2010; Ma 2017). If the density
may vanish at the ends of the range, a can also shrink there.

The posterior of the true counts is exact. Let m(x), the *message* of a node, be the probability of the
published values of its cells if it contains x records. Then

    m(x) = Σ over a of P(a) · x!/Γ(x + a₁ + a₂)/B(a₁, a₂) · Σ over x₁ + x₂ = x of g₁(x₁) g₂(x₂),

where gᵢ(x) = Γ(x + aᵢ)/x! · mᵢ(x) for the two halves. The messages are computed from the cells upwards, by a
convolution for each a; then a, x₁ and the shares are drawn from the top downwards. All terms are positive, so
nothing cancels. Counts whose probability is below e^{−34} of the largest for every a are left out. If the
noise is large, counts are computed on a grid with steps of a quarter of its scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy.special import betaln, gammaln

from discreet._typing import FloatArray, IntArray

_NEGLIGIBLE_NATS = 34.0
_WEIGHTS_AT_ONCE = 1 << 21  # weights that are summed at a time
SMOOTH = 4.0 ** np.arange(-3, 6)
"""The possible values of the parameter a of a node."""
_TOP_PROBABILITIES = np.array([1 / 3] * 3 + [0.0] * 6)
_JUMP_PROBABILITY = 0.02


def _steps(stay: float, grow: float) -> FloatArray:
    """Return the matrix P(a of a half | a of its node): a stays, grows or shrinks fourfold, or jumps."""
    here, states = np.arange(len(SMOOTH)), len(SMOOTH)
    chance = np.full((states, states), _JUMP_PROBABILITY / states)
    for way, share in ((0, stay), (1, grow), (-1, 1 - stay - grow)):
        chance[here, np.clip(here + way, 0, states - 1)] += (1 - _JUMP_PROBABILITY) * share
    return chance


STEPS, END_STEPS = _steps(0.3, 0.7), _steps(0.5, 0.25)
"""Transition probabilities of a for inner halves, and for halves at an end where the density may vanish."""


@dataclass(frozen=True, eq=False)
class Message:
    """log P(published values | count) for counts ``first``, ``first`` + 1, … on the last axis of ``log``."""

    first: int
    log: FloatArray

    def trim(self) -> Message:
        """Return the message without negligible values at its ends."""
        rows = self.log.reshape(-1, self.log.shape[-1]).max(axis=0)
        relevant = np.flatnonzero(rows > rows.max() - _NEGLIGIBLE_NATS)
        return Message(self.first + int(relevant[0]), self.log[..., relevant[0] : relevant[-1] + 1])


@dataclass(frozen=True, eq=False)
class _Half:
    """Weights g(x)·e^{tilt·x} of one half of a node for x = ``first``, …; a row for each value of a."""

    first: int
    weight: FloatArray


class _Split:
    """A node of the tree with two halves, each a cell or another node.

    ``sides`` are the positions of the halves, ``cells`` their numbers of cells, and ``steps`` the transition
    probabilities of a from the node above.
    """

    def __init__(self, sides: tuple[int, int], cells: tuple[int, int], steps: FloatArray) -> None:
        self.sides, self.steps = sides, steps
        share = np.array(cells) / sum(cells)
        self.a = 2 * SMOOTH * share[:, None]  # (sides, states)

    def gather(self, messages: Sequence[Message], near: float, unit: int, most: int) -> Message:
        """Combine the messages of both halves into the node's: for each a, at counts up to ``most``."""
        # Any tilt e^{tx} cancels; this one keeps the largest terms where the counts are.
        strength = self.a.sum(axis=0)
        tilt = unit * np.log(near / (near + strength))
        constant = -betaln(*self.a)
        halves = []
        for message, a in zip(messages, self.a, strict=True):
            x = message.first + np.arange(message.log.shape[-1])
            log = message.log + log_rising(unit * x, a[:, None]) + tilt[:, None] * x
            largest = log.max(axis=1)
            constant = constant + largest
            halves.append(_Half(message.first, np.exp(log - largest[:, None])))
        self.halves = halves
        left, right = halves
        first = left.first + right.first
        length = min(left.weight.shape[1] + right.weight.shape[1] - 1, most - first + 1)
        rows = zip(left.weight, right.weight, strict=True)
        sums = np.stack([np.convolve(first_row, other)[:length] for first_row, other in rows])
        x = first + np.arange(length)
        log = log_of(sums) - log_rising(unit * x, strength[:, None])
        self.message = Message(first, log - tilt[:, None] * x + constant[:, None])
        return self.message

    def state(self, counts: IntArray, above: IntArray | None, rng: np.random.Generator) -> IntArray:
        """Draw the index of a, given the node's counts and the index of a in the node above."""
        chance = log_of(self.steps)[np.zeros_like(counts) if above is None else above].T
        log = self.message.log[:, counts - self.message.first] + chance
        return _chosen(np.exp(log - log.max(axis=0)).T, rng)

    def left(self, counts: IntArray, state: IntArray, rng: np.random.Generator) -> IntArray:
        """Draw the counts of the left half, given the node's counts and the index of its a."""
        return split_counts(self.halves[0], self.halves[1], counts, state, rng)


def split_counts(
    left: _Half, right: _Half, counts: IntArray, state: IntArray, rng: np.random.Generator
) -> IntArray:
    """Draw x₁ with probability ∝ left(x₁)·right(x − x₁) for each x in ``counts``."""
    width, other = left.weight.shape[1], right.weight.shape[1]
    span = width + other - 1
    key = state * span + (counts - left.first - right.first)
    seen = np.flatnonzero(np.bincount(key, minlength=span * len(left.weight)))
    place = np.empty(span * len(left.weight), dtype=np.int64)
    place[seen] = np.arange(len(seen))
    inverse = place[key]
    turned = np.pad(right.weight[:, ::-1], ((0, 0), (width - 1, width - 1)))
    windows = np.lib.stride_tricks.sliding_window_view(turned, width, axis=1)
    drawn, uniform = np.empty(len(counts), dtype=np.int64), rng.random(len(counts))
    block = max(1, _WEIGHTS_AT_ONCE // width)
    for low in range(0, len(seen), block):
        chosen, total = np.divmod(seen[low : low + block], span)
        below = np.cumsum(left.weight[chosen] * windows[chosen, span - 1 - total], axis=1)
        below /= below[:, -1:]
        below += np.arange(len(chosen))[:, None]
        rows = slice(None) if block >= len(seen) else (low <= inverse) & (inverse < low + block)
        row = inverse[rows] - low
        position = np.searchsorted(below.ravel(), uniform[rows] + row, side="right") - row * width
        drawn[rows] = np.clip(
            position, np.maximum(total[row] - other + 1, 0), np.minimum(total[row], width - 1)
        )
    return left.first + drawn


def log_rising(x: IntArray, a: FloatArray) -> FloatArray:
    """Return log(Γ(x + a)/x!)."""
    return np.asarray(gammaln(x + a) - gammaln(x + 1.0))


def log_of(x: FloatArray) -> FloatArray:
    """Return log x, without a warning at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(x))


def _chosen(weight: FloatArray, rng: np.random.Generator) -> IntArray:
    """Draw an index on the last axis for each row, with probability ∝ ``weight``."""
    below = np.cumsum(weight, axis=-1)
    uniform = rng.random(weight.shape[:-1])[..., None] * below[..., -1:]
    return np.asarray(np.minimum((below <= uniform).sum(axis=-1), weight.shape[-1] - 1))


class PolyaTree:
    """The posterior of the shares of ordered cells, given the likelihood of each cell's count.

    ``cells`` are the likelihoods, at counts in multiples of ``unit`` records, and ``most`` is the largest
    possible count in these units. ``near`` is a rough number of records of each cell, for scaling. ``fades``
    says that the density may vanish at the ends of the range.
    """

    def __init__(self, cells: Sequence[Message], near: FloatArray, unit: int, most: int, fades: bool) -> None:
        self.k, self.unit = len(cells), unit
        self.splits: list[_Split] = []
        messages: list[Message] = []
        total = np.concatenate([[0.0], np.cumsum(near)])
        steps = STEPS, END_STEPS if fades else STEPS, _TOP_PROBABILITIES[None]

        def _build(low: int, high: int) -> tuple[int, Message]:
            """Return the position of some cells in ``splits`` (−1 − i for one cell i), and their message."""
            if high - low == 1:
                return -1 - low, cells[low].trim()
            middle = (low + high) // 2
            halves = _build(low, middle), _build(middle, high)
            chances = steps[(low == 0) + (high == self.k)]
            split = _Split((halves[0][0], halves[1][0]), (middle - low, high - middle), chances)
            expected = min(max(float(total[high] - total[low]), 1.0), float(unit * most))
            message = split.gather([half[1] for half in halves], expected, unit, most)
            self.splits.append(split)
            largest = np.maximum(message.log.max(axis=0), -1e300)
            mixed = largest + log_of(chances @ np.exp(message.log - largest))
            messages.append(Message(message.first, mixed).trim())
            return len(self.splits) - 1, messages[-1]

        _, top = _build(0, self.k)
        self.message = Message(top.first, np.atleast_2d(top.log)[0])

    def draw(self, counts: IntArray, rng: np.random.Generator) -> tuple[FloatArray, npt.NDArray[np.int8]]:
        """Draw the shares of the cells, given the total count of each draw.

        Returns the shares and the index of the smoothness a around each cell, both of shape (draws, cells).
        """
        size = len(counts)
        shares = np.ones((size, self.k))
        states = np.zeros((size, self.k), dtype=np.int8)
        if self.k == 1:
            states[:, 0] = rng.choice(len(SMOOTH), size, p=_TOP_PROBABILITIES)
            return shares, states
        at: dict[int, tuple[IntArray, FloatArray, IntArray | None]] = {
            len(self.splits) - 1: (counts, np.ones(size), None)
        }
        for number in range(len(self.splits) - 1, -1, -1):
            split = self.splits[number]
            x, share, above = at.pop(number)
            state = split.state(x, above, rng)
            left = split.left(x, state, rng)
            a = split.a[:, state]
            part = rng.beta(a[0] + self.unit * left, a[1] + self.unit * (x - left))
            halves = ((left, share * part), (x - left, share * (1 - part)))
            for side, (side_counts, own_share) in zip(split.sides, halves, strict=True):
                if side >= 0:
                    at[side] = side_counts, own_share, state
                else:
                    shares[:, -1 - side], states[:, -1 - side] = own_share, state
        return shares, states


def within(
    states: npt.NDArray[np.int8], slopes: FloatArray, depth: int, rng: np.random.Generator
) -> FloatArray:
    """Draw, from the prior, how each cell's records are divided among 2^depth equal parts of the cell.

    The expected density within a cell is linear, 1 + slope·(t − ½) for t from 0 to 1 along the cell.
    ``states`` are the indices of the smoothness a around the cells.
    """
    share, state = np.ones((len(states), 1)), states.astype(np.int64)[:, None]
    for level in range(depth):
        middle = (np.arange(2**level) + 0.5) / 2**level
        height = 1 + slopes[:, None] * (middle - 0.5)
        left = 0.5 * (height - slopes[:, None] / 2 ** (level + 2)) / height
        state = _chosen(STEPS[state], rng)
        part = rng.beta(2 * SMOOTH[state] * left, 2 * SMOOTH[state] * (1 - left))
        share = np.stack([share * part, share * (1 - part)], axis=-1).reshape(len(states), -1)
        state = np.repeat(state, 2, axis=1)
    return share


def slopes_within(share: FloatArray, width: FloatArray) -> FloatArray:
    """Return the relative slope of the density within each cell, estimated from the neighbouring cells.

    It is 0 at local extremes, and clipped to [−2, 2], so that the density is not negative.
    """
    if share.shape[1] == 1:
        return np.zeros(share.shape)
    density = np.maximum(share / width, 1e-300)
    rise = np.diff(density, axis=1) / ((width[1:] + width[:-1]) / 2)
    before, after = np.hstack([rise[:, :1], rise]), np.hstack([rise, rise[:, -1:]])
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = 2 / (
            1 / before + 1 / after
        )  # as monotone cubic interpolation has it (Fritsch and Butland 1984)
    steep = np.where(before * after > 0, mean, 0.0) * width / density
    return np.asarray(np.clip(steep, -2.0, 2.0))


class Together:
    """The joint posterior of several trees that divide all records, and of the number of records.

    The shares of the trees have a uniform prior. ``log_total`` is log P(n) at n = 0, ``unit``, 2·``unit``, …;
    it is not used if n = ``total`` is public.
    """

    def __init__(
        self, trees: Sequence[PolyaTree], unit: int, most: int, total: int | None, log_total: FloatArray
    ) -> None:
        self.trees, self.unit = trees, unit
        self._halves: list[tuple[_Half, _Half]] = []
        sums = _as_half(trees[0].message)
        for tree in trees[1:]:
            half = _as_half(tree.message)
            self._halves.append((sums, half))
            weight = np.convolve(sums.weight[0], half.weight[0])[: most - sums.first - half.first + 1]
            sums = _as_half(Message(sums.first + half.first, log_of(weight)))
        self._sums, self._total = sums, total
        self._log_total = log_total

    @cached_property
    def _number(self) -> tuple[IntArray, FloatArray]:
        """The possible numbers of records, in multiples of ``unit``, and their probabilities."""
        x = self._sums.first + np.arange(self._sums.weight.shape[1])
        if self._total is not None:
            return np.array([min(max(round(self._total / self.unit), int(x[0])), int(x[-1]))]), np.ones(1)
        log = log_of(self._sums.weight[0]) + self._log_total[x]
        log -= log_rising(self.unit * x, np.array(float(len(self.trees))))
        weight = np.exp(log - log.max())
        return x, weight / weight.sum()

    def draw(
        self, size: int, rng: np.random.Generator
    ) -> list[tuple[FloatArray, FloatArray, npt.NDArray[np.int8]]]:
        """Draw each tree's share of all records, the shares of its cells within it, and their smoothness."""
        values, chance = self._number
        counts = rng.choice(values, size, p=chance)
        state, tree_counts = np.zeros(size, dtype=np.int64), []
        for before, last in reversed(self._halves):
            rest = split_counts(before, last, counts, state, rng)
            tree_counts.append(counts - rest)
            counts = rest
        tree_counts = [counts, *reversed(tree_counts)]
        weight = rng.standard_gamma(1.0 + self.unit * np.stack(tree_counts, axis=1))
        share = weight / weight.sum(axis=1, keepdims=True)
        return [(share[:, i], *tree.draw(tree_counts[i], rng)) for i, tree in enumerate(self.trees)]


def _as_half(message: Message) -> _Half:
    message = message.trim()
    return _Half(message.first, np.exp(message.log - message.log.max())[None])


def step_of(scale: float) -> int:
    """Return the grid step of counts, in records, for noise of this scale."""
    return max(1, math.floor(scale / 4))
