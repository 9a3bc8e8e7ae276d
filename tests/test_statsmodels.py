"""At an enormous ε a private regression is the ordinary one of the same clipped data, as in statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from discreet._randomness.entropy import SeededEntropy
from discreet.regression._newton.fit import regression

pd = pytest.importorskip("pandas")
pytest.importorskip("formulaic")
statsmodels = pytest.importorskip("statsmodels.api")

TERMS = "x + I(x**2) + z + C(g)"


def people(family: str, n: int = 6000) -> Any:
    generator = np.random.default_rng(3)
    x, z = generator.uniform(0, 10, n), np.clip(generator.normal(50, 10, n), 0, 100)
    g = generator.choice(["a", "b", "c"], n, p=[0.6, 0.3, 0.1])
    eta = -0.6 + 0.2 * x - 0.015 * x**2 + 0.01 * (z - 50) + np.where(g == "b", 0.4, 0.0)
    y: Any = (generator.random(n) < 1 / (1 + np.exp(-eta))).astype(int)
    if family == "gaussian":
        y = 20 + 3 * eta + generator.normal(size=n)
    elif family == "poisson":
        y = generator.poisson(np.exp(eta))
    return pd.DataFrame({"x": x, "z": z, "g": g, "y": y})


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
@pytest.mark.parametrize("flat", [True, False], ids=["flat", "default"])
def test_without_noise_it_is_what_statsmodels_has(family: str, flat: bool) -> None:
    frame = people(family)
    declared: dict[str, Any] = {"bounds": {"x": (0, 10), "z": (0, 100)}, "levels": {"g": ("a", "b", "c")}}
    if family == "binomial":
        declared["levels"]["y"] = (0, 1)
    else:
        declared["bounds"]["y"] = (0, 40) if family == "gaussian" else (0, 30)
    names = regression(
        f"y ~ {TERMS}", family=family, epsilon=100_000, delta="1e-6", n=len(frame), **declared
    ).design.names
    prior = dict.fromkeys(names, (0.0, 1e5)) if flat else None
    asked = regression(
        f"y ~ {TERMS}", family=family, epsilon=100_000, delta="1e-6", n=len(frame), prior=prior, **declared
    )
    fit = asked.fit(frame, source=SeededEntropy(1))
    columns = [frame["x"], frame["x"] ** 2, frame["z"], frame["g"] == "b", frame["g"] == "c"]
    rows = np.column_stack([np.ones(len(frame)), *columns]).astype(float)
    wanted = ["Intercept", "x", "I(x ** 2)", "z", "C(g)[T.b]", "C(g)[T.c]"]
    order = [fit.names.index(one) for one in wanted]
    model = {"gaussian": statsmodels.OLS, "binomial": statsmodels.Logit, "poisson": statsmodels.Poisson}
    options = {} if family == "gaussian" else {"disp": 0}
    theirs = model[family](frame["y"].to_numpy(), rows).fit(**options)
    errors = fit.std()[order]
    if family == "poisson":  # theirs takes the dispersion to be 1
        errors = errors / np.sqrt(fit.dispersion()[0])
    assert errors == pytest.approx(theirs.bse, rel=0.02)
    assert (np.abs(fit.mean()[order] - theirs.params) < (0.02 if flat else 0.5) * theirs.bse).all()
    assert not fit.warnings


def test_rates_over_three_orders_of_magnitude_are_reached() -> None:
    """Few records have a hundred times the usual rate: a first step along a straight line goes far above."""
    generator = np.random.default_rng(4)
    x = np.clip(generator.lognormal(0, 0.8, 20_000), 0, 13)
    y = np.minimum(generator.poisson(np.exp(1 + 0.43 * x)), 2000)
    assert y.max() > 50 * y.mean()
    bounds = {"x": (0, 13), "y": (0, 2000)}
    asked = regression("y ~ x", family="poisson", epsilon=100_000, delta="1e-6", n=len(x), bounds=bounds)
    fit = asked.fit(pd.DataFrame({"x": x, "y": y}), source=SeededEntropy(1))
    theirs = statsmodels.Poisson(y, np.column_stack([np.ones(len(x)), x])).fit(disp=0)
    assert (np.abs(fit.mean() - theirs.params) < 0.5 * theirs.bse).all()
    assert not fit.warnings
