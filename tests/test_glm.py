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
from scipy.stats import ks_1samp, ks_2samp, norm

import discreet
from discreet import DataError, InvalidInput, NoiseWarning, PrivacyWarning
from discreet.privacy.composite_curves import Inexact
from discreet.privacy.curves import Curve, Gaussian
from discreet.regression import design as designs
from discreet.regression import samplers
from discreet.regression.design import DrawDesign, acceptance_floor, chain_mu_squared, design
from discreet.regression.doubles import PrivateNoise, SeededNoise
from discreet.regression.kernel import NumpyKernel, hessian, kernel, loss, loss_gradient, mode
from discreet.regression.reference import reference_draws
from discreet.regression.release import LogisticRelease, clipped
from discreet.regression.samplers import draw, langevin, proximal
from statistical.goodness import ALPHA

RNG = np.random.default_rng(6)


def rows_of(n: int, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = clipped(rng.normal(size=(n, d)), 1.0)
    slope = np.linspace(3, -1, d)
    return rows * np.where(rng.random(n) < 1 / (1 + np.exp(-rows @ slope)), 1.0, -1.0)[:, None]


def make(sampler: str = "langevin", method: str = "diffuse", **changes: Any) -> DrawDesign:
    settings: dict[str, Any] = {
        "method": method,
        "sampler": sampler,
        "n": 500,
        "dimension": 5,
        "norm_squared": Fraction(1),
        "prior_precision": 1.0,
        "epsilon": 1,
        "delta": "1e-6",
    }
    return design(**{**settings, **changes})


# Calibration.


@pytest.mark.parametrize(
    "target", [{"epsilon": 1, "delta": "1e-6"}, {"epsilon": "0.1", "delta": 1e-8}], ids=str
)
@pytest.mark.parametrize("method", ["diffuse", "concentrated"])
@pytest.mark.parametrize("sampler", ["langevin", "rejection", "proximal"])
def test_target_is_met_and_not_overshot(sampler: str, method: str, target: dict[str, Any]) -> None:
    made = make(sampler, method, **target)
    reached, wanted = made.guarantee.known.delta_at(float(target["epsilon"])), float(target["delta"])
    # A chain is a little wider than the posterior for which ρ and m are made, and so a little more private.
    assert (0.6 if sampler == "langevin" else 0.99) * wanted < reached <= wanted
    assert made.guarantee.exact_delta == Fraction(str(target["delta"]))
    assert (made.precision == 1.0) == (method == "diffuse")
    assert (made.weight == 1.0) == (method == "concentrated")
    assert designs.FLOATS in made.guarantee.assumptions


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
    exact = make("rejection").guarantee.curve
    assert exact is not None
    assert squares[-1] <= exact.gaussian_squared  # type: ignore[operator]


def test_draws_and_models_share_the_budget() -> None:
    one, many = make("rejection"), make("rejection", draws=4, models=3)
    assert many.weight == pytest.approx(one.weight / math.sqrt(12), rel=1e-9)
    assert many.guarantee.mu == pytest.approx(one.guarantee.mu, rel=1e-9)
    assert one.guarantee.curve == Gaussian(one.sensitivity_squared / Fraction(one.precision))
    assert one.sensitivity_squared == 4 * Fraction(one.weight) ** 2 * one.norm_squared
    chain = make(draws=2, models=3)
    each = chain_mu_squared(
        chain.sensitivity_squared, Fraction(chain.precision), Fraction(chain.step), chain.steps
    )
    assert chain.guarantee.curve == Gaussian(6 * each)
    proximal = make("proximal", draws=2, models=2)
    curve = proximal.guarantee.curve
    assert isinstance(curve, Inexact)
    assert curve.tau == 4 * proximal.tau
    assert curve.delta_at(1) <= 1e-6


def variation(made: DrawDesign, distance: float) -> float:
    """½ W/√η (1 + mη)^{−K} after K + 1 steps, from the formula."""
    k = made.steps - 1
    return distance / (2 * math.sqrt(made.step)) * math.exp(-k * math.log1p(made.precision * made.step))


@pytest.mark.parametrize(
    "changes",
    [{}, {"dimension": 400, "draws": 3}, {"norm_squared": Fraction(9), "prior_precision": 4.0}],
    ids=str,
)
def test_the_proximal_chain_is_as_long_as_its_total_variation_needs(changes: dict[str, Any]) -> None:
    made = make("proximal", **changes)
    needed = variation(made, math.sqrt(made.dimension / made.precision))
    assert needed <= float(made.tau) <= 1.03 * needed
    assert made.draws * made.models * float(made.tau) * (1 + math.e) <= 1e-9  # a thousandth of δ
    assert made.step == pytest.approx(4 / (made.weight * made.n * float(made.norm_squared)))


@pytest.mark.parametrize("norm_squared", [Fraction(1, 100), Fraction(1), Fraction(10_000)], ids=str)
@pytest.mark.parametrize("precision", [0.5, 40.0])
def test_steps_are_those_that_the_proof_covers(norm_squared: Fraction, precision: float) -> None:
    """η ≤ 2/(m + M), M = m + ρnc²/4, by default, at the limit, and not a hair beyond."""
    settings: dict[str, Any] = {"norm_squared": norm_squared, "prior_precision": precision}
    made = make(**settings)
    most = 2 / (2 * Fraction(made.precision) + Fraction(made.weight) * made.n * norm_squared / 4)
    assert Fraction(made.step) <= most
    edge = float(most) * (1 - 1e-12)
    assert make(**settings, step_size=edge, steps=3).step == edge
    with pytest.raises(InvalidInput, match="above 2/"):
        make(**settings, step_size=edge * (1 + 1e-11), steps=3)


@pytest.mark.parametrize("precision", [1e-5, 0.7, 4.0, 1e6])
def test_the_grid_is_a_power_of_two_of_the_prior_s_width(precision: float) -> None:
    made = replace(make("rejection"), precision=precision)
    assert 2.0**-31 < float(made.grid) * math.sqrt(precision) <= 2.0**-30
    assert math.log2(made.grid) % 1 == 0


def test_rejection_that_may_never_end_is_said_beforehand() -> None:
    with pytest.warns(RuntimeWarning, match="may take very long"):
        assert make("rejection", n=40_000, dimension=15).sampler == "rejection"
    assert make("auto", n=40_000, dimension=15).sampler == "langevin"


def test_settings_of_a_chain_choose_the_chain() -> None:
    assert make("auto", n=20, steps=7).steps == 7
    assert make("auto", n=20, step_size=0.01).sampler == "langevin"


def test_auto_goes_by_public_values() -> None:
    assert make("auto", n=20).sampler == "rejection"
    assert make("auto", n=100_000).sampler == "langevin"
    assert make("auto", "concentrated", n=100).sampler == "rejection"


def test_the_floor_of_the_acceptance_holds() -> None:
    for seed in range(5):
        signed = rows_of(60, 4, seed)
        weight, precision = 0.5, 1.0
        z, _ = mode(signed, weight, precision, 1e-9)
        w = z[:, None] + RNG.normal(size=(4, 20_000))
        gap = loss(signed, w) - loss(signed, z[:, None]) - loss_gradient(np, signed, z) @ (w - z[:, None])
        assert (gap > -1e-9).all()
        assert np.exp(-weight * gap).mean() > acceptance_floor(weight, precision, 60, 4, Fraction(1))


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
        ({"method": "diffused"}, "method='diffused' must be one of 'diffuse'"),
        ({"sampler": "nuts"}, "sampler='nuts' must be one of"),
        ({"draws": 0}, "draws=0 must be at least 1"),
        ({"steps": 0}, "steps=0"),
        ({"steps": 5, "sampler": "rejection"}, "belong to sampler='langevin'"),
        ({"step_size": 1.0}, "above 2/"),
        ({"step_size": "adaptive"}, "fixed beforehand"),
        ({"order": 10, "delta": None, "sampler": "proximal"}, "no Rényi guarantee"),
        ({"epsilon": 500, "sampler": "proximal"}, "beyond the proximal sampler"),
        ({"prior_precision": 1e-9}, "is too weak"),
    ],
    ids=str,
)
def test_bad_settings(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        make(**changes)


def test_a_prior_that_is_too_weak_is_told_what_reaches_the_target() -> None:
    with pytest.raises(InvalidInput, match=r"prior_precision=71\.\d+ reaches it") as caught:
        make("rejection", "direct")
    reached = float(str(caught.value).split("prior_precision=")[2].split()[0])
    assert make("rejection", "direct", prior_precision=reached * (1 + 1e-5)).weight == 1.0
    with pytest.raises(InvalidInput, match="too weak"):
        make("rejection", "direct", prior_precision=reached * (1 - 1e-4))
    with pytest.raises(InvalidInput, match=r"prior_precision=\S+ reaches the target") as caught:
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


def test_gradient_is_that_of_the_loss() -> None:
    signed, w = rows_of(300, 4), RNG.normal(size=(4, 3))
    step = 1e-6
    for i in range(4):
        shift = np.eye(4)[:, [i]] * step
        numeric = (loss(signed, w + shift) - loss(signed, w - shift)) / (2 * step)
        assert np.allclose(loss_gradient(np, signed, w)[i], numeric, atol=1e-6)
    assert np.allclose(NumpyKernel(signed).gradient(w), loss_gradient(np, signed, w), rtol=1e-12)
    wide = rows_of(3000, 90)
    at = RNG.normal(size=(90, 2))
    assert np.allclose(NumpyKernel(wide).gradient(at), loss_gradient(np, wide, at), rtol=1e-12)
    extreme = loss_gradient(np, signed, 1e6 * w)
    assert np.isfinite(extreme).all()


def test_mode_and_hessian() -> None:
    signed = rows_of(200, 5)
    found, size = mode(signed, 0.7, 0.3, 1e-10)
    gradient = 0.7 * loss_gradient(np, signed, found) + 0.3 * found
    assert np.linalg.norm(gradient) == pytest.approx(size, abs=1e-12)
    assert size <= 1e-10
    step = 1e-5
    numeric = [
        (loss_gradient(np, signed, found + step * unit) - loss_gradient(np, signed, found - step * unit))
        / (2 * step)
        for unit in np.eye(5)
    ]
    assert np.allclose(hessian(signed, found, 0.7, 0.3), 0.7 * np.array(numeric) + 0.3 * np.eye(5), atol=1e-6)


@pytest.mark.parametrize("backend", ["numpy", "jax"])
def test_a_step_is_the_one_of_the_proof(backend: str) -> None:
    """w − η(ρ∇L(w) + m w) + √(2η) ξ, written out record by record; the noise has the whole of its scale."""
    if backend == "jax":
        pytest.importorskip("jax", reason="JAX is an extra: pip install 'discreet[gpu]'")
    rng = np.random.default_rng(1)
    rows, w, normals = rng.normal(size=(7, 3)), rng.normal(size=(3, 2)), rng.normal(size=(2, 3, 2))
    weight, precision, step = 0.3, 2.0, 0.05
    found = kernel(backend, rows).advance(w, normals, weight, precision, step)
    for noise in normals:
        slope = -sum(np.outer(v, 1 / (1 + np.exp(v @ w))) for v in rows)
        w = w - step * (weight * slope + precision * w) + math.sqrt(2 * step) * noise
    assert np.allclose(found, w, rtol=1e-12, atol=1e-12)


def test_jax_gives_the_same_results() -> None:
    pytest.importorskip("jax", reason="JAX is an extra: pip install 'discreet[gpu]'")
    signed, w = rows_of(400, 6), RNG.normal(size=(6, 3))
    normals = RNG.normal(size=(50, 6, 3))
    own, other = kernel("numpy", signed), kernel("jax", signed)
    assert np.abs(own.gradient(w) - other.gradient(w)).max() < 1e-10
    assert (
        np.abs(own.advance(w, normals, 0.1, 1, 0.02) - other.advance(w, normals, 0.1, 1, 0.02)).max() < 1e-10
    )


def test_unknown_backend() -> None:
    with pytest.raises(InvalidInput, match="backend='torch' must be one of 'numpy', 'jax'"):
        kernel("torch", np.ones((2, 1)))


def test_private_noise_is_normal_and_uniform(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a fixed stream of bits in place of the operating system's; two tests at ALPHA."""
    stream = np.random.default_rng(11)
    monkeypatch.setattr("discreet.regression.doubles.os.urandom", stream.bytes)
    noise = PrivateNoise()
    normals = noise.normals((1000, 200)).ravel()
    assert ks_1samp(normals, norm.cdf).pvalue > ALPHA / 2
    assert ks_1samp(1.04 * normals, norm.cdf).pvalue < ALPHA / 2, "a wrong scale is found"
    uniforms = noise.uniforms((100_000,))
    assert 0 < uniforms.min() <= uniforms.max() < 1
    assert ks_1samp(uniforms, lambda x: x).pvalue > ALPHA / 2
    monkeypatch.setattr("discreet.regression.doubles.os.urandom", lambda size: b"\xff" * size)
    assert np.isfinite(noise.normals((2,))).all()
    assert (noise.uniforms((2,)) < 1).all()
    monkeypatch.setattr("discreet.regression.doubles.os.urandom", lambda size: b"\x00" * size)
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

    monkeypatch.setattr("discreet.regression.doubles.os.urandom", take)
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
    monkeypatch.setattr("discreet.regression.doubles.os.urandom", np.random.default_rng(5).bytes)
    size = np.abs(PrivateNoise().normals((500_000,)))
    tail = size[size > 3.5]
    assert len(tail) > 100
    assert ks_1samp(norm.sf(tail) * 2.0**53 % 1, lambda x: x).pvalue > ALPHA


def test_a_forked_or_second_source_repeats_nothing() -> None:
    assert len(np.unique(np.concatenate([PrivateNoise().normals((50,)) for _ in range(4)]))) == 200


# Samplers.


def cdf_of(signed: np.ndarray, weight: float, precision: float, radius: float = math.inf) -> Any:
    axis = np.linspace(max(-radius, -9), min(radius, 9), 20_001)
    density = np.exp(-weight * loss(signed, axis[None]) - precision / 2 * axis**2)
    steps = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
    return lambda x: np.interp(x, axis, steps / steps[-1])


@pytest.mark.parametrize("radius", [math.inf, 0.8])
@pytest.mark.parametrize("sampler", ["rejection", "proximal"])
def test_exact_samplers_against_quadrature(sampler: str, radius: float) -> None:
    """One test at ALPHA each; the same draws reject a posterior with twice the weight on the data."""
    signed = rows_of(80, 1)
    made = replace(
        make(sampler, n=80, dimension=1), draws=20_000 if sampler == "rejection" else 3000, radius=radius
    )
    assert made.steps < 400
    found = draw(made, signed, SeededNoise(3))[:, 0]
    assert np.abs(found).max() <= radius + 1e-9
    assert ks_1samp(found, cdf_of(signed, made.weight, made.precision, radius)).pvalue > ALPHA
    if radius == math.inf:
        assert ks_1samp(found, cdf_of(signed, 2 * made.weight, made.precision)).pvalue < ALPHA


@pytest.mark.parametrize("radius", [0.05, 0.3])
@pytest.mark.parametrize("sampler", ["rejection", pytest.param("proximal", marks=pytest.mark.slow)])
def test_a_ball_that_the_data_point_out_of_is_drawn_from(sampler: str, radius: float) -> None:
    """100 records that agree: the mode is beyond 2. One test at ALPHA each; another ball is found."""
    signed = np.ones((100, 1))
    made = replace(make(sampler, n=100, dimension=1, epsilon=3), draws=1000, radius=radius)
    assert mode(signed, made.weight, made.precision, 1e-9)[0] > 2
    made = replace(made, steps=min(made.steps, 60))
    found = draw(made, signed, SeededNoise(3))[:, 0]
    assert np.abs(found).max() <= radius
    assert ks_1samp(found, cdf_of(signed, made.weight, made.precision, radius)).pvalue > ALPHA
    assert ks_1samp(found, cdf_of(signed, made.weight, made.precision, 1.5 * radius)).pvalue < ALPHA


@pytest.mark.parametrize("pull", [0.0, 40.0])
def test_a_small_ball_in_many_dimensions(pull: float) -> None:
    """Without data, on ‖w‖ ≤ R ≪ 1 in 20 dimensions the law is nearly uniform, so (‖w‖/R)²⁰ is; at ALPHA.

    With data that pull along one axis, its coordinate has the marginal density e^{hx}(R² − x²)^{19/2}.
    """
    d, radius = 20, 0.01
    signed = np.zeros((60, d))
    signed[:, 0] = 1.0 if pull else 0.0
    made = replace(make("rejection", n=60, dimension=d), draws=1000, radius=radius)
    if pull:
        made = replace(made, weight=pull / (30 * radius))
    found = draw(replace(made, precision=1e-3), signed, SeededNoise(8)) / radius
    lengths = np.linalg.norm(found, axis=1)
    assert lengths.max() <= 1 + 1e-6
    if not pull:
        assert ks_1samp(lengths**d, lambda x: x).pvalue > ALPHA
        return
    axis = np.linspace(-1, 1, 4001)
    density = np.exp(pull * axis) * (1 - axis**2) ** ((d - 1) / 2)
    shape = np.cumsum(density) / density.sum()
    assert ks_1samp(found[:, 0], lambda x: np.interp(x, axis, shape)).pvalue > ALPHA


@pytest.mark.parametrize("sampler", ["rejection", "proximal"])
def test_a_sampler_that_keeps_nothing_stops(sampler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("discreet.regression.samplers._MOST_CELLS", 100_000)

    class Never(SeededNoise):
        def uniforms(self, shape: tuple[int, ...]) -> np.ndarray:
            return np.full(shape, np.inf)

    with pytest.raises(discreet.DiscreetError, match="was stopped"):
        draw(make(sampler, n=50, dimension=2), rows_of(50, 2), Never(0))


def test_a_chain_takes_all_its_steps() -> None:
    seen: list[int] = []
    for made, run in (
        (make(n=50, dimension=2), langevin),
        (make(n=50, dimension=2, steps=1), langevin),
        (make("proximal", n=50, dimension=2), proximal),
    ):
        seen.clear()
        run(made, rows_of(50, 2), SeededNoise(0), advance=seen.append)
        assert sum(seen) == made.steps


def test_a_chain_on_a_ball_starts_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Still(SeededNoise):
        def normals(self, shape: tuple[int, ...]) -> np.ndarray:
            return np.zeros(shape)

    starts: list[np.ndarray] = []
    monkeypatch.setattr(samplers, "mode", lambda *_: (np.array([30.0, 40.0]), 0.0))
    monkeypatch.setattr(samplers, "_inner", lambda made, signed, noise, y, *_: starts.append(y) or y)
    proximal(replace(make("proximal", n=50, dimension=2), radius=0.5), rows_of(50, 2), Still(0))
    assert np.linalg.norm(starts[0][:, 0]) <= 0.5 * (1 + 1e-12)


def test_a_settled_chain_with_small_steps_has_the_posterior_law() -> None:
    signed = rows_of(80, 1)
    made = replace(make(n=80, dimension=1, step_size=0.01, steps=800), draws=2000)
    found = draw(made, signed, SeededNoise(4))[:, 0]
    assert ks_1samp(found, cdf_of(signed, made.weight, made.precision)).pvalue > ALPHA


def test_samplers_agree_in_every_principal_direction() -> None:
    """Three directions, six pairs, 2,000 draws each: one test at ALPHA for all of them."""
    signed = rows_of(60, 3, 5)
    shared: dict[str, Any] = {"n": 60, "dimension": 3, "epsilon": 3}
    laws = {
        "langevin": draw(
            replace(make(**shared, step_size=0.01, steps=700), draws=2000), signed, SeededNoise(1)
        ),
        "rejection": draw(replace(make("rejection", **shared), draws=2000), signed, SeededNoise(2)),
        "proximal": draw(replace(make("proximal", **shared), draws=2000), signed, SeededNoise(3)),
        "reference": reference_draws(
            signed, make(**shared).weight, 1.0, SeededNoise(4), chains=2000, warm_up=40
        )[:, 0],
    }
    weight = make(**shared).weight
    _, axes = np.linalg.eigh(hessian(signed, mode(signed, weight, 1.0, 1e-9)[0], weight, 1.0))
    names = sorted(laws)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    p = [ks_2samp(laws[a] @ axis, laws[b] @ axis).pvalue for a, b in pairs for axis in axes.T]
    assert min(p) * len(p) > ALPHA
    center = laws["proximal"].mean(axis=0)
    wrong = center + 1.5 * (laws["proximal"] - center)
    assert min(ks_2samp(laws["rejection"] @ axis, wrong @ axis).pvalue for axis in axes.T) * 3 < ALPHA


def test_moments_of_a_coarse_chain_are_within_the_stated_bias() -> None:
    """Variance between 1 and 1/(1 − ηM/2) of the exact one in each principal direction (Gaussian curvature).

    8,000 draws each; the error of a ratio of variances is √(4/8,000), the margins are at ALPHA for all.
    """
    signed = rows_of(100, 3, 8)
    made = make(n=100, dimension=3, epsilon=8)
    assert made.step == pytest.approx(min(1 / (2 * made.curvature), 0.02))
    number = 8_000
    chain = draw(replace(made, draws=number), signed, SeededNoise(5))
    exact = draw(
        replace(make("rejection", n=100, dimension=3, epsilon=8), draws=number), signed, SeededNoise(6)
    )
    margin = float(norm.isf(ALPHA / 12)) * math.sqrt(4 / number)
    center, _ = mode(signed, made.weight, 1.0, 1e-9)
    _, axes = np.linalg.eigh(hessian(signed, center, made.weight, 1.0))
    most = 1 / (1 - made.step * made.curvature / 2)
    for axis in axes.T:
        value = (exact @ axis).var()
        ratio = (chain @ axis).var() / value
        assert 1 - margin < ratio < most * (1 + margin)
        shift = abs((chain - exact).mean(axis=0) @ axis) / math.sqrt(value * 2 / number)
        assert shift < norm.isf(ALPHA / 12) + 0.02 * math.sqrt(number / 2)


def test_a_chain_starts_from_the_prior() -> None:
    """After one step of next to no length the state is w₀: 6 standard errors of a deviation of 1/2."""
    made = replace(make(n=50, dimension=4, prior_precision=4.0, step_size=1e-12, steps=1), draws=5000)
    found = draw(made, rows_of(50, 4), SeededNoise(2))
    assert found.std() == pytest.approx(0.5, rel=6 / math.sqrt(2 * found.size))


def test_rows_that_are_not_those_of_the_design_are_refused() -> None:
    made = make(n=50, dimension=2)
    for rows in (rows_of(49, 2), 2 * rows_of(50, 2)):
        with pytest.raises(discreet.NotPrivateError, match="clipped to its norm bound"):
            draw(made, rows, SeededNoise(1))


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
        a, b = (draw(made, rows, SeededNoise(9)) for rows in (signed, other))
        bound = math.sqrt(made.sensitivity_squared) / made.precision
        assert 0 < np.linalg.norm(a - b, axis=1).max() <= bound


def test_clipping_never_exceeds_the_bound() -> None:
    rows = np.concatenate(
        [RNG.normal(size=(300, 7)) * 10.0 ** RNG.integers(-3, 6, (300, 1)), np.zeros((1, 7))]
    )
    inside = clipped(rows, 0.3)
    for row in inside:
        assert sum(Fraction(x) ** 2 for x in row.tolist()) <= Fraction(0.3) ** 2
    short = np.linalg.norm(rows, axis=1) < 0.29
    assert (inside[short] == rows[short]).all()
    assert np.allclose(clipped(np.array([[3e200, 4e200]]), 1.0), [[0.6, 0.8]]), "its square is infinite"
    assert np.allclose(clipped(np.array([[3e-190, 4e-190]]), 5e-200) * 1e200, [[3, 4]]), "its square is 0"
    assert (clipped(np.array([[1e180, 1.0]]), 1e190) == [[1e180, 1.0]]).all()


# Names that need scikit-learn.


def test_without_scikit_learn_the_error_names_the_extra() -> None:
    program = (
        "import sys\nsys.modules['sklearn'] = None\nimport discreet\nimport discreet.regression.samplers\n"
        "try:\n    discreet.PrivateLogisticRegression\n"
        "except discreet.DiscreetError as error:\n    print(error)\n"
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
        discreet.Guarantee(Fraction(1), exact_delta=Fraction(1, 10**6), curve=Gaussian(Fraction(1, 20))),
        {"n": 10, "steps": None},
        ("a", "b"),
    )
    text = release.to_json()
    again = LogisticRelease.from_json(text)
    assert again.to_json() == text
    rows = RNG.normal(size=(5, 2))
    assert np.array_equal(again.probabilities(rows), release.probabilities(rows))
    assert "for all 2 draws together" in str(release)
    inside = clipped(rows, 1.0)
    each = [
        1 / (1 + np.exp(-(inside @ w[0] + b)))
        for w, b in zip(release.coefficients, release.intercepts, strict=True)
    ]
    assert np.allclose(release.probabilities(rows)[:, 1], np.mean(each, axis=0))
    with pytest.raises(discreet.CorruptReleaseError, match="edited"):
        LogisticRelease.from_json(text.replace("0.125", "0.25"))
    content = json.loads(text)["release"]
    del content["intercepts"]
    from discreet.documents.base import write_document

    with pytest.raises(discreet.CorruptReleaseError, match="lacks a part"):
        LogisticRelease.from_json(write_document("discreet/logistic", 1, content))


def test_errors_are_typed() -> None:
    assert issubclass(DataError, ValueError)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make("auto")
