"""Papers D: exact comparisons, witnesses and lemmas, and verdicts that can be otherwise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy.integrate import quad

from discreet import hellinger
from discreet.mechanisms.hellinger.sensitivity import local_sensitivity, step_distance
from discreet_reproductions.paper_d import dilation, local, propositions
from discreet_reproductions.report import Outcome, Row, Statement
from discreet_reproductions.running import Run

UNIFORM = (Fraction(1), Fraction(1))
PRIORS = [
    UNIFORM,
    (Fraction(1, 10), Fraction(1, 10)),
    (Fraction(73, 10), Fraction(73, 10)),
    (Fraction(7), Fraction(4)),
    (Fraction(3, 10), Fraction(2)),
]
STATEMENTS = propositions.StatementSettings(priors=(("1", "1"), ("0.3", "2")), largest=40, enumerated=8)
LOCAL = local.LocalSettings(
    priors=((1.0, 1.0), (0.01, 0.01)),
    epsilons=(0.1, 0.8),
    sizes=(2, 20, 60, 100),
    argument=(((1.0, 1.0), 5), ((1.0, 2.0, 3.0), 1), ((0.1, 0.1), 40)),
)
LEMMAS = dilation.Settings(shifts=41, sizes=(1, 2, 10), epsilons=(0.8, 5.0), deltas=(1e-6, 0.1))


def answers(statements: Sequence[Statement]) -> dict[str, str]:
    return {statement.name: statement.agrees for statement in statements}


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("n", [1, 2, 3, 8, 31])
def test_signs_are_those_of_the_distances(prior: tuple[Fraction, Fraction], n: int) -> None:
    x = np.arange(n)
    step = step_distance(float(prior[0]) + x, float(prior[1]) + x[::-1])
    expected = np.where(np.abs(np.diff(step)) < 1e-13, 0, np.sign(np.diff(step)))
    assert propositions.step_signs(prior, n).tolist() == expected.tolist()


def test_signs_refuse_what_does_not_fit() -> None:
    with pytest.raises(OverflowError):
        propositions.step_signs((Fraction(1, 10**6), Fraction(1)), 500)


def test_balanced_data_of_the_notes() -> None:
    assert propositions.balanced(UNIFORM, 10) == (5, 5)
    assert propositions.balanced(UNIFORM, 11) == (5, 6)
    assert propositions.balanced((Fraction(7), Fraction(4)), 11) == (4, 4)
    assert propositions.balanced((Fraction(7), Fraction(4)), 2) == (0, 0)


def test_exceptions_for_the_uniform_prior() -> None:
    for n in range(1, 30):
        found = {name: wrong for name, (_, wrong) in propositions.check_size(UNIFORM, n).items()}
        low, high = propositions.balanced(UNIFORM, n)
        assert not found["I, up"]
        assert not found["I, down as meant"]
        assert found["II, outward"] == [0, n]
        assert found["I, down as printed"] == [x for x in range(n - 1) if n - 2 <= 2 * x <= 2 * high]
        assert found["III"] == {2: [0, 2], 3: [0, 3]}.get(n, [])
        if n > 1 and low < high:
            assert set(found["II, both x0"]) == {0, low, high, n}


@pytest.mark.parametrize("prior", PRIORS)
def test_the_third_statement_against_floats(prior: tuple[Fraction, Fraction]) -> None:
    floats = (float(prior[0]), float(prior[1]))
    for n in (1, 2, 5, 6, 17):
        local = np.array([local_sensitivity((x, n - x), floats) for x in range(n + 1)])
        low, high = propositions.balanced(prior, n)
        others = [x for x in range(n + 1) if not low <= x <= high]
        expected = [x for x in others if local[x] <= local[low] * (1 + 1e-12)]
        assert propositions.check_size(prior, n)["III"] == (len(others), expected)


def test_far_steps_are_compared_exactly() -> None:
    assert propositions._is_farther(UNIFORM, 20, 0, 19) == 0  # mirror images
    assert propositions._is_farther(UNIFORM, 20, 0, 18) == 1 == -propositions._is_farther(UNIFORM, 20, 18, 0)


def test_the_two_steps_of_the_proof() -> None:
    assert propositions.check_polynomials(200) == (True, True)
    cases, wrong = propositions.check_induction(40)
    assert wrong == 0
    assert cases == sum(max(n // 2 - 2, 0) for n in range(2, 41, 2))


def test_statement_verdicts_can_change() -> None:
    rows = [row for prior in STATEMENTS.priors for row in propositions.check_prior(prior, STATEMENTS)]
    gaps = {"(1, 1)": propositions.definition_gap(("1", "1"), 8)}
    found = answers(propositions.proposition_statements(rows, gaps, (True, True), (5, 0)))
    assert found["I-up"] == found["I-down"] == found["definition"] == found["base-case"] == "yes"
    assert found["II"] == found["III"] == found["induction"] == "partly"
    wrong = [{**row, "exceptions": 1, "elsewhere": 1} for row in rows]
    changed = answers(propositions.proposition_statements(wrong, {"": 0.1}, (False, True), (5, 1)))
    assert set(changed.values()) == {"no"}


@pytest.mark.parametrize(("prior", "loss"), [(1.0, 0.5969), (0.1, 0.7328), (0.01, 0.7745)])
def test_losses_of_the_proof_page(prior: float, loss: float) -> None:
    assert local.local_loss((prior, prior), 50, [0.8])[0] == pytest.approx(loss, abs=5e-5)


def test_the_witness() -> None:
    assert local.local_loss((0.1, 0.1), 200, [0.8])[0] == pytest.approx(0.8214, abs=5e-5)


def test_the_smallest_size_by_bisection_is_the_smallest() -> None:
    losses = [local.local_loss((0.01, 0.01), n, [0.1])[0] for n in range(1, 48)]
    first = next(n for n, loss in enumerate(losses, 1) if loss > 0.1)
    assert local.first_excess({2: losses[1], 40: losses[39], 60: 1.0}, (0.01, 0.01), 0.1) == first == 47
    assert local.first_excess({2: 0.05}, (0.01, 0.01), 0.1) is None


def test_settings_reach_as_far_as_is_said() -> None:
    settings = propositions.StatementSettings()
    assert settings.largest == settings.quick().largest == 500
    for chosen in (settings, settings.quick()):
        assert ("1", "1") in chosen.priors
        assert any(Fraction(a).denominator > 1 and a != b for a, b in chosen.priors)
    assert local.LocalSettings().witness == ((0.1, 0.1), 200, 0.8)


def test_the_verdict_on_ehdl_can_say_no() -> None:
    rows = [{"prior": "(1, 1)", "n": 2, "epsilon": 0.8, "loss": 0.5, "ratio": 0.6}]
    none = [{"prior": "(1, 1)", "epsilon": 0.8, "n": None}]
    arguments = [local.chain((1.0, 1.0), 5, 0.8)]
    found = answers(local.local_statements(rows, none, arguments, (0.79, ""), LOCAL))
    assert found == {"not-private": "no", "smallest-sizes": "no", "argument": "no"}


def test_the_argument_of_the_notes() -> None:
    row = local.chain((1.0, 2.0, 3.0), 1, 0.8)
    assert row["as_assumed"] == 1
    assert row["last_holds"] == 0
    assert row["largest_true_as_assumed"] == pytest.approx(0.4163, abs=5e-5)
    row = local.chain((0.1, 0.1), 200, 0.8)
    assert row["as_assumed"] == row["first_holds"] == row["last_holds"] == 0 < row["pairs"]
    assert row["largest_true"] <= 0.8214 + 5e-5


@pytest.mark.parametrize(
    ("epsilon", "shift"), [(1.0, 0.3), (10.0, 1.7), (0.5, -0.4), (0.5, -0.2), (2.0, 0.0)]
)
def test_laplace_delta_against_quadrature(epsilon: float, shift: float) -> None:
    def gain(z: float) -> float:
        first, second = math.exp(-z), math.exp(shift - math.exp(shift) * z)
        return max(first - math.exp(epsilon / 2) * second, 0.0)

    cut = (epsilon / 2 + shift) / math.expm1(shift) if shift else 1.0
    exact, _ = quad(gain, 0, 60, points=[max(cut, 0.01)], limit=200)
    assert dilation.laplace_delta(epsilon, shift) == pytest.approx(exact, abs=1e-9)


def test_laplace_dilation_fails_from_its_critical_epsilon() -> None:
    version = dilation.VERSIONS["laplace-two"]
    critical = dilation.critical_epsilon(version, 0.1)
    for epsilon, broken in ((critical * 1.01, True), (critical * 0.99, False)):
        assert (dilation.laplace_delta(epsilon, version.beta(epsilon, 0.1)) > 0.05) is broken


def test_constants_of_the_lemmas() -> None:
    versions = dilation.VERSIONS
    assert [(v.inside, v.share) for v in versions.values()] == [(2.0, 0.5), (3.0, 0.5), (3.0, 1.0)]
    assert versions["laplace-two"].beta(1.0, 0.1) == pytest.approx(1 / (2 * math.log(20)))
    assert dilation.smoothing(0.8, 1e-3, 9) == pytest.approx(math.log(1 - 0.8 / (2 * math.log(1e-3 / 20))))


def test_sliding_by_a_whole_sensitivity_is_an_equality() -> None:
    """Δ = −S turns e^{ε/2} P[u = s + Δ] into P[u = s]: the excess is 0, and less for a larger Δ."""
    (row,) = [r for r in dilation.sliding_rows((1.0, 1.0), 6, 0.8, 0.01) if r["reading"] == "formula"]
    assert row["excess"] == pytest.approx(0, abs=1e-12)


def test_a_score_that_does_not_occur() -> None:
    """The example of the page on M_β: the score −0.463 has probability 0.401."""
    (row,) = [r for r in dilation.dilation_rows((1.0, 1.0), 1, 0.8, 1e-6) if r["reading"] == "score"]
    assert row["excess"] == pytest.approx(0.401, abs=5e-4)
    assert not row["holds"]


@pytest.mark.parametrize(("prior", "n", "x"), [((1.0, 1.0), 4, 2), ((7.0, 4.0), 5, 1), ((7.0, 4.0), 5, 3)])
def test_probabilities_of_scores(prior: tuple[float, float], n: int, x: int) -> None:
    scores = dilation._Scores(prior, n, 0.8, 0.01)
    a = np.array(prior)
    distance = np.array([hellinger(a + np.array([x, n - x]), a + np.array([j, n - j])) for j in range(n + 1)])
    for j in range(n + 1):
        same = np.abs(distance - distance[j]) < 1e-10
        assert scores.of_score[x, j] == pytest.approx(scores.distribution[x, same].sum())


def test_dilation_at_the_boundary_is_the_worst() -> None:
    scores = dilation._Scores((1.0, 1.0), 10, 5.0, 0.1)
    (row,) = [r for r in dilation.dilation_rows((1.0, 1.0), 10, 5.0, 0.1) if r["reading"] == "formula"]
    for share in (-1.0, -0.3, 0.0, 0.5, 0.99):
        dilated = scores.formula(math.exp(share * scores.beta) * scores.distance)
        assert (scores.distribution - math.exp(2.5) * dilated).max() <= row["excess"] + 1e-15


def test_lemma_verdicts_and_that_they_can_change() -> None:
    laplace = dilation.laplace_rows(LEMMAS)
    rows: list[Row] = []
    for n in LEMMAS.sizes:
        for epsilon in LEMMAS.epsilons:
            for lemma in (dilation.sliding_rows, dilation.dilation_rows):
                rows += lemma((1.0, 1.0), n, epsilon, 1e-6)
    found = answers(dilation.verdicts(laplace, rows, [], own=True))
    assert found["laplace-two"] == found["laplace-quantile"] == found["laplace-whole"] == "partly"
    for name in ("sliding-formula", "sliding-candidate", "dilation-formula", "dilation-set"):
        assert found[name] == "yes"
    for name in (
        "sliding-unbounded",
        "sliding-score",
        "sliding-attained",
        "dilation-score",
        "dilation-unbounded",
    ):
        assert found[name] == "no"
    worse = [{**row, "ratio": 2.0} for row in laplace]
    broken = [{**row, "holds": False, "excess": 1.0} for row in rows]
    assert set(answers(dilation.verdicts(worse, broken, [], own=False)).values()) == {"no"}
    mended = [{**row, "holds": True} for row in rows]
    better = [{**row, "ratio": 0.5} for row in laplace]
    found = answers(dilation.verdicts(better, mended, [], own=True))
    assert {name for name, agrees in found.items() if agrees != "yes"} == {"bound of the ratio"}


def test_the_condition_of_the_notes_is_exact() -> None:
    assert dilation.check_own_condition((1.0, 1.0), 12, 0.8, 1e-3, (0.01, 0.1, 0.5))


@pytest.mark.parametrize("name", ["d-statements", "d-local", "d-dilation"])
def test_an_outcome_is_whole(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = {
        "d-statements": (propositions.StatementSettings, STATEMENTS, propositions.statements),
        "d-local": (local.LocalSettings, LOCAL, local.local),
        "d-dilation": (dilation.Settings, LEMMAS, dilation.lemmas),
    }
    settings, value, function = tiny[name]
    monkeypatch.setattr(settings, "quick", lambda self: value)
    outcome: Outcome = function(Run(name, quick=True))
    assert 0 < len(outcome.verdict) <= 200
    assert all(len({tuple(row) for row in table}) == 1 and table for table in outcome.tables.values())
    assert outcome.plots[""].axes
    assert "" in outcome.tables
    assert all(s.claim and s.source and s.measured for s in outcome.statements)
    assert len({s.name for s in outcome.statements}) == len(outcome.statements)
    if name == "d-local":
        assert answers(outcome.statements) == {
            "not-private": "yes",
            "smallest-sizes": "partly",
            "argument": "no",
        }
