"""Every kind of answer speaks one protocol: the same assertions for all of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import discreet
from discreet._documents.answer import Answer, Estimates
from discreet._documents.parts import Row, decimals, with_interval, written
from discreet._interop import Bridged
from discreet._registry import DOCUMENTS
from discreet.errors import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::discreet.errors.PrivacyWarning")

SCREEN_WIDTH, SCREEN_LINES = 100, 50
N = 800
REGIONS = tuple(f"region {i}" for i in range(20))


@cache
def people() -> dict[str, list[Any]]:
    """Made-up people: the older one is the more one smokes, and the fewer hours one works."""
    rng = np.random.default_rng(0)
    age = rng.integers(18, 95, N)
    return {
        "smoker": np.where(rng.random(N) < age / 150, "yes", "no").tolist(),
        "diet": rng.choice(["all", "fish", "plants"], N, p=[0.6, 0.3, 0.1]).tolist(),
        "region": rng.choice(REGIONS, N).tolist(),
        "age": age.tolist(),
        "hours": np.clip(60 - age / 2 + rng.normal(0, 8, N), 0, 80).tolist(),
        "visits": rng.poisson(np.exp(age / 100)).tolist(),
    }


SCHEMA = discreet.Schema(
    {
        "smoker": ["no", "yes"],
        "diet": ["all", "fish", "plants"],
        "region": discreet.Category(REGIONS, public=True),
        "age": (18, 95),
        "hours": (0, 80),
        "visits": discreet.Number(0, 12),
    },
    n=N,
)
HIDDEN = discreet.Schema({"smoker": ["no", "yes"], "word": discreet.Category("discover")})
CODES = discreet.Schema({"code": discreet.Category(range(100_000))})
DELTA = {"epsilon": 4, "delta": "1e-6"}


def asked(verb: Callable[..., Any], *columns: Any, schema: Any = SCHEMA, **options: Any) -> Any:
    return verb(people(), *columns, schema=schema, **{"epsilon": 2, **options})


def weighted(verb: Callable[..., Any], *columns: Any, **options: Any) -> Any:
    schema = discreet.Schema({**SCHEMA.columns, "weight": discreet.Weight(2)}, n=N)
    return verb({**people(), "weight": [0.5, 1.5] * (N // 2)}, *columns, schema=schema, epsilon=2, **options)


KINDS: dict[str, Callable[[], Any]] = {
    "two values": lambda: asked(discreet.proportions, "smoker"),
    "three values": lambda: asked(discreet.proportions, "diet"),
    "a private n": lambda: asked(discreet.proportions, "smoker", schema=HIDDEN),
    "a table": lambda: asked(discreet.proportions, "smoker", "diet"),
    "groups of two values": lambda: asked(discreet.proportions, "smoker", by="region"),
    "groups of three values": lambda: asked(discreet.proportions, "diet", by="region"),
    "pooled groups": lambda: asked(discreet.proportions, "smoker", by="region").pool(),
    "discovered": lambda: discreet.proportions(
        {"word": ["a"] * 400 + ["b"] * 300}, "word", schema=HIDDEN, **DELTA
    ),
    "many codes": lambda: discreet.proportions(
        {"code": [7] * 400 + [9] * 300}, "code", schema=CODES, epsilon=2, options={"expected_false": "0.01"}
    ),
    "a mean": lambda: asked(discreet.mean, "age"),
    "means": lambda: asked(discreet.mean, "age", by="region"),
    "pooled means": lambda: asked(discreet.mean, "age", by="region").pool(),
    "weighted shares": lambda: weighted(discreet.proportions, "smoker", "diet"),
    "weighted means": lambda: weighted(discreet.mean, "age", by="region"),
    "survival": lambda: asked(discreet.survival, "hours", "smoker", bins=5),
    "a gaussian regression": lambda: asked(discreet.regress, "hours ~ age + diet", **DELTA),
    "a binomial regression": lambda: asked(discreet.regress, "smoker ~ age", family="binomial", **DELTA),
    "a poisson regression": lambda: asked(discreet.regress, "visits ~ age", family="poisson", **DELTA),
    "a draw of shares": lambda: asked(discreet.draw, "diet", **DELTA),
    "a draw of a mean": lambda: asked(discreet.draw, "age", **DELTA),
    "a draw of coefficients": lambda: asked(
        discreet.draw, "smoker ~ age + hours", method="diffused", **DELTA
    ),
    "a network": lambda: asked(discreet.network, {"smoker": (), "diet": ("smoker",)}),
}
WITHOUT_INTERVALS = {"a draw of coefficients"}


@cache
def answer(kind: str) -> Any:
    return KINDS[kind]()


every_kind = pytest.mark.parametrize("kind", KINDS)


def test_every_registered_answer_is_among_them() -> None:
    known = {one.format for one in map(answer, KINDS) if isinstance(one, Answer)}
    assert known | {"discreet/study", "discreet/quantiles"} >= set(DOCUMENTS)


@every_kind
def test_numbers_are_in_the_order_of_names(kind: str) -> None:
    one = answer(kind)
    size = len(one.names)
    assert size == len(set(one.names)) > 0
    lower, upper = one.interval()
    assert one.mean().shape == one.std().shape == lower.shape == upper.shape == (size,)
    assert np.isfinite(one.mean()).all()
    rows = one.rows(0.9)
    assert [row.mean for row in rows] == pytest.approx(one.mean().tolist())
    if kind in WITHOUT_INTERVALS:
        assert np.isnan(one.std()).all()
        assert np.isnan(lower).all()
        return
    assert (one.std() > 0).all()
    # A mean lies within a standard deviation of the median, which every interval holds.
    assert ((lower <= one.mean() + one.std()) & (one.mean() - one.std() <= upper)).all()
    narrow = one.interval(0.5)
    assert ((lower <= narrow[0]) & (narrow[0] <= narrow[1]) & (narrow[1] <= upper)).all()
    np.testing.assert_allclose(one.interval(0.9), [[row.low for row in rows], [row.high for row in rows]])
    assert all(row.noise is None or 0 <= row.noise <= 1 for row in rows)


@every_kind
def test_draws_are_those_of_the_intervals(kind: str) -> None:
    """4,000 draws: a mean 6 standard errors off has a chance of 2e-9 for each of some 160 numbers."""
    one = answer(kind)
    drawn = one.draws(4000, seed=1)
    assert drawn.shape == (4000, len(one.names))
    np.testing.assert_array_equal(one.draws(5, seed=2), one.draws(5, seed=2))
    if kind in WITHOUT_INTERVALS:
        np.testing.assert_allclose(drawn.mean(axis=0), one.mean(), rtol=1e-9)  # one draw was published
        return
    # Some posteriors are draws themselves: a network's 2,000, pooled groups' 1,000, a fit's weighted ones.
    error = one.std() * math.sqrt(1 / 4000 + 1 / 500)
    assert (np.abs(drawn.mean(axis=0) - one.mean()) < 6 * error).all()
    lower, upper = one.interval(0.9)
    inside = ((lower <= drawn) & (drawn <= upper)).mean(axis=0)
    assert (inside > 0.85).all()
    if "codes" not in kind and kind != "discovered":  # whole numbers have intervals that hold more
        assert (inside < 0.95).all()


@every_kind
def test_a_table_for_programs(kind: str) -> None:
    one = answer(kind)
    table = one.table(0.9)
    assert len(table) == len(one.names)
    numbers = ["mean", "sd", "low", "high"]
    assert [name for name in table[0] if name in numbers] == numbers
    columns = [name for name in table[0] if name not in {*numbers, "count", "noise"}]
    found = [tuple(row[name] for name in columns) for row in table]
    assert found == [name if len(columns) > 1 else (name,) for name in one.names]
    frame = one.to_frame(0.9)
    assert list(frame.columns) == list(table[0])
    np.testing.assert_allclose(frame["mean"], one.mean())


@every_kind
def test_print_is_one_table_that_fits_a_screen(kind: str) -> None:
    one = answer(kind)
    lines = str(one).splitlines()
    assert len(lines) <= SCREEN_LINES
    assert max(map(len, lines)) <= SCREEN_WIDTH
    assert str(one) == one.summary()
    assert len(repr(one).splitlines()) == 1
    assert len(repr(one)) < 150
    tables = [what for what_kind, what in one.describe() if what_kind == "table"]
    assert len(tables) == 1
    if "The column noise" in " ".join(str(one).split()):
        assert "noise" in tables[0].header
    assert "plug-in" not in str(one)
    assert " – " not in str(one)
    if kind not in WITHOUT_INTERVALS:
        assert "80 % interval" in one.summary(0.8)
        assert " to " in one.summary(0.8)
    assert "<table" in one._repr_html_()
    if isinstance(one, Answer):
        assert f"Guarantee: {one.guarantee}" in " ".join(str(one).split())


@every_kind
def test_what_was_computed_is_kept(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Printed once, nothing is inferred again: not by print, plot, report or a frame."""
    one = KINDS[kind]()
    printed, frame = str(one), one.to_frame()

    def computed(*_: Any, **__: Any) -> Any:
        raise AssertionError("computed again")

    for path in (
        "discreet.distributions.noise_aware.quantiles",
        "discreet.distributions.noise_aware.mean_and_deviation",
        "discreet._inference.pooled.PooledPairs.ends",
        "discreet.distributions.mixtures.NormalMixture.ppf",
        "discreet.regression._newton.posterior.Posterior.interval",
        "discreet.answers.network.NetworkRelease.networks",
        "discreet._inference.sparse.SparsePosterior.interval",
    ):
        monkeypatch.setattr(path, computed)
    assert str(one) == printed
    assert one.to_frame().equals(frame)


@every_kind
def test_pictures_and_inference_data(kind: str) -> None:
    one = answer(kind)
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    axes = one.plot(level=0.9)
    assert axes.figure is not None
    assert one.plot(axes) is axes
    pytest.importorskip("arviz", reason="ArviZ is not installed")
    posterior = one.to_arviz(30, seed=1).posterior
    size = sum(math.prod(posterior[name].shape[2:]) for name in posterior.data_vars)
    assert size == len(one.names)
    if isinstance(one, Answer):
        assert "ε" in posterior.attrs["guarantee"]


@every_kind
def test_documents_and_doubts(kind: str, tmp_path: Path) -> None:
    one = answer(kind)
    assert isinstance(one.warnings, tuple)
    assert all(isinstance(text, str) for text in (*one.warnings, *one.notes))
    if not isinstance(one, Answer):
        return
    one.save(tmp_path / "answer.json")
    assert (tmp_path / "answer.json").read_text("utf-8") == one.to_json()
    again = discreet.load(tmp_path / "answer.json")
    assert again.to_json() == one.to_json()
    assert again.names == one.names
    np.testing.assert_array_equal(again.interval(), one.interval())
    assert str(again) == str(one)
    assert one.guarantee.is_private
    if isinstance(one, Bridged):
        assert one.likelihood().k == len(one.names)
    else:
        with pytest.raises(InvalidInputError, match="no likelihood"):
            one.likelihood()


@every_kind
@pytest.mark.parametrize("level", [0, 1, 95, -0.5])
def test_a_level_is_a_probability(kind: str, level: float) -> None:
    one = answer(kind)
    for call in (one.rows, one.interval, one.table, one.to_frame, one.summary):
        with pytest.raises(InvalidInputError, match=f"level={level}"):
            call(level)
    with pytest.raises(InvalidInputError, match=f"level={level}"):
        one.plot(level=level)


def test_plug_in_is_narrower_and_told_apart() -> None:
    one = asked(discreet.proportions, "smoker", epsilon="0.05")
    low, high = one.interval()
    narrow = one.plug_in.interval()
    assert narrow[1] - narrow[0] < high[0] - low[0]
    assert "plug-in" in repr(one.plug_in)
    groups = answer("groups of two values")
    assert set(groups.plug_in) == set(groups.posterior) == set(REGIONS)


def test_regressions_print_ratios_n_and_sigma() -> None:
    gaussian, binomial, poisson = (str(answer(f"a {name} regression")) for name in FAMILIES)
    assert f"n = {N}; σ = " in gaussian
    assert "odds ratio" in binomial.splitlines()[2]
    assert "rate ratio" in poisson.splitlines()[2]
    row = answer("a binomial regression").rows()[1]
    ratio = with_interval(*(math.exp(value) for value in (row.mean, row.low, row.high)))
    assert ratio in binomial
    for name in FAMILIES:
        shares = [row.noise for row in answer(f"a {name} regression").rows()]
        assert shares == answer(f"a {name} regression").noise_share().tolist()


FAMILIES = ("gaussian", "binomial", "poisson")


def test_comparisons_on_request() -> None:
    table, groups, means = answer("a table"), answer("groups of two values"), answer("means")
    pair = REGIONS[:2]
    drawn = groups.difference("yes", pair)
    assert groups.ratio("yes", pair).interval(0.9)[0] > 0
    i, j = (groups.names.index((region, "yes")) for region in pair)
    assert drawn.mean() == pytest.approx(groups.mean()[i] - groups.mean()[j], abs=0.02)
    assert table.difference("yes", ("all", "fish"), given="diet").std() > 0
    assert means.difference(pair).mean() == pytest.approx(means.mean()[0] - means.mean()[1], abs=2)
    assert means.ratio(pair).mean() > 0
    assert len(groups.differences().cells) == len(REGIONS) - 1
    assert "−" in str(groups.differences())
    assert "Differences" not in str(groups)


def test_a_mean_at_its_bound_warns() -> None:
    """Hours in minutes, bounds in hours: nearly everything is clipped."""
    minutes = {"hours": [60 * hours for hours in people()["hours"]]}
    schema = discreet.Schema({"hours": (0, 80)}, n=N)
    (doubt,) = discreet.mean(minutes, "hours", schema=schema, epsilon=2).warnings
    assert "upper bound, 80" in doubt
    assert not asked(discreet.mean, "hours").warnings
    visits = discreet.Schema({"visits": (0, 100)}, n=N)  # far below the upper bound, and clipped nowhere
    assert not asked(discreet.mean, "visits", schema=visits, epsilon=20).warnings


def test_many_rows_are_cut_and_said() -> None:
    values = tuple(f"v{i}" for i in range(300))
    schema = discreet.Schema({"v": values}, n=600)
    one = discreet.proportions({"v": values * 2}, "v", schema=schema, epsilon=1)
    assert "260 more" in str(one)
    assert len(str(one).splitlines()) <= SCREEN_LINES
    assert len(one.to_frame()) == 300


def test_numbers_are_written_with_two_digits_of_their_error() -> None:
    assert decimals([Row("a", 0.32, 0.0087, 0.303, 0.337, share=True)]) == 3
    assert written(0.3032, 0.3371, digits=3) == "0.303 to 0.337"
    assert with_interval(1234.5678, 1200.0, 1270.0) == "1,235 (1,200 to 1,270)"
    assert with_interval(1.0234, 1.0012, 1.0451) == "1.023 (1.001 to 1.045)"
    assert with_interval(12.34, 10.0, math.inf) == "12.3 (10.0 to ∞)"
    assert with_interval(math.inf, 12.4, math.inf) == "∞ (12 to ∞)"
    assert with_interval(-3.0, -math.inf, 2.0) == "−3.0 (−∞ to 2.0)"
    assert written(None, digits=2) == "–"


def test_the_base_class_answers_what_a_kind_lacks() -> None:
    class Bare(Estimates):
        def _rows(self, level: float) -> list[Row]:
            return [Row("a", 1.0), Row("b", 2.0, 1.0, 0.0, 4.0)]

        def words(self) -> Any:
            from discreet._documents.parts import Words

            return Words("Two numbers", "two numbers")

    bare = Bare()
    assert bare.names == ("a", "b")
    np.testing.assert_array_equal(bare.std(), [math.nan, 1.0])
    assert bare.warnings == bare.notes == ()
    assert "–" in str(bare)
    with pytest.raises(InvalidInputError, match="no draws"):
        bare.draws()
