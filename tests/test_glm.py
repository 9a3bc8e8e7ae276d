"""Logistic regression: calibration, samplers against quadrature, noise, kernels, releases."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import warnings
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.stats import ks_1samp, norm

import discreet
from discreet.errors import (
    CorruptReleaseError,
    DataError,
    InvalidInputError,
    NoiseWarning,
    NotPrivateError,
    PrivacyWarning,
)
from discreet.privacy.composite_curves import Inexact
from discreet.privacy.curves import Curve, Gaussian
from discreet.regression._chain import (
    EXACT_BASIS,
    FLOATS,
    DrawDesign,
    chain_mu_squared,
    draw_design,
    langevin,
    loss_gradient,
)
from discreet.regression._doubles import PrivateNoise, SeededNoise
from discreet.regression.release import LogisticRelease, clip_rows
from statistical.goodness import ALPHA

RNG = np.random.default_rng(6)


def rows_of(n: int, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = clip_rows(rng.normal(size=(n, d)), 1.0)
    slope = np.linspace(3, -1, d)
    return rows * np.where(rng.random(n) < 1 / (1 + np.exp(-rows @ slope)), 1.0, -1.0)[:, None]


def make(method: str = "diffused", **changes: Any) -> DrawDesign:
    settings: dict[str, Any] = {
        "method": method,
        "n": 500,
        "dimension": 5,
        "norm_squared": Fraction(1),
        "prior_precision": 1.0,
        "epsilon": 1,
        "delta": "1e-6",
    }
    return draw_design(**{**settings, **changes})


# Calibration.


@pytest.mark.parametrize(
    "target", [{"epsilon": 1, "delta": "1e-6"}, {"epsilon": "0.1", "delta": 1e-8}], ids=str
)
@pytest.mark.parametrize("method", ["diffused", "concentrated"])
def test_target_is_met_and_not_overshot(method: str, target: dict[str, Any]) -> None:
    made = make(method, **target)
    reached, wanted = (
        made.guarantee.effective_curve.delta_at(float(target["epsilon"])),
        float(target["delta"]),
    )
    # A chain is a little wider than the posterior for which ρ and m are made, and so a little more private.
    assert 0.6 * wanted < reached <= wanted
    assert made.guarantee.exact_delta == Fraction(str(target["delta"]))
    assert (made.precision == 1.0) == (method == "diffused")
    assert (made.weight == 1.0) == (method == "concentrated")
    assert FLOATS in made.guarantee.assumptions


@pytest.mark.parametrize("order", [1.5, 10, 100])
def test_an_order_gives_the_scalings_of_the_paper(order: float) -> None:
    """ρ = √(εm/(2c²λ)) and m = 2c²λ/ε, to rounding; the chain's own curve is below the target."""
    diffuse = make(order=order, delta=None, epsilon="0.5", prior_precision=2.0, norm_squared=Fraction(9))
    assert diffuse.weight == pytest.approx(math.sqrt(0.5 * 2 / (2 * 9 * order)), rel=1e-9)
    assert diffuse.guarantee.rdp(order) <= 0.5
    assert diffuse.guarantee.exact_epsilon is None
    raised = make(method="concentrated", order=order, delta=None, epsilon="0.5")
    assert raised.precision == pytest.approx(2 * order / 0.5, rel=1e-9)
    assert raised.guarantee.rdp(order) <= 0.5


def test_figures_of_the_specification() -> None:
    """(λ, ε) = (10, 1) at δ = 10⁻⁶: 2.54 by conversion at that one order, 1.99 by the Gaussian profile."""
    curve = Gaussian(Fraction(1, 5))
    assert curve.rdp(10) == pytest.approx(1)
    order, delta = 10, 1e-6
    single = 1 + math.log1p(-1 / order) - math.log(delta * order) / (order - 1)
    assert single == pytest.approx(2.17, abs=0.01)  # Canonne, Kamath and Steinke
    assert 1 + math.log(1 / delta) / (order - 1) == pytest.approx(2.54, abs=0.01)  # Mironov
    assert curve.epsilon_at(delta) == pytest.approx(1.99, abs=0.01)


def test_mu_of_the_chain() -> None:
    delta, m, eta = Fraction(1, 3), Fraction(2), Fraction(1, 50)
    k = 1 - eta * m
    values = []
    for steps in (1, 2, 7, 100, 10_000):
        found = chain_mu_squared(delta**2, m, eta, steps)
        exact = delta**2 / m * (1 - eta * m / 2) * (1 - k**steps) / (1 + k**steps)
        assert exact <= found <= exact * (1 + Fraction(1, 10**9))
        values.append(found)
    assert values == sorted(values)
    assert values[-1] < delta**2 / m
    # One step is the Gaussian mechanism: a shift of ηΔ against noise of variance 2η.
    assert values[0] == pytest.approx(float(eta * delta**2 / 2))


def test_a_shorter_chain_is_more_private_and_never_less() -> None:
    squares = [make(steps=steps).guarantee.curve.gaussian_squared for steps in (1, 10, 100, 10**6)]  # type: ignore[union-attr]
    assert all(a <= b for a, b in pairwise(squares))
    one = make()
    assert squares[-1] <= one.sensitivity_squared / Fraction(one.precision)


def test_draws_and_models_share_the_budget() -> None:
    one, many = make(), make(draws=4, models=3)
    assert many.weight == pytest.approx(one.weight / math.sqrt(12), rel=1e-9)
    assert one.sensitivity_squared == 4 * Fraction(one.weight) ** 2 * one.norm_squared
    chain = make(draws=2, models=3)
    each = chain_mu_squared(
        chain.sensitivity_squared, Fraction(chain.precision), Fraction(chain.step), chain.steps
    )
    assert chain.guarantee.curve == Gaussian(6 * each)


@pytest.mark.parametrize("norm_squared", [Fraction(1, 100), Fraction(1), Fraction(10_000)], ids=str)
@pytest.mark.parametrize("precision", [0.5, 40.0])
def test_steps_are_those_that_the_proof_covers(norm_squared: Fraction, precision: float) -> None:
    """η ≤ 2/(m + M), M = m + ρnc²/4."""
    made = make(norm_squared=norm_squared, prior_precision=precision)
    most = 2 / (2 * Fraction(made.precision) + Fraction(made.weight) * made.n * norm_squared / 4)
    assert Fraction(made.step) <= most


@pytest.mark.parametrize("precision", [1e-5, 0.7, 4.0, 1e6])
def test_the_grid_is_a_power_of_two_of_the_prior_s_width(precision: float) -> None:
    made = replace(make(), precision=precision)
    assert 2.0**-31 < float(made.grid) * math.sqrt(precision) <= 2.0**-30
    assert math.log2(made.grid) % 1 == 0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": None}, "a target is epsilon with delta"),
        ({"delta": None}, "a target is epsilon with delta"),
        ({"order": 10}, "a target is epsilon with delta"),
        ({"delta": 0}, "delta=0 cannot be reached"),
        ({"delta": 1}, "below 1"),
        ({"delta": -1}, "a probability above 0"),
        ({"delta": "much"}, "a probability above 0"),
        ({"delta": "1e-19"}, "in double precision"),
        ({"epsilon": -1}, "epsilon=-1"),
        ({"prior_precision": 0}, "prior_precision=0 must be a positive number"),
        ({"prior_precision": "weak"}, "prior_precision='weak'"),
        ({"method": "diffuse"}, "method='diffuse' must be one of: diffused"),
        ({"draws": 0}, "draws=0 must be at least 1"),
        ({"steps": 0}, "steps=0"),
        ({"prior_precision": 1e-9}, "is too weak"),
    ],
    ids=str,
)
def test_bad_settings(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        make(**changes)


def test_a_prior_that_is_too_weak_is_told_what_reaches_the_target() -> None:
    with pytest.raises(InvalidInputError, match=r"prior_precision=71\.\d+ reaches it") as caught:
        make("direct")
    reached = float(str(caught.value).split("prior_precision=")[2].split()[0])
    assert make("direct", prior_precision=reached * (1 + 1e-5)).weight == 1.0
    with pytest.raises(InvalidInputError, match="too weak"):
        make("direct", prior_precision=reached * (1 - 1e-4))
    with pytest.raises(InvalidInputError, match=r"prior_precision=\S+ needs fewer") as caught:
        make(prior_precision=1e-9)
    enough = float(str(caught.value).split("prior_precision=")[2].split()[0])
    assert make(prior_precision=enough).steps <= 500_000


def test_an_epsilon_that_leaves_only_the_prior_warns_with_the_figure() -> None:
    with pytest.warns(NoiseWarning, match=r"at most 0\.\d+ of the prior's standard deviations"):
        made = make(epsilon="0.001")
    assert made.reach < 1
    with pytest.warns(PrivacyWarning, match="at least 1/n"):
        make(delta=0.01)


# Curves of inexact draws.


def test_inexact_curve() -> None:
    tau = Fraction(1, 10**9)
    curve = Inexact(Gaussian(Fraction(1, 4)), tau)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        expected = Gaussian(Fraction(1, 4)).delta_at(epsilon) + (1 + math.exp(epsilon)) * 1e-9
        assert curve.delta_at(epsilon) == pytest.approx(expected, rel=1e-9)
        assert curve.delta_at(epsilon) >= expected
    deltas = [curve.delta_at(e) for e in np.linspace(0, 60, 200)]
    assert all(a >= b * (1 - 1e-12) for a, b in pairwise(deltas))
    assert deltas[-1] > 2e-9
    assert curve.rdp(2) == math.inf
    assert Curve.from_dict(json.loads(json.dumps(curve.to_dict()))) == curve
    assert curve.epsilon_at(1e-6) == pytest.approx(Gaussian(Fraction(1, 4)).epsilon_at(1e-6), rel=0.01)
    assert curve.epsilon_at(1e-9) == math.inf
    together = discreet.compose([discreet.Guarantee(None, curve=curve)], count=2)
    assert together.delta_at(2) >= Gaussian(Fraction(1, 2)).delta_at(2)


# Kernels and noise.


def loss(signed: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return np.logaddexp(0.0, -(signed @ weights)).sum(axis=0)


def test_gradient_is_that_of_the_loss() -> None:
    signed, w = rows_of(300, 4), RNG.normal(size=(4, 3))
    step = 1e-6
    for i in range(4):
        shift = np.eye(4)[:, [i]] * step
        numeric = (loss(signed, w + shift) - loss(signed, w - shift)) / (2 * step)
        assert np.allclose(loss_gradient(signed, w)[i], numeric, atol=1e-6)
    wide, at = rows_of(3000, 90), RNG.normal(size=(90, 2))
    assert np.allclose(loss_gradient(wide, at), wide.T @ (-1 / (1 + np.exp(wide @ at))), rtol=1e-12)
    assert np.isfinite(loss_gradient(signed, 1e6 * w)).all()


def test_a_step_is_the_one_of_the_proof() -> None:
    """w − η(ρ∇L(w) + m w) + √(2η) ξ, written out record by record; the noise has the whole of its scale."""
    rows = rows_of(7, 3, 1)
    made = replace(make(dimension=3), n=7, draws=2, steps=2, step=0.05, precision=2.0, weight=0.3)
    kept = SeededNoise(5)
    w = kept.normals((3, 2)) / math.sqrt(made.precision)
    for noise in kept.normals((2, 3, 2)):
        slope = -sum(np.outer(v, 1 / (1 + np.exp(v @ w))) for v in rows)
        w = w - 0.05 * (0.3 * slope + 2.0 * w) + math.sqrt(2 * 0.05) * noise
    assert np.allclose(langevin(made, rows, SeededNoise(5)), w.T, rtol=1e-12, atol=float(made.grid))


def test_private_noise_is_normal_and_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fixed stream of bits in place of the operating system's; two tests at ALPHA."""
    stream = np.random.default_rng(11)
    monkeypatch.setattr("discreet.regression._doubles.os.urandom", stream.bytes)
    noise = PrivateNoise()
    normals = noise.normals((1000, 200)).ravel()
    assert ks_1samp(normals, norm.cdf).pvalue > ALPHA / 2
    assert ks_1samp(1.04 * normals, norm.cdf).pvalue < ALPHA / 2, "a wrong scale is found"
    uniforms = noise.uniforms((100_000,))
    assert 0 < uniforms.min() <= uniforms.max() < 1
    assert ks_1samp(uniforms, lambda x: x).pvalue > ALPHA / 2
    monkeypatch.setattr("discreet.regression._doubles.os.urandom", lambda size: b"\xff" * size)
    assert np.isfinite(noise.normals((2,))).all()
    assert (noise.uniforms((2,)) < 1).all()
    monkeypatch.setattr("discreet.regression._doubles.os.urandom", lambda size: b"\x00" * size)
    assert abs(noise.normals((1,))[0]) == pytest.approx(16.0, abs=0.1)
    assert (noise.uniforms((2,)) > 0).all()


def from_bits(number: int, monkeypatch: pytest.MonkeyPatch) -> float:
    """The private normal number whose 189 bits, of up to three words, are these."""
    words = [2 * (number >> 126) + 1, 2 * ((number >> 63) % 2**63), 2 * (number % 2**63)]
    stream = np.array(words, dtype=np.uint64).tobytes()
    used = [0]

    def take(size: int) -> bytes:
        used[0] += size
        return stream[used[0] - size : used[0]]

    monkeypatch.setattr("discreet.regression._doubles.os.urandom", take)
    return float(PrivateNoise().normals((1,))[0])


@pytest.mark.parametrize("place", [0.5, 4.0, 5.0, 7.0, 9.0, 11.0, 13.0])
def test_normals_are_denser_than_the_grid(place: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Near ``place`` the next bits move a number by less than 2⁻⁴⁶ of a deviation: far less than a cell.

    Multiples of 2⁻⁵³ under Φ⁻¹ are 2⁻³³ apart at 5 and 2⁻¹⁶ at 7: an output on a grid finer than that shows
    the centre of the noise, and rules out the neighbours.
    """
    number = int(2 * norm.sf(place) * 2.0**189)
    step = 1 << (number.bit_length() - 53)
    here, there = (from_bits(number + by, monkeypatch) for by in (0, step))
    assert here == pytest.approx(place, rel=1e-9)
    assert -(2.0**-50) <= here - there <= 2.0**-46
    last = (number >> 126) << 126 | (2**126 - 1)  # after it the first word changes
    if place < 9:
        assert abs(from_bits(last, monkeypatch) - from_bits(last + 1, monkeypatch)) <= 2.0**-46


def test_tails_of_private_noise_have_no_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    """About 230 numbers beyond 3.5 deviations: Φ(−|z|)·2⁵³ is no whole number and a half, but anything."""
    monkeypatch.setattr("discreet.regression._doubles.os.urandom", np.random.default_rng(5).bytes)
    size = np.abs(PrivateNoise().normals((500_000,)))
    tail = size[size > 3.5]
    assert len(tail) > 100
    assert ks_1samp(norm.sf(tail) * 2.0**53 % 1, lambda x: x).pvalue > ALPHA


def test_a_forked_or_second_source_repeats_nothing() -> None:
    assert len(np.unique(np.concatenate([PrivateNoise().normals((50,)) for _ in range(4)]))) == 200


# Samplers.


def test_a_chain_takes_all_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def counted(signed: np.ndarray, weights: np.ndarray) -> np.ndarray:
        seen.append(1)
        return loss_gradient(signed, weights)

    monkeypatch.setattr("discreet.regression._chain.loss_gradient", counted)
    for made in (make(n=50, dimension=2), make(n=50, dimension=2, steps=1)):
        seen.clear()
        langevin(made, rows_of(50, 2), SeededNoise(0))
        assert sum(seen) == made.steps


def test_a_chain_starts_from_the_prior() -> None:
    """After one step of next to no length the state is w₀: 6 standard errors of a deviation of 1/2."""
    made = replace(make(n=50, dimension=4, prior_precision=4.0, steps=1), draws=5000, step=1e-12)
    found = langevin(made, rows_of(50, 4), SeededNoise(2))
    assert found.std() == pytest.approx(0.5, rel=6 / math.sqrt(2 * found.size))


def test_rows_that_are_not_those_of_the_design_are_refused() -> None:
    made = make(n=50, dimension=2)
    for rows in (rows_of(49, 2), 2 * rows_of(50, 2)):
        with pytest.raises(NotPrivateError, match="clipped to its norm bound"):
            langevin(made, rows, SeededNoise(1))


def test_a_chain_does_the_same_work_whatever_the_data() -> None:
    made = replace(make(n=50, dimension=2), steps=30)
    seen = []

    class Counted(SeededNoise):
        def normals(self, shape: tuple[int, ...]) -> np.ndarray:
            calls.append(shape)
            return super().normals(shape)

    for signed in (rows_of(50, 2), np.zeros((50, 2)), np.tile([[1.0, 0.0]], (50, 1))):
        calls: list[tuple[int, ...]] = []
        langevin(made, signed, Counted(1))
        seen.append(calls)
    assert seen[0] == seen[1] == seen[2]


def test_neighbours_with_the_same_noise_stay_within_the_contraction() -> None:
    """w_T moves by at most Δ(1 − k^T)/m when one record is replaced and the noise is kept."""
    signed = rows_of(40, 3)
    made = replace(make(n=40, dimension=3, epsilon=20), draws=50)
    assert made.steps > 20
    for replaced in (np.array([1.0, 0, 0]), -signed[0], np.array([0, -0.6, 0.8])):
        other = signed.copy()
        other[0] = replaced
        a, b = (langevin(made, rows, SeededNoise(9)) for rows in (signed, other))
        bound = math.sqrt(made.sensitivity_squared) / made.precision
        assert 0 < np.linalg.norm(a - b, axis=1).max() <= bound


def test_clipping_never_exceeds_the_bound() -> None:
    rows = np.concatenate(
        [RNG.normal(size=(300, 7)) * 10.0 ** RNG.integers(-3, 6, (300, 1)), np.zeros((1, 7))]
    )
    inside = clip_rows(rows, 0.3)
    for row in inside:
        assert sum(Fraction(x) ** 2 for x in row.tolist()) <= Fraction(0.3) ** 2
    short = np.linalg.norm(rows, axis=1) < 0.29
    assert (inside[short] == rows[short]).all()
    assert np.allclose(clip_rows(np.array([[3e200, 4e200]]), 1.0), [[0.6, 0.8]]), "its square is infinite"
    assert np.allclose(clip_rows(np.array([[3e-190, 4e-190]]), 5e-200) * 1e200, [[3, 4]]), "its square is 0"
    assert (clip_rows(np.array([[1e180, 1.0]]), 1e190) == [[1e180, 1.0]]).all()


# Names that need scikit-learn.


def test_without_scikit_learn_the_error_names_the_extra() -> None:
    program = (
        "import sys\nsys.modules['sklearn'] = None\nimport discreet\nimport discreet.regression._chain\n"
        "from discreet.errors import DiscreetError\n"
        "try:\n    discreet.PrivateLogisticRegression\n"
        "except DiscreetError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "PrivateLogisticRegression" in done.stdout
    assert "pip install '.[glm]'" in done.stdout


def test_public_names() -> None:
    for name in discreet.regression.__all__:
        assert (getattr(discreet, name).__doc__ or "").strip()
        assert name in dir(discreet)
    with pytest.raises(AttributeError):
        _ = discreet.regression.NoSuchName


def test_release_round_trip_and_damage() -> None:
    release = LogisticRelease(
        True,
        "PrivateLogisticRegression",
        ("no", "yes"),
        np.array([[[1.0, -0.5]], [[0.25, 0.0]]]),
        np.array([[0.125], [0.0]]),
        1.0,
        discreet.Guarantee(
            Fraction(2),
            exact_delta=Fraction(1, 10**6),
            basis=EXACT_BASIS,
            assumptions=("n = 10, the number of rows, is public",),
            curve=Gaussian(Fraction(1, 20)),
        ),
        {
            "n": 10,
            "sampler": "rejection",
            "weight": 0.125,
            "prior_precision": 4.0,
            "steps": None,
            "step_size": None,
            "draws": 2,
        },
        ("a", "b"),
    )
    text = release.to_json()
    again = LogisticRelease.from_json(text)
    assert again.to_json() == text
    rows = RNG.normal(size=(5, 2))
    assert np.array_equal(again.probabilities(rows, scaled=True), release.probabilities(rows, scaled=True))
    assert "for all 2 draws together" in str(release)
    inside = clip_rows(rows, 1.0)
    each = [
        1 / (1 + np.exp(-(inside @ w[0] + b)))
        for w, b in zip(release.coefficients, release.intercepts, strict=True)
    ]
    assert np.allclose(release.probabilities(rows, scaled=True)[:, 1], np.mean(each, axis=0))
    with pytest.raises(CorruptReleaseError, match="edited"):
        LogisticRelease.from_json(text.replace("0.125", "0.25"))
    content = json.loads(text)["release"]
    del content["intercepts"]
    from discreet._documents.base import write_document

    with pytest.raises(CorruptReleaseError, match="is missing or malformed"):
        LogisticRelease.from_json(write_document("discreet/logistic", 1, content))


def test_errors_are_typed() -> None:
    assert issubclass(DataError, ValueError)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make()
