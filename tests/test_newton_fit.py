"""Regressions from a formula: units, intervals, documents, mistakes; and that intervals hold the truth."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import binom

import shorthand
from discreet._declarations import Domain, Relation
from discreet._randomness.entropy import SeededEntropy
from discreet.errors import CorruptReleaseError, DataError, InvalidInputError
from discreet.regression._newton.design import design
from discreet.regression._newton.fit import Fit, Regression, regression
from pace import now_or_slow

formulaic = pytest.importorskip("formulaic")
pd = pytest.importorskip("pandas")

BOUNDS = {"age": (20, 80), "income": (0, 100)}
LEVELS = {"sex": ("f", "m"), "city": ("a", "b", "c"), "vote": ("no", "yes")}


def people(number: int, seed: int = 0) -> Any:
    generator = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": generator.uniform(20, 80, number),
            "sex": generator.choice(["f", "m"], number),
            "city": generator.choice(["a", "b", "c"], number),
        }
    )
    eta = -2 + 0.04 * frame["age"] + 0.5 * (frame["sex"] == "m")
    frame["vote"] = np.where(generator.random(number) < expit(eta), "yes", "no")
    frame["income"] = 20 + 0.5 * frame["age"] + 6 * (frame["city"] == "b") + generator.normal(0, 8, number)
    frame["visits"] = generator.poisson(np.exp(-1 + 0.02 * frame["age"]))
    return frame


def asked(formula: str, family: str, **options: Any) -> Regression:
    given: dict[str, Any] = {"epsilon": 2, "delta": "1e-6", **options}
    bounds, levels = {**BOUNDS, "visits": (0, 15)}, LEVELS
    return regression(
        formula,
        family=family,
        bounds={name: pair for name, pair in bounds.items() if name in formula},
        levels={name: one for name, one in levels.items() if name in formula},
        **given,
    )


def within(fit: Fit, truth: dict[str, float], deviations: float = 5) -> None:
    for name, mean, std in zip(fit.names, fit.mean(), fit.std(), strict=True):
        if name in truth:
            assert abs(mean - truth[name]) < deviations * std, name


def test_coefficients_are_in_the_units_of_the_columns() -> None:
    frame = people(20_000)
    fit = asked("vote ~ age + sex", "binomial").fit(frame, source=SeededEntropy(1))
    assert fit.names == ("Intercept", "age", "sex[T.m]")
    within(fit, {"Intercept": -2, "age": 0.04, "sex[T.m]": 0.5})
    assert fit.std()[1] < 0.002
    fit = asked("income ~ age + city", "gaussian").fit(frame, source=SeededEntropy(2))
    within(fit, {"Intercept": 20, "age": 0.5, "city[T.b]": 6, "city[T.c]": 0})
    assert fit.sigma()[1] < 8 < fit.sigma()[2]
    fit = asked("visits ~ age", "poisson").fit(frame, source=SeededEntropy(3))
    within(fit, {"Intercept": -1, "age": 0.02})
    fit = asked("city ~ age", "multinomial").fit(frame, source=SeededEntropy(4))
    assert fit.names[0] == "b: Intercept"
    within(fit, dict.fromkeys(fit.names, 0.0))


@pytest.mark.parametrize("formula", ["y ~ x", "y ~ x + I(x**2)"])
def test_the_intervals_of_an_exact_curve_hold_what_the_grids_round(formula: str) -> None:
    """Whole numbers that lie on no grid of a power of two, without errors and with hardly any noise."""
    x = np.tile(np.arange(8.0), 2500)
    curved = "**" in formula
    truth = [1.0, 3.0, *([0.5] if curved else [])]
    y = np.polynomial.polynomial.polyval(x, truth)
    question = regression(formula, bounds={"x": (0, 10), "y": (0, 60)}, epsilon=10**5, delta="1e-6")
    low, high = question.fit({"x": x, "y": y}, source=SeededEntropy(3)).interval(0.95)
    assert ((low <= truth) & (truth <= high)).all()
    assert (high - low < 60 * (3e-3 if curved else 3e-4)).all()


def test_dispersion_is_one_of_a_poisson_distribution() -> None:
    frame = people(20_000)
    fit = asked("visits ~ age", "poisson").fit(frame, source=SeededEntropy(3))
    middle, low, high = fit.dispersion()
    assert 0.8 < low < 1 < high < 1.2
    assert low < middle < high
    assert fit.dispersion(0.5)[1] > low
    assert "variance of counts" not in " ".join(fit.notes)
    frame["visits"] = 3
    same = asked("visits ~ age", "poisson").fit(frame, source=SeededEntropy(3))
    assert 0 < same.dispersion()[1] < same.dispersion()[2] < 0.2
    generator = np.random.default_rng(1)
    frame["visits"] = generator.poisson(generator.gamma(np.exp(-1 + 0.02 * frame["age"])))
    wild = asked("visits ~ age", "poisson").fit(frame, source=SeededEntropy(3))
    middle, low, high = wild.dispersion()
    assert 1.5 < low < 2 < high < 2.5
    assert f"{middle:.2g} times that of a Poisson distribution" in " ".join(wild.notes)
    with pytest.raises(InvalidInputError, match="only Poisson models do"):
        asked("vote ~ age", "binomial").fit(frame, source=SeededEntropy(1)).dispersion()


@pytest.mark.parametrize(
    ("terms", "relation", "width"),
    [
        ("x", "replace-one", (0.0, 1.5)),
        ("0 + x", "replace-one", (1.8, 3.0)),
        ("0 + x", "add-remove", (1.8, 3.0)),
    ],
)
def test_nothing_is_said_of_scatter_without_an_intercept(
    terms: str, relation: str, width: tuple[float, float]
) -> None:
    """The squares are those of many records that scatter little, or of few, or of predictors elsewhere."""
    for seed in range(3):
        generator = np.random.default_rng(seed)
        x = generator.uniform(0, 1, 5000)
        fit = regression(
            f"y ~ {terms}",
            epsilon=1,
            delta="1e-6",
            family="poisson",
            bounds={"x": (0, 1), "y": (0, 20)},
            relation=relation,
        ).fit(pd.DataFrame({"x": x, "y": generator.poisson(np.exp(x))}), source=SeededEntropy(seed))
        _, low, high = fit.dispersion()
        assert low < 1 < high
        assert width[0] < high - low < width[1]


def test_relations_and_records_left_out() -> None:
    frame = people(20_000)
    fit = asked("vote ~ age + sex", "binomial", relation="add-remove").fit(frame, source=SeededEntropy(1))
    within(fit, {"Intercept": -2, "age": 0.04, "sex[T.m]": 0.5})
    assert fit.guarantee.epsilon == np.inf  # a seed is no guarantee
    assert abs(fit.records / 20_000 - 1) < 0.1
    frame.loc[::4, "age"] = np.nan
    fit = asked("income ~ age + city", "gaussian", missing={"age": "exclude"}).fit(
        frame, source=SeededEntropy(5)
    )
    within(fit, {"Intercept": 20, "age": 0.5, "city[T.b]": 6})
    assert abs(fit.records / 15_000 - 1) < 0.1


def test_without_an_intercept_nothing_is_predicted_at_zero() -> None:
    """The response is scaled around 0, not around the middle of its bounds."""
    frame = people(8000)
    frame["income"] = 0.7 * frame["age"] + 4 * (frame["city"] == "b") - 3 * (frame["city"] == "a")
    fit = asked("income ~ 0 + age + C(city)", "gaussian", epsilon=20).fit(frame, source=SeededEntropy(2))
    within(fit, {"age": 0.7, "C(city)[a]": -3, "C(city)[b]": 4, "C(city)[c]": 0})
    assert max(fit.std()) < 0.5
    slope = asked("income ~ 0 + age", "gaussian", epsilon=20).fit(frame, source=SeededEntropy(2))
    ordinary = (frame["age"] * frame["income"]).sum() / (frame["age"] ** 2).sum()
    assert slope.mean()[0] == pytest.approx(ordinary, abs=0.01)
    found = slope.predict({"age": [20, 80]}).mean
    assert found == pytest.approx(slope.mean()[0] * np.array([20, 80]), abs=0.02)


def test_levels_of_a_domain_have_its_rules() -> None:
    """Other and missing values by its rules, in the document too; a rule of the question goes first."""
    frame = people(3000).assign(city=["b", "z", None] * 1000)
    plain = frame.assign(city=["b", "c", "a"] * 1000)
    given: dict[str, Any] = {"bounds": BOUNDS, "epsilon": 2, "delta": "1e-6"}
    wanted = regression("income ~ age + C(city)", levels={"city": ("a", "b", "c")}, **given)
    ruled = Domain(("a", "b", "c"), other="c", missing="a")
    question = regression("income ~ age + C(city)", levels={"city": ruled}, **given)
    fit = question.fit(frame, source=SeededEntropy(1))
    assert fit.mean().tolist() == wanted.fit(plain, source=SeededEntropy(1)).mean().tolist()
    again = Fit.from_json(fit.to_json())
    assert again.summary() == fit.summary()
    seen = again.predict({"age": [30, 30], "city": ["elsewhere", "c"]}).mean
    assert seen[0] == seen[1]
    left_out = Domain(("a", "b", "c"), other="c", missing="exclude")
    fewer = regression("income ~ age + C(city)", levels={"city": left_out}, **given)
    assert fewer.design.excludes
    assert fewer.fit(frame, source=SeededEntropy(1)).n is None
    first = regression("income ~ age + C(city)", levels={"city": ruled}, missing={"city": "b"}, **given)
    assert first.missing == {"city": "b"}


def test_levels_may_be_compared_with_their_mean() -> None:
    made = asked("income ~ C(city, contr.sum)", "gaussian").design
    assert made.names[1:] == ("C(city, contr.sum)[S.a]", "C(city, contr.sum)[S.b]")


def test_a_declared_prior_counts_where_data_say_little() -> None:
    frame = people(300)
    prior = {"age": (1.0, 0.001), "Intercept": (-10.0, 0.1)}
    fit = asked("income ~ age + city", "gaussian", prior=prior, epsilon="0.1").fit(
        frame, source=SeededEntropy(1)
    )
    assert fit.mean()[fit.names.index("age")] == pytest.approx(1.0, abs=0.003)
    with pytest.raises(InvalidInputError, match="not one of the coefficients"):
        asked("income ~ age", "gaussian", prior={"agee": (0, 1)})
    with pytest.raises(InvalidInputError, match="standard deviation > 0"):
        asked("income ~ age", "gaussian", prior={"age": (0, 0)})


def test_prediction_takes_raw_columns() -> None:
    frame = people(20_000)
    fit = asked("vote ~ age + sex", "binomial").fit(frame, source=SeededEntropy(1))
    rows = pd.DataFrame({"age": [30.0, 70.0], "sex": ["f", "m"]})
    found = fit.predict(rows)
    truth = expit([-2 + 0.04 * 30, -2 + 0.04 * 70 + 0.5])
    assert found.mean == pytest.approx(truth, abs=0.03)
    assert (found.low < found.mean).all()
    assert (found.mean < found.high).all()
    fit = asked("income ~ age + city", "gaussian").fit(frame, source=SeededEntropy(1))
    assert fit.predict({"age": [50], "city": ["b"]}).mean == pytest.approx([51], abs=2)
    fit = asked("city ~ age", "multinomial").fit(frame, source=SeededEntropy(1))
    assert fit.predict({"age": [50]}).mean.sum() == pytest.approx(1)
    with pytest.raises(DataError, match="not declared"):
        asked("income ~ age + city", "gaussian").fit(frame, source=SeededEntropy(1)).predict(
            {"age": [50], "city": ["z"]}
        )


@pytest.mark.parametrize("engine", ["polars", "duckdb"])
def test_a_column_of_many_levels_is_looked_up_on_every_engine(engine: str) -> None:
    """Engines that find many levels by a join: the same fit, and predictions in the order of the rows."""
    module = pytest.importorskip(engine)
    cities = tuple(f"city {i}" for i in range(30))
    generator = np.random.default_rng(0)
    plain = pd.DataFrame({"city": generator.choice(cities, 400), "income": generator.uniform(0, 100, 400)})
    few = pd.DataFrame({"city": list(cities[20:8:-1])})
    question = regression(
        "income ~ city", bounds={"income": (0, 100)}, levels={"city": cities}, epsilon=2, delta="1e-6"
    )
    other = module.from_pandas if engine == "polars" else module.from_df
    ours = question.fit(plain, source=SeededEntropy(1))
    theirs = question.fit(other(plain), source=SeededEntropy(1))
    assert ours.to_json() == theirs.to_json()
    assert theirs.predict(other(few)).mean.tolist() == ours.predict(few).mean.tolist()


def test_a_document_says_it_all() -> None:
    fit = asked("vote ~ age + sex", "binomial").fit(people(2000), source=SeededEntropy(1))
    text = fit.to_json()
    again = Fit.from_json(text)
    assert again.mean() == pytest.approx(fit.mean())
    assert np.array(again.interval(0.8)) == pytest.approx(np.array(fit.interval(0.8)))
    assert again.summary() == fit.summary()
    assert "odds ratio" in fit.summary()
    assert again.to_json() == text
    with pytest.raises(CorruptReleaseError):
        Fit.from_json(text.replace('"rounds"', '"roundz"'))


@pytest.mark.parametrize("deviation", [0.3, 0.5, 0.8])
def test_a_document_clips_where_the_fit_did(deviation: float) -> None:
    """Beyond 1, half the width of the bounds, too: residuals reach as far as predictors do besides."""
    generator = np.random.default_rng(0)
    x = generator.uniform(-1, 1, 5000)
    frame = pd.DataFrame({"x": x, "y": 0.8 * x + deviation * generator.normal(size=5000)})
    question = regression("y ~ x", bounds=dict.fromkeys("xy", (-1, 1)), epsilon=1, delta="1e-6")
    fit = question.fit(frame, source=SeededEntropy(1))
    again = Fit.from_json(fit.to_json())
    assert [one.clip for one in again.outcome.round_evidence] == [
        one.clip for one in fit.outcome.round_evidence
    ]
    assert (fit.outcome.round_evidence[-1].clip > 1) == (deviation > 0.4)
    assert again.std() == pytest.approx(fit.std(), rel=1e-12)


def test_a_private_fit_has_its_guarantee() -> None:
    frame = people(1000)
    fit = shorthand.regress(
        frame,
        "vote ~ age",
        family="binomial",
        bounds={"age": (20, 80)},
        levels={"vote": ("no", "yes")},
        epsilon=1,
        delta="1e-6",
    )
    assert fit.guarantee.epsilon == 1
    assert fit.guarantee.delta == 1e-6
    assert fit.guarantee.curve is not None
    assert fit.guarantee.curve.delta_at(1.0) <= 1e-6
    assert fit.guarantee.relation is Relation.REPLACE_ONE


@pytest.mark.parametrize(
    ("formula", "options", "message"),
    [
        ("vote ~ scale(age)", {}, "may learn from the data"),
        ("vote ~ bs(age, df=4)", {}, "declare the knots"),
        ("vote ~ __import__('os').getcwd()", {}, "may learn|cannot be read"),
        ("vote ~ age.max()", {}, "may learn|not allowed"),
        ("vote ~ I(age * income)", {}, "mixes the columns"),
        ("np.log(vote) ~ age", {}, "left side"),
        ("vote ~ age + shoe", {}, "neither bounds nor values"),
        ("vote ~ age + I(2 * age)", {}, "linearly dependent"),
        ("vote ~ np.log(age - 20)", {}, "not finite|cannot be evaluated"),
        ("income ~ age", {}, "must be declared as a category"),
        ("vote ~ age", {"n": 1}, "less than the 2 coefficients"),
        ("vote ~ age", {"delta": 0}, "delta"),
        ("vote ~ age", {"norm": -1}, "norm"),
        ("vote ~ age", {"norm": "long"}, "norm"),
        ("vote ~ age", {"missing": {"vote": "perhaps"}}, "not one of levels"),
        ("vote ~ age", {"prior": [(0, 1)]}, "must name coefficients"),
        ("vote ~ age", {"aim": "fame"}, "aim"),
        ("vote ~ age", {"errors": "robust"}, "intervals of Gaussian models"),
        ("vote ~ age", {"errors": "equal"}, "must be 'robust'"),
        ("vote", {}, "must have one ~"),
        ("vote ~ vote + age", {}, "both sides"),
    ],
)
def test_mistakes_are_found_before_any_data(formula: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        asked(formula, "binomial", **options)


def test_levels_are_not_the_letters_of_a_text() -> None:
    with pytest.raises(InvalidInputError, match="sequence in a fixed order"):
        regression("vote ~ 1", family="binomial", levels={"vote": "ny"}, epsilon=1, delta="1e-6")


def test_mistakes_in_the_data_quote_none() -> None:
    frame = people(100)
    frame["vote"] = "perhaps"
    with pytest.raises(DataError) as caught:
        asked("vote ~ age", "binomial").fit(frame)
    assert "perhaps" not in str(caught.value)
    with pytest.raises(InvalidInputError, match="a different number of records"):
        asked("vote ~ age", "binomial", n=7).fit(people(100))


def test_formulas_with_products_polynomials_and_splines() -> None:
    made = design(
        "y ~ a*C(g) + bs(b, knots=[3, 6])",
        family="gaussian",
        bounds={"a": (100, 110), "b": (0, 10), "y": (0, 1)},
        levels={"g": ("p", "q")},
    )
    generator = np.random.default_rng(2)
    codes = [generator.integers(0, v.coder.size, 200) for v in made.variables]
    frame = pd.DataFrame({v.name: v.values(c) for v, c in zip(made.variables, codes, strict=True)})
    ends = pd.DataFrame({v.name: v.values(np.array([0, v.coder.size - 1])) for v in made.variables})
    whole = formulaic.model_matrix(
        "a*C(g) + bs(b, knots=[3, 6])", pd.concat([frame, ends], ignore_index=True)
    )
    assert tuple(whole.columns) == made.names
    wanted = np.asarray(whole, dtype=float)[:200]
    # rows @ w = values @ (mixing @ w) for every w: the grid's step apart.
    assert made.scale_rows(codes) == pytest.approx(wanted @ made.mixing, abs=4 / made.unit)
    assert (np.abs(made.scale_rows(codes)) <= 1 + 1e-9).all()


def test_an_indicator_of_each_of_two_levels_has_a_column() -> None:
    """Moved to [−1, 1] the two columns would be one; as they are they are not."""
    made = design("y ~ a:g", family="gaussian", bounds={"a": (2, 10), "y": (0, 1)}, levels={"g": ("p", "q")})
    codes = [np.array([0, 5, 60, 60]), np.array([0, 1, 0, 1])]
    values = made.variables[0].values(codes[0])
    wanted = np.column_stack([np.ones(4), values * (codes[1] == 0), values * (codes[1] == 1)])
    assert made.scale_rows(codes) == pytest.approx(wanted @ made.mixing, abs=4 / made.unit)


@pytest.mark.parametrize(
    "family", now_or_slow(["gaussian", "binomial", "poisson"], lambda family: family == "gaussian")
)
def test_intervals_hold_the_truth(family: str) -> None:
    """40 fits with coefficients from the prior: of 120 intervals of 90 % fewer than 88 has a chance below
    10⁻⁷,

    were they independent; the bound allows for fits that share their error.
    """
    generator = np.random.default_rng(3)
    formula, inside = "y ~ a + b", 0
    bounds = {
        "a": (-1, 1),
        "b": (-1, 1),
        **({"y": {"gaussian": (-1, 1), "poisson": (0, 12)}[family]} if family != "binomial" else {}),
    }
    levels = {"y": ("0", "1")} if family == "binomial" else {}
    deviation = {"gaussian": 0.15, "binomial": 1.0, "poisson": 0.4}[family]
    prior = dict.fromkeys(("Intercept", "a", "b"), (0.0, deviation))
    question = regression(
        formula, family=family, bounds=bounds, levels=levels, epsilon=1, delta="1e-6", prior=prior
    )
    for repetition in range(40):
        frame = pd.DataFrame(generator.uniform(-1, 1, (1500, 2)), columns=["a", "b"])
        truth = generator.normal(0, deviation, 3)
        eta = truth[0] + frame.to_numpy() @ truth[1:]
        if family == "binomial":
            frame["y"] = np.where(generator.random(1500) < expit(eta), "1", "0")
        elif family == "poisson":
            frame["y"] = generator.poisson(np.exp(eta)).clip(0, 12)
        else:
            frame["y"] = eta + generator.normal(0, 0.15, 1500)
        low, high = question.fit(frame, source=SeededEntropy(repetition)).interval(0.9)
        inside += int(((low <= truth) & (truth <= high)).sum())
    assert inside >= 88
    assert binom.cdf(87, 120, 0.9) < 1e-7


def test_the_shares_of_the_budget_are_fixed_and_add_up() -> None:
    from discreet.regression._newton.rounds import Schedule

    for family, formula in (
        ("binomial", "vote ~ age"),
        ("gaussian", "income ~ age"),
        ("poisson", "visits ~ age"),
    ):
        question = asked(formula, family).setting(1000)
        for aim in ("intervals", "prediction"):
            plan = Schedule.of(question, aim)
            assert sum(plan.shares, Fraction(0)) == (0 if plan.steps else 1)


def test_very_many_records_are_predicted_in_few_passes() -> None:
    """By declared numbers; rows are not shortened then, and a plan is made for the same rounds."""
    from discreet.regression._newton.rounds import Schedule
    from discreet.regression._simulation import simulate_fit

    names = [f"x{i}" for i in range(10)]

    def made(n: int | None, epsilon: str = "1", **people: Any) -> Any:
        return regression(
            "y ~ " + " + ".join(names),
            family="binomial",
            bounds=dict.fromkeys(names, (-1, 1)),
            levels={"y": ("0", "1")},
            epsilon=epsilon,
            delta="1e-9",
            aim="prediction",
            n=n,
            **people,
        )

    many = 8 * 10**5
    steps = {n: Schedule.of(made(n).setting(n), "prediction").steps for n in (10**4, 3 * 10**5, many)}
    assert steps == {10**4: steps[10**4], 3 * 10**5: 200, many: 0}
    assert made(many).design.norm > made(10**4).design.norm
    # Nothing is changed where n was not declared, where noise hides the curvature, or for many a person.
    assert Schedule.of(made(None).setting(many), "prediction").steps == 200
    assert Schedule.of(made(many, "0.01").setting(many), "prediction").steps > 0
    crowd = made(many, person="who", per_person=50)
    assert Schedule.of(crowd.setting(many), "prediction").steps > 0
    fit, _, split = simulate_fit(made(many), many, 1)
    assert len(fit.rounds) == 4  # of fewer records
    assert "rounds 1 to 5" in split[0][1]


def test_the_number_of_rounds_follows_the_signal_for_each_coefficient() -> None:
    from discreet.regression._newton.rounds import Schedule

    def rounds(columns: int, n: int) -> int:
        names = [f"x{i}" for i in range(columns)]
        asked = regression(
            "y ~ " + " + ".join(names),
            family="binomial",
            bounds=dict.fromkeys(names, (-1, 1)),
            levels={"y": (0, 1)},
            epsilon=1,
            delta="1e-6",
            n=n,
        )
        return len(Schedule.of(asked.setting(n), "intervals").shares)

    # nμ = 237 for 1,000 records
    assert [rounds(1, n) for n in (800, 1_000, 8_000, 9_000)] == [2, 3, 3, 4]
    assert [rounds(9, n) for n in (4_000, 5_000)] == [2, 3]


def test_columns_that_the_prior_decides_are_named() -> None:
    """Values at one end of wide bounds, whose spread the noise hides."""
    pandas = pytest.importorskip("pandas")
    generator = np.random.default_rng(8)
    wide, narrow = generator.uniform(size=1000), 0.85 + 0.01 * generator.normal(size=1000)
    response = 0.5 * wide + 12 * (narrow - 0.85) + 0.2 * generator.normal(size=1000) - 0.25
    frame = pandas.DataFrame({"wide": wide, "narrow": narrow.clip(0, 1), "y": response.clip(-1, 1)})

    def fitted(ends: tuple[float, float], **options: Any) -> Fit:
        bounds = {"wide": (0, 1), "narrow": ends, "y": (-1, 1)}
        question = regression("y ~ wide + narrow", bounds=bounds, epsilon=1, delta="1e-6", **options)
        return question.fit(frame, source=SeededEntropy(3))

    (said,) = fitted((0, 1)).warnings
    assert said.startswith("Intercept, narrow cannot be told apart at this ε, and the prior decides them")
    assert "narrower bounds" in said
    assert not fitted((0.8, 0.9)).warnings
    (said,) = fitted((0, 1), prior={"narrow": (2, 0.1)}).warnings
    assert said.startswith("Intercept cannot be estimated at this ε, and the prior decides it")
    assert fitted((0, 1), prior={"narrow": (2, 0.1)}).std()[2] == pytest.approx(0.1, rel=0.1)


def test_a_narrow_column_is_not_held_by_the_prior_of_a_wide_one() -> None:
    """A slope of 5 where x has 1/50 of its bounds: a fourfold deviation of y is far from it."""
    errors = []
    for seed in range(12):
        generator = np.random.default_rng(seed)
        x = generator.normal(0, 0.02, 4000)
        table = {"x": x, "y": np.clip(0.1 + 5 * x + generator.normal(0, 0.1, 4000), -1, 1)}
        question = regression("y ~ x", bounds={"x": (-1, 1), "y": (-1, 1)}, epsilon=1, delta=1e-6)
        fit = question.fit(table, source=SeededEntropy(seed))
        assert not fit.warnings
        errors.append((fit.mean()[1] - 5) / fit.std()[1])
    assert abs(np.mean(errors)) < 1
    assert np.mean(np.abs(errors) < 1.645) > 0.7


def test_sums_over_columns_of_another_scale_are_refused() -> None:
    """A document from before columns were made orthogonal would be read as other coefficients."""
    fit = asked("vote ~ age + sex", "binomial").fit(people(2_000), source=SeededEntropy(1))
    content = fit.content()
    assert Fit.from_content(content).mean() == pytest.approx(fit.mean())
    with pytest.raises(ValueError, match="another scale: read it with the version that wrote it"):
        Fit.from_content({name: value for name, value in content.items() if name != "columns"})
    content = asked("income ~ age", "gaussian").fit(people(2_000), source=SeededEntropy(1)).content()
    assert Fit.from_content(content).content() == content
    with pytest.raises(ValueError, match="another scale: read it with the version that wrote it"):
        Fit.from_content({**content, "columns": "orthogonal"})  # a response of 2^14 steps


def test_likelihood_times_prior_is_the_posterior() -> None:
    declared = {"Intercept": (30.0, 5.0), "age": (0.2, 0.2)}  # narrow, so that it matters
    fit = asked("income ~ age", "gaussian", prior=declared).fit(people(400), source=SeededEntropy(5))
    likelihood, units = fit.likelihood(), fit.question.units
    assert len(likelihood.constants) > 100  # the curvature is not known, and is integrated out
    centre = units.mixing @ fit.question.scaled_prior().mean + units.offset
    prior = np.linalg.inv(units.mixing @ fit.outcome.posterior.prior @ units.mixing.T)
    # Along the axes of the posterior, so that the grid holds all of it.
    root = np.linalg.cholesky(fit.covariance())
    steps = np.linspace(-9, 9, 181)
    grid = fit.mean() + np.stack(np.meshgrid(steps, steps), axis=-1).reshape(-1, 2) @ root.T
    log = likelihood.log_prob(grid) - np.einsum("ij,jk,ik->i", grid - centre, prior, grid - centre) / 2
    mass = np.exp(log - log.max())
    mass /= mass.sum()
    mean = mass @ grid
    np.testing.assert_allclose((mean - fit.mean()) / fit.std(), 0, atol=1e-3)
    np.testing.assert_allclose(np.sqrt(mass @ (grid - mean) ** 2), fit.std(), rtol=1e-2)
    at, step = fit.mean() + fit.std(), 1e-4 * fit.std()
    slopes = [
        likelihood.log_prob(at + s * row) - likelihood.log_prob(at - s * row)
        for s, row in zip(step, np.eye(2), strict=True)
    ]
    np.testing.assert_allclose(likelihood.gradient(at), slopes / step / 2, rtol=1e-6)
    with pytest.raises(InvalidInputError, match="2 entries on the last axis"):
        likelihood.log_prob([1.0, 2.0, 3.0])


def test_coordinates_of_a_round_are_checked_and_read() -> None:
    """A narrow column in wide bounds: the last round follows it, and the document says how."""
    generator = np.random.default_rng(3)
    x = generator.normal(0, 0.02, 4000)
    table = {"x": x, "y": np.clip(0.1 + 5 * x + generator.normal(0, 0.1, 4000), -1, 1)}
    question = regression("y ~ x", bounds={"x": (-1, 1), "y": (-1, 1)}, epsilon=1, delta=1e-6)
    found = question.fit(table, source=SeededEntropy(1))
    last = found.rounds[-1][0].link
    assert last.mixing
    low, high = (float(end[1]) for end in found.interval(0.999))
    assert low < 5 < high
    assert high - low < 6  # of about 20 where the noise follows the bounds
    assert Fit.from_json(found.to_json()) == found
    content = found.content()
    for wrong in ([0, 0, 0, 0], [1 << 45, 0, 0, 1 << 45], [4096, 0, 0], [1 << 70, 0, 0, 4096]):
        content["rounds"][-1]["mixing"] = wrong
        with pytest.raises((ValueError, InvalidInputError)):
            Fit.from_content(content)
