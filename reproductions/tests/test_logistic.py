"""Exact draws and the baselines of the paper: against quadrature, 200 bits, and each other."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from scipy.stats import chi2, ks_1samp, ks_2samp, norm
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer

from discreet._randomness.entropy import SeededEntropy
from discreet.errors import DiscreetError, InvalidInputError, NoiseWarning, PrivacyWarning
from discreet.privacy.composite_curves import Inexact
from discreet.privacy.curves import Gaussian
from discreet.regression._chain import (
    FLOATS,
    DrawDesign,
    acceptance_floor,
    draw_design,
    langevin,
    loss_gradient,
)
from discreet.regression._doubles import SeededNoise
from discreet.regression.release import clip_rows
from discreet_reproductions.logistic import exact as samplers
from discreet_reproductions.logistic.baselines import (
    OPSLogisticRegression,
    OutputPerturbationLogisticRegression,
    ReferenceLogisticPosterior,
    found_share,
    gradient_bound,
)
from discreet_reproductions.logistic.exact import (
    EXACT_NOISE,
    ExactDesign,
    draw,
    exact_design,
    proximal,
)
from discreet_reproductions.logistic.modes import hessian, loss, mode
from discreet_reproductions.logistic.reference import reference_draws
from statistical.goodness import ALPHA

RNG = np.random.default_rng(6)
TARGET: dict[str, Any] = {"epsilon": 3, "delta": "1e-6"}
DESIGN: dict[str, Any] = {
    **TARGET, "method": "diffused", "sampler": "rejection", "dimension": 3, "norm_squared": Fraction(1),
    "prior_precision": 1.3,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        warnings.simplefilter("ignore", NoiseWarning)
        yield


@pytest.fixture(scope="module")
def cancer() -> tuple[np.ndarray, np.ndarray]:
    rows, labels = load_breast_cancer(return_X_y=True)
    highs = np.ceil(rows.max(axis=0) * 10) / 10  # a test may look; a private program declares
    return (2 * rows / highs - 1) / math.sqrt(30), labels


def rows_of(n: int, d: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = clip_rows(rng.normal(size=(n, d)), 1.0)
    slope = np.linspace(3, -1, d)
    return rows * np.where(rng.random(n) < 1 / (1 + np.exp(-rows @ slope)), 1.0, -1.0)[:, None]


def make(sampler: str = "rejection", method: str = "diffused", **changes: Any) -> ExactDesign:
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
    return exact_design(**{**settings, **changes})


def chain(step: float, steps: int, **changes: Any) -> DrawDesign:
    """The package's own chain, with other steps than its own."""
    settings = {"method": "diffused", "prior_precision": 1.0, "epsilon": 1, "delta": "1e-6"}
    made = draw_design(**{**settings, "norm_squared": Fraction(1), **changes})  # type: ignore[arg-type]
    return replace(made, step=step, steps=steps)


def curvature(made: DrawDesign) -> float:
    """M = m + ρnc²/4."""
    return made.precision + made.weight * made.n * float(made.norm_squared) / 4


@pytest.mark.parametrize("target", [{}, {"epsilon": "0.1", "delta": 1e-8}], ids=str)
@pytest.mark.parametrize("method", ["diffused", "concentrated"])
@pytest.mark.parametrize("sampler", ["rejection", "proximal"])
def test_target_is_met_and_not_overshot(sampler: str, method: str, target: dict[str, Any]) -> None:
    made = make(sampler, method, **target)
    wanted = float(target.get("delta", "1e-6"))
    assert 0.99 * wanted < made.guarantee.effective_curve.delta_at(float(target.get("epsilon", 1))) <= wanted
    assert FLOATS in made.guarantee.assumptions


def test_draws_and_models_share_the_budget() -> None:
    one, many = make(), make(draws=4, models=3)
    assert many.weight == pytest.approx(one.weight / math.sqrt(12), rel=1e-9)
    assert many.guarantee.mu == pytest.approx(one.guarantee.mu, rel=1e-9)
    assert one.guarantee.curve == Gaussian(one.sensitivity_squared / Fraction(one.precision))
    near = make("proximal", draws=2, models=2)
    curve = near.guarantee.curve
    assert isinstance(curve, Inexact)
    assert curve.tau == 4 * near.tau
    assert curve.delta_at(1) <= 1e-6


def test_settings_that_a_sampler_has_not_are_refused() -> None:
    for changes, words in (
        ({"order": 10, "delta": None, "sampler": "proximal"}, "no Rényi guarantee"),
        ({"epsilon": 500, "sampler": "proximal"}, "beyond the proximal sampler"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            make(**changes)  # type: ignore[arg-type]


def test_reference_is_labelled(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    model = ReferenceLogisticPosterior(draws=400, random_state=0).fit(*cancer)
    assert not model.guarantee_.is_private
    assert not model.release_.private
    assert not ReferenceLogisticPosterior(draws=8).fit(*cancer).release_.private, "without a seed too"
    with pytest.raises(InvalidInputError, match="multiple of chains"):
        ReferenceLogisticPosterior(draws=10, chains=4).fit(*cancer)


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


def variation(made: ExactDesign, distance: float) -> float:
    """½ W/√η (1 + mη)^{−K} after K + 1 steps, from the formula."""
    k = made.steps - 1
    return distance / (2 * math.sqrt(made.step)) * math.exp(-k * math.log1p(made.precision * made.step))


def test_rejection_that_may_never_end_is_said_beforehand() -> None:
    with pytest.warns(RuntimeWarning, match="may take very long"):
        assert make("rejection", n=40_000, dimension=15).sampler == "rejection"


def test_the_floor_of_the_acceptance_holds() -> None:
    for seed in range(5):
        signed = rows_of(60, 4, seed)
        weight, precision = 0.5, 1.0
        z, _ = mode(signed, weight, precision, 1e-9)
        w = z[:, None] + RNG.normal(size=(4, 20_000))
        gap = loss(signed, w) - loss(signed, z[:, None]) - loss_gradient(signed, z) @ (w - z[:, None])
        assert (gap > -1e-9).all()
        assert np.exp(-weight * gap).mean() > acceptance_floor(weight, precision, 60, 4, Fraction(1))


def test_mode_and_hessian() -> None:
    signed = rows_of(200, 5)
    found, size = mode(signed, 0.7, 0.3, 1e-10)
    gradient = 0.7 * loss_gradient(signed, found) + 0.3 * found
    assert np.linalg.norm(gradient) == pytest.approx(size, abs=1e-12)
    assert size <= 1e-10
    step = 1e-5
    numeric = [
        (loss_gradient(signed, found + step * unit) - loss_gradient(signed, found - step * unit)) / (2 * step)
        for unit in np.eye(5)
    ]
    assert np.allclose(hessian(signed, found, 0.7, 0.3), 0.7 * np.array(numeric) + 0.3 * np.eye(5), atol=1e-6)


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
    """Without data, on ‖w‖ ≤ R ≪ 1 in 20 dimensions the distribution is nearly uniform, so (‖w‖/R)²⁰ is; at
    ALPHA.

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
    monkeypatch.setattr("discreet_reproductions.logistic.exact._MOST_CELLS", 100_000)

    class Never(SeededNoise):
        def uniforms(self, shape: tuple[int, ...]) -> np.ndarray:
            return np.full(shape, np.inf)

    with pytest.raises(DiscreetError, match="was stopped"):
        draw(make(sampler, n=50, dimension=2), rows_of(50, 2), Never(0))


def test_a_chain_on_a_ball_starts_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Still(SeededNoise):
        def normals(self, shape: tuple[int, ...]) -> np.ndarray:
            return np.zeros(shape)

    starts: list[np.ndarray] = []
    monkeypatch.setattr(samplers, "mode", lambda *_: (np.array([30.0, 40.0]), 0.0))
    monkeypatch.setattr(samplers, "_inner", lambda made, signed, noise, y, *_: starts.append(y) or y)
    proximal(replace(make("proximal", n=50, dimension=2), radius=0.5), rows_of(50, 2), Still(0))
    assert np.linalg.norm(starts[0][:, 0]) <= 0.5 * (1 + 1e-12)


def test_samplers_agree_in_every_principal_direction() -> None:
    """Three directions, six pairs, 2,000 draws each: one test at ALPHA for all of them."""
    signed = rows_of(60, 3, 5)
    shared: dict[str, Any] = {"n": 60, "dimension": 3, "epsilon": 3}
    distributions = {
        "langevin": langevin(replace(chain(0.01, 700, **shared), draws=2000), signed, SeededNoise(1)),
        "rejection": draw(replace(make("rejection", **shared), draws=2000), signed, SeededNoise(2)),
        "proximal": draw(replace(make("proximal", **shared), draws=2000), signed, SeededNoise(3)),
        "reference": reference_draws(
            signed, make(**shared).weight, 1.0, SeededNoise(4), chains=2000, warm_up=40
        )[:, 0],
    }
    weight = make(**shared).weight
    _, axes = np.linalg.eigh(hessian(signed, mode(signed, weight, 1.0, 1e-9)[0], weight, 1.0))
    names = sorted(distributions)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[i + 1 :]]
    p = [
        ks_2samp(distributions[a] @ axis, distributions[b] @ axis).pvalue for a, b in pairs for axis in axes.T
    ]
    assert min(p) * len(p) > ALPHA
    center = distributions["proximal"].mean(axis=0)
    wrong = center + 1.5 * (distributions["proximal"] - center)
    assert (
        min(ks_2samp(distributions["rejection"] @ axis, wrong @ axis).pvalue for axis in axes.T) * 3 < ALPHA
    )


def test_moments_of_a_coarse_chain_are_within_the_stated_bias() -> None:
    """Variance between 1 and 1/(1 − ηM/2) of the exact one in each principal direction (Gaussian curvature).

    8,000 draws each; the error of a ratio of variances is √(4/8,000), the margins are at ALPHA for all.
    """
    signed = rows_of(100, 3, 8)
    made = draw_design(
        method="diffused", n=100, dimension=3, norm_squared=Fraction(1), prior_precision=1.0, epsilon=8,
        delta="1e-6",
    )  # fmt: skip
    assert made.step == pytest.approx(min(1 / (2 * curvature(made)), 0.02))
    number = 8_000
    chained = langevin(replace(made, draws=number), signed, SeededNoise(5))
    exact = draw(
        replace(make("rejection", n=100, dimension=3, epsilon=8), draws=number), signed, SeededNoise(6)
    )
    margin = float(norm.isf(ALPHA / 12)) * math.sqrt(4 / number)
    center, _ = mode(signed, made.weight, 1.0, 1e-9)
    _, axes = np.linalg.eigh(hessian(signed, center, made.weight, 1.0))
    most = 1 / (1 - made.step * curvature(made) / 2)
    for axis in axes.T:
        value = (exact @ axis).var()
        ratio = (chained @ axis).var() / value
        assert 1 - margin < ratio < most * (1 + margin)
        shift = abs((chained - exact).mean(axis=0) @ axis) / math.sqrt(value * 2 / number)
        assert shift < norm.isf(ALPHA / 12) + 0.02 * math.sqrt(number / 2)


def test_a_settled_chain_with_small_steps_has_the_posterior_distribution() -> None:
    signed = rows_of(80, 1)
    made = replace(chain(0.01, 800, n=80, dimension=1), draws=2000)
    found = langevin(made, signed, SeededNoise(4))[:, 0]
    assert ks_1samp(found, cdf_of(signed, made.weight, made.precision)).pvalue > ALPHA


def test_output_perturbation_moves_by_at_most_its_sensitivity(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    """The same seed for neighbours: what is left is the difference of the minimisers, at most Δ/m."""
    rows, labels = cancer
    model = OutputPerturbationLogisticRegression(**TARGET, prior_precision=0.5, random_state=0)
    first = clone(model).fit(rows, labels)
    bound = math.sqrt(first.design_.sensitivity_squared) / first.design_.precision
    moved = rows.copy()
    for row, label in ((-rows[0], labels[0]), (rows[0] * 0, 1 - labels[0]), (rows[5] * 9, 1 - labels[0])):
        moved[0] = row
        changed = np.concatenate([[label], labels[1:]])
        other = clone(model).fit(moved, changed)
        gap = np.linalg.norm(np.append(other.coef_ - first.coef_, 2 * (other.intercept_ - first.intercept_)))
        assert gap <= bound
    assert first.design_.guarantee.effective_curve.delta_at(3) <= 1e-6
    assert OutputPerturbationLogisticRegression(**TARGET).fit(rows, labels).guarantee_.is_private


def test_output_perturbation_has_noise_of_the_prior_s_width(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    """12,000 numbers, 400 draws: their deviation is 1/√m within 6 standard errors; 5 % off is found."""
    model = OutputPerturbationLogisticRegression(**TARGET, prior_precision=4, draws=400, random_state=0)
    drawn = model.fit(*cancer).coef_draws_[:, 0]
    assert (drawn - drawn.mean(axis=0)).std() == pytest.approx(0.5, rel=6 / math.sqrt(2 * 12_000))


def test_output_perturbation_pays_for_its_minimiser(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    made = OutputPerturbationLogisticRegression(**TARGET, random_state=0).fit(*cancer).design_
    shift = 2 * made.weight * math.sqrt(1.25) * (1 + 2e-6) / made.precision
    assert made.guarantee.mu == pytest.approx(shift * math.sqrt(made.precision), rel=1e-12)
    assert made.guarantee.mu > 2 * made.weight * math.sqrt(1.25) * (1 + 1.9e-6)
    assert EXACT_NOISE in made.guarantee.assumptions
    assert FLOATS not in made.guarantee.assumptions
    assert found_share(10**8) == Fraction(1, 10**4)


def test_a_minimum_that_is_not_found_is_refused(
    cancer: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Away from the minimum by t the gradient is between m·t and M·t: refused from tΔ on, not before."""
    model = OutputPerturbationLogisticRegression(**TARGET, random_state=0)
    made = model.fit(*cancer).design_
    most = 2e-6 * made.weight * math.sqrt(1.25)

    def off(by: float) -> Any:
        def found(*settings: Any) -> tuple[np.ndarray, float]:
            w, size = mode(*settings)
            return w + by * np.eye(len(w))[0], size

        return found

    monkeypatch.setattr("discreet_reproductions.logistic.baselines.mode", off(0.5 * most / curvature(made)))
    model.fit(*cancer)
    monkeypatch.setattr("discreet_reproductions.logistic.baselines.mode", off(1.01 * most / made.precision))
    with pytest.raises(DiscreetError, match="not found"):
        model.fit(*cancer)
    monkeypatch.setattr(
        "discreet_reproductions.logistic.exact.mode",
        lambda signed, *_: (np.zeros(31), 1.01e-3 * math.sqrt(1.3 * 31)),
    )
    with pytest.raises(DiscreetError, match="not found"):
        draw(
            exact_design(**{**DESIGN, "dimension": 31, "sampler": "proximal"}, n=9),
            np.zeros((9, 31)),
            SeededNoise(0),
        )


def test_the_gradient_is_bounded_with_its_rounding() -> None:
    """Against the gradient with 200 bits, at points and rows of several sizes."""
    rng = np.random.default_rng(3)
    for size, scale in ((700, 1.0), (5, 40.0)):
        signed, w = rng.uniform(-1, 1, (size, 3)) / 2, scale * rng.normal(size=3)
        made = replace(exact_design(**DESIGN, n=size), weight=0.7)
        with ctx.workprec(200):
            total = [arb(0), arb(0), arb(0)]
            for row in signed.tolist():
                dot = sum((arb(a) * arb(b) for a, b in zip(row, w.tolist(), strict=True)), arb(0))
                share = arb(made.weight) / (1 + dot.exp())
                total = [part - share * arb(a) for part, a in zip(total, row, strict=True)]
            slope = [part + arb(made.precision) * arb(b) for part, b in zip(total, w.tolist(), strict=True)]
            true = sum((part * part for part in slope), arb(0)).sqrt()
            bound = gradient_bound(signed, w, made)
            assert arb(bound) > true
            assert arb(bound - 1e-9) < true


def test_output_perturbation_has_exact_noise(
    cancer: tuple[np.ndarray, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A private fit takes no noise in doubles. 8 draws of 31 numbers are N(ŵ, 1/m): three tests at ALPHA."""
    monkeypatch.setattr("discreet_reproductions.logistic.baselines.OS_ENTROPY", SeededEntropy(0))
    monkeypatch.setattr("discreet.regression._doubles.os.urandom", None)
    model = OutputPerturbationLogisticRegression(**TARGET, prior_precision=4, draws=8).fit(*cancer)
    drawn = np.append(model.coef_draws_[:, 0], 2 * model.release_.intercepts, axis=1)
    assert model.release_.private
    assert all((Fraction(x) / model.design_.grid).denominator == 1 for x in drawn.ravel().tolist())
    signed = np.hstack([clip_rows(cancer[0], 1.0), np.full((569, 1), 0.5)])
    signed *= np.where(cancer[1], 1, -1)[:, None]
    centre, _ = mode(signed, model.design_.weight, 4.0, 1e-9)
    z = 2 * (drawn - centre).ravel()
    assert ks_1samp(z, norm.cdf).pvalue > ALPHA / 3
    assert ks_1samp(2 * (drawn + centre).ravel(), norm.cdf).pvalue < ALPHA, "another centre is found"
    for tail in (chi2.sf, chi2.cdf):
        assert tail((z**2).sum(), len(z)) > ALPHA / 3
    assert chi2.sf(2.25 * (z**2).sum(), len(z)) < ALPHA, "and another width"


@pytest.mark.parametrize("record", [-1.0, -0.4, 0.3])
def test_ops_is_purely_private_on_a_line(record: float) -> None:
    """Densities on the ball, by quadrature: the log-ratio is at most ε, and nearly half of it is met."""
    rows = np.array([[1.0], [0.5], [-0.2]])
    model = OPSLogisticRegression(epsilon=2, radius=3, fit_intercept=False, classes=(0, 1)).fit(
        rows, [1, 1, 0]
    )
    assert model.guarantee_.exact_epsilon == 2
    assert model.guarantee_.exact_delta == 0
    axis = np.linspace(-3, 3, 4001)

    def log_density(signed: np.ndarray) -> np.ndarray:
        value = -model.design_.weight * loss(signed, axis[None]) - axis**2 / 2
        return value - np.log(np.exp(value).sum())

    signed = rows * np.array([[1], [1], [-1]])
    other = signed.copy()
    other[0] = record
    ratio = np.abs(log_density(signed) - log_density(other)).max()
    assert ratio <= 2
    assert record != -1.0 or ratio > 0.9


def test_ops_draws_stay_in_the_ball(cancer: tuple[np.ndarray, np.ndarray]) -> None:
    model = OPSLogisticRegression(epsilon=1, draws=50, radius=6).fit(*cancer)
    lengths = np.sqrt((model.coef_draws_**2).sum(axis=2) + 4 * model.release_.intercepts**2)
    assert lengths.max() <= 6
    assert model.design_.sampler == "rejection"
    near = OPSLogisticRegression(epsilon=60, sampler="proximal", random_state=0, prior_precision=5.0)
    near.fit(*cancer)
    assert near.design_.guarantee.exact_delta == Fraction(1, 10**9)
    for wrong, words in (
        ({"epsilon": None}, "epsilon is missing"),
        ({"sampler": "langevin"}, "must be 'auto'"),
        ({"sampler": "proximal", "delta": 0}, "needs a delta above 0"),
        ({"sampler": "proximal", "delta": None}, "needs a delta above 0"),
        ({"delta": 5}, "a probability above 0"),
    ):
        with pytest.raises(InvalidInputError, match=words):
            OPSLogisticRegression(**{"epsilon": 1, **wrong}).fit(*cancer)


def test_the_total_variation_of_ops_is_from_anywhere_in_the_ball() -> None:
    rows = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    model = OPSLogisticRegression(
        epsilon=2, delta=1e-9, sampler="proximal", radius=2.5, draws=3, random_state=0
    )
    made = model.fit(rows, rows[:, 0] > 0).design_
    k = made.steps - 1
    tau = 5.0 / (2 * math.sqrt(made.step)) * math.exp(-k * math.log1p(made.precision * made.step))
    assert made.radius == 2.5
    assert tau <= float(made.tau)
    assert 3 * float(made.tau) * (1 + math.exp(2)) <= 1e-9
    assert 3 * 2 * made.weight * math.sqrt(made.norm_squared) * made.radius <= 2, "draws share ε"
    assert made.guarantee.effective_curve.delta_at(2) == pytest.approx(1e-9)


@pytest.mark.parametrize("radius", [0.1, 1.0])
def test_ops_on_a_small_ball_ends(cancer: tuple[np.ndarray, np.ndarray], radius: float) -> None:
    model = OPSLogisticRegression(epsilon="0.1", radius=radius, sampler="rejection", draws=3)
    for labels in (cancer[1], np.ones_like(cancer[1])):
        model.set_params(classes=(0, 1)).fit(cancer[0], labels)
        assert model.guarantee_.exact_delta == 0
        lengths = np.sqrt((model.coef_draws_**2).sum(axis=2) + 4 * model.release_.intercepts**2)
        assert 0.5 * radius < lengths.max() <= radius * (1 + 1e-6)
