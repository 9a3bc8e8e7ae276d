"""Composition of guarantees: exact sums, random histories against dp-accounting, products of exact
distributions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import discreet
from discreet import Guarantee, compose
from discreet._declarations import Relation
from discreet.errors import BudgetExceededError, InvalidInputError, NotPrivateError
from discreet.privacy.composite_curves import Composed
from discreet.privacy.composition import Odometer, parallel
from discreet.privacy.curves import Gaussian

HALF = Guarantee(Fraction(1, 2))
GAUSS = Guarantee(None, curve=Gaussian(Fraction(1, 4)))
REMOVAL = Guarantee(Fraction(1, 2), Relation.ADD_REMOVE)


def test_pure_sums_are_exact() -> None:
    tenths = [Guarantee(Fraction(1, 10))] * 30
    total = compose(tenths)
    assert total.exact_epsilon == 3
    assert total.exact_delta == 0
    thirds = compose([Guarantee(Fraction(1, 3), exact_delta=Fraction(1, 10**9))], count=3)
    assert (thirds.exact_epsilon, thirds.exact_delta) == (1, Fraction(3, 10**9))


def test_count_is_repetition() -> None:
    for guarantee in (HALF, GAUSS, Guarantee(Fraction(1), exact_delta=Fraction(1, 1000))):
        assert compose([guarantee], count=7) == compose([guarantee] * 7)
    sampler = discreet.posterior_sampler("diffused", "beta", prior=(6, 12), n=100, epsilon=1, order=15)
    repeated, counted = compose([sampler.guarantee] * 4), compose([sampler.guarantee], count=4)
    assert repeated == counted
    assert counted.rdp(10) == pytest.approx(4 * sampler.guarantee.rdp(10))


def test_mechanism_with_count_is_that_many_products() -> None:
    """The lattice mechanism three times: the claim of the composition against the exact product
    distribution."""
    mechanism = discreet.mechanism("lattice", prior=(1, 1), n=4, epsilon="0.7")
    claim = compose([mechanism.guarantee], count=3)
    for x in range(4):
        distributions = []
        for counts in ((x, 4 - x), (x + 1, 3 - x)):
            _, logs = mechanism.log_pmf(counts)
            distributions.append(np.exp(logs))
        p = [math.prod(outcome) for outcome in itertools.product(distributions[0], repeat=3)]
        q = [math.prod(outcome) for outcome in itertools.product(distributions[1], repeat=3)]
        for epsilon in (0.0, 0.5, 1.0, 1.7, 2.1):
            for first, second in ((p, q), (q, p)):
                delta = math.fsum(
                    max(0.0, a - math.exp(epsilon) * b) for a, b in zip(first, second, strict=True)
                )
                assert delta <= claim.delta_at(epsilon) + 1e-12


def test_composition_of_profiles_covers_products_of_audited_distributions() -> None:
    """Different mechanisms on the same counts, every pair of neighbours, by brute force."""
    built = [
        discreet.mechanism("lattice", prior=(1, 1), n=3, epsilon="0.4"),
        discreet.mechanism("lshist", prior=(1, 1), n=3, epsilon="1.1"),
        discreet.mechanism("ehd", prior=(1, 1), n=3, epsilon="0.8"),
    ]
    claim = compose([mechanism.guarantee for mechanism in built])
    for x in range(3):
        rows = [[np.exp(m.log_pmf(c)[1]) for c in ((x, 3 - x), (x + 1, 2 - x))] for m in built]
        p = np.multiply.outer(np.multiply.outer(rows[0][0], rows[1][0]), rows[2][0])
        q = np.multiply.outer(np.multiply.outer(rows[0][1], rows[1][1]), rows[2][1])
        for epsilon in (0.0, 0.6, 1.5, 2.2):
            for first, second in ((p, q), (q, p)):
                delta = float(np.maximum(first - math.exp(epsilon) * second, 0).sum())
                assert delta <= claim.delta_at(epsilon) + 1e-12


def random_history(rng: np.random.Generator) -> list[Guarantee]:
    history: list[Guarantee] = []
    for _ in range(int(rng.integers(1, 7))):
        if rng.random() < 0.5:
            history.append(Guarantee(Fraction(int(rng.integers(1, 300)), 100)))
        else:
            history.append(Guarantee(None, curve=Gaussian(Fraction(int(rng.integers(1, 400)), 100) ** 2 / 4)))
    return history


def compare_with_dp_accounting(seed: int, histories: int) -> None:
    """Random histories: the Rényi curve converted, ours and theirs through the event we hand over."""
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    rng = np.random.default_rng(seed)
    orders = [1.5, 2.0, 4.0, 16.0, 64.0, 256.0]
    for _ in range(histories):
        history = random_history(rng)
        total = compose(history)
        accountant = RdpAccountant(orders, neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
        accountant.compose(total.to_dp_event())
        ours = [
            total.rdp(order) + math.log1p(-1 / order) - math.log(1e-6 * order) / (order - 1)
            for order in orders
        ]
        theirs = accountant.get_epsilon(1e-6)
        assert max(0.0, min(ours)) == pytest.approx(theirs, rel=1e-6)
        assert total.effective_curve.rdp_epsilon_at(1e-6) <= theirs * (1 + 1e-9)
        pure = [part.exact_epsilon for part in history]
        if None not in pure:
            assert total.exact_epsilon == sum(pure, Fraction(0))


def test_random_histories_against_dp_accounting() -> None:
    compare_with_dp_accounting(5, 300)


@pytest.mark.slow
def test_ten_thousand_histories_against_dp_accounting() -> None:
    compare_with_dp_accounting(6, 10_000)


def compare_with_loss_distributions(seed: int, histories: int) -> None:
    """(ε, δ) of random histories by convolution; theirs is pessimistic by its grid of 1e-4 per output."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    rng = np.random.default_rng(seed)
    for _ in range(histories):
        history = random_history(rng)
        total = compose(history)
        theirs = pld.identity()
        for part in history:
            if part.mu is not None:
                theirs = theirs.compose(pld.from_gaussian_mechanism(1 / part.mu))
            else:
                theirs = theirs.compose(pld.from_randomized_response(2 / (1 + math.exp(part.epsilon)), 2))
        epsilon = theirs.get_epsilon_for_delta(1e-6)
        assert total.epsilon_at(1e-6) == pytest.approx(epsilon, rel=2e-3)
        assert total.epsilon_at(1e-6) <= epsilon * (1 + 1e-4)


def test_histories_against_loss_distributions_of_dp_accounting() -> None:
    compare_with_loss_distributions(11, 4)


@pytest.mark.slow
def test_more_histories_against_loss_distributions_of_dp_accounting() -> None:
    compare_with_loss_distributions(12, 60)


def test_many_small_outputs_cost_less_than_their_sum() -> None:
    total = compose([Guarantee(Fraction(1, 10))], count=100)
    assert total.epsilon == 10
    assert total.epsilon_at(1e-6) < 6
    pair = total.to_dp("1e-6")
    assert pair.exact_delta == Fraction(1, 10**6)
    assert pair.delta_at(pair.epsilon) <= 1e-6


def test_relations_never_mix() -> None:
    for combine in (compose, parallel):
        with pytest.raises(InvalidInputError, match="add-remove and replace-one"):
            combine([HALF, REMOVAL])
    with pytest.raises(InvalidInputError, match="add-remove cannot be spent"):
        Odometer(1).spend(REMOVAL)


def test_nothing_to_compose_and_wrong_things() -> None:
    with pytest.raises(InvalidInputError, match="guarantees must not be empty"):
        compose([])
    with pytest.raises(InvalidInputError, match="must be Guarantee objects"):
        compose([0.5])  # type: ignore[list-item]
    for count in (0, -1, 1.5, True):
        with pytest.raises(InvalidInputError, match="count"):
            compose([HALF], count=count)  # type: ignore[arg-type]


def test_no_guarantee_stays_none() -> None:
    nothing = Guarantee(None)
    assert not compose([HALF, nothing]).is_private
    assert not parallel([HALF, nothing]).is_private
    with pytest.raises(InvalidInputError, match="no differential privacy guarantee"):
        nothing.rdp(2)


def test_parallel_is_the_largest_with_its_assumption() -> None:
    total = parallel([HALF, Guarantee(Fraction(2), exact_delta=Fraction(1, 10**6)), HALF])
    assert (total.epsilon, total.delta) == (2.0, 1e-6)
    assert any("part" in assumption for assumption in total.assumptions)
    assert parallel([REMOVAL, REMOVAL]).assumptions == ()
    curves = parallel([GAUSS, Guarantee(None, curve=Gaussian(Fraction(1)))])
    assert curves.rdp(3) == pytest.approx(1.5)
    assert curves.epsilon_at(1e-6) == Gaussian(Fraction(1)).epsilon_at(1e-6)


def test_zcdp() -> None:
    assert HALF.zcdp() == Fraction(1, 8)
    assert GAUSS.zcdp() == Fraction(1, 8)
    assert compose([HALF, GAUSS, HALF]).zcdp() == Fraction(3, 8)
    assert Guarantee(Fraction(1), exact_delta=Fraction(1, 9)).zcdp() is None
    assert Guarantee(None).zcdp() is None
    sampler = discreet.posterior_sampler("direct", "beta", prior=(6, 12), n=10)
    assert sampler.guarantee.zcdp() is None


# The odometer.


def test_odometer_counts_exactly_and_refuses() -> None:
    odometer = Odometer(1)
    for _ in range(10):
        odometer.spend(Guarantee(Fraction(1, 10)))
    assert odometer.spent == 1.0
    assert odometer.remaining == 0.0
    with pytest.raises(BudgetExceededError, match="would make it") as refused:
        odometer.spend(Guarantee(Fraction(1, 10**30)))
    assert refused.value.cap == 1
    assert len(odometer.history) == 10


def test_odometer_by_sums_counts_delta_too() -> None:
    odometer = Odometer(5, delta="2e-6")
    step = Guarantee(Fraction(1), exact_delta=Fraction(1, 10**6))
    odometer.spend(step)
    odometer.spend(step)
    with pytest.raises(BudgetExceededError, match="delta 3e-06"):
        odometer.spend(step)
    with pytest.raises(InvalidInputError, match="renyi"):
        odometer.spend(GAUSS)


def test_renyi_odometer_admits_more_small_steps_and_stays_valid() -> None:
    step = Guarantee(Fraction(1, 200))
    by_sum, by_curve = Odometer(1, delta="1e-6"), Odometer(1, delta="1e-6", accounting="renyi")

    def admitted(odometer: Odometer) -> int:
        while True:
            try:
                odometer.spend(step)
            except BudgetExceededError:
                return len(odometer.history)

    assert admitted(by_sum) == 200
    number = admitted(by_curve)
    assert number > 400
    assert compose([step], count=number).epsilon_at(1e-6) <= 1
    assert 0 <= by_curve.remaining < 1 / 200
    by_curve.spend(Guarantee(Fraction(by_curve.remaining)))


def test_each_order_of_the_odometer_takes_its_share_of_delta() -> None:
    odometer = Odometer(100, delta="1e-6", accounting="renyi")
    odometer.spend(GAUSS)
    share = math.log(1e-6 / len(odometer.orders))
    wanted = min(
        order / 8 + math.log1p(-1 / order) - (share + math.log(order)) / (order - 1)
        for order in odometer.orders
    )
    assert odometer.spent == pytest.approx(wanted, rel=1e-9)


def test_the_smallest_delta_has_shares_too() -> None:
    """A twelfth of it is 0 to a double, whose logarithm was an error that is not ours."""
    odometer = Odometer(epsilon=600, delta="5e-324", accounting="renyi")
    odometer.spend(Guarantee(Fraction(1, 10)))
    assert 0.1 <= odometer.spent <= 600
    assert Odometer(epsilon=1, delta="5e-324", accounting="renyi").remaining >= 0


def test_an_order_without_a_bound_is_of_no_use_to_the_odometer() -> None:
    odometer = Odometer(100, delta="1e-6", accounting="renyi")
    with pytest.raises(BudgetExceededError):
        odometer.spend(Guarantee(Fraction(1), exact_delta=Fraction(1, 10)))
    assert not odometer.history


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0}, "epsilon=0"),
        ({"epsilon": 1, "delta": 1}, "delta=1"),
        ({"epsilon": 1, "accounting": "magic"}, "accounting='magic'"),
        ({"epsilon": 1, "accounting": "renyi"}, "delta above 0"),
    ],
)
def test_bad_odometer(options: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Odometer(**options)  # type: ignore[arg-type]
    with pytest.raises(NotPrivateError):
        Odometer(1).spend(Guarantee(None))


# Guarantees with curves.


def test_guarantee_text_and_round_trip() -> None:
    total = compose([HALF, GAUSS], count=2)
    assert isinstance(total.curve, Composed)
    assert Guarantee.from_dict(total.to_dict()) == total
    assert "δ = 1e-6" in str(total)
    assert "additive 1e-6" in total.meaning()
    assert str(HALF) == "ε = 0.5 (replace-one)"
    with pytest.raises(InvalidInputError, match="no finite epsilon"):
        total.to_dp(0)
    assert HALF.to_dp(0) is HALF


# Other libraries.


def test_events() -> None:
    from dp_accounting import dp_event

    assert GAUSS.to_dp_event() == dp_event.GaussianDpEvent(2.0)
    noise = HALF.to_dp_event().noise_parameter
    assert math.log((2 - noise) / noise) == pytest.approx(0.5)
    both = compose([HALF, HALF, GAUSS]).to_dp_event()
    assert isinstance(both, dp_event.ComposedDpEvent)
    sampler = discreet.posterior_sampler("direct", "beta", prior=(6, 12), n=10)
    with pytest.raises(InvalidInputError, match="no event"):
        sampler.guarantee.to_dp_event()


def test_opendp_measurements() -> None:
    lattice = discreet.mechanism("lattice", prior=(1, 1), n=10, epsilon="0.5").to_opendp()
    assert sum(lattice([3, 7])) == 10
    assert (lattice.map(0), lattice.map(1), lattice.map(3)) == (0.0, 0.5, 1.5)
    mean = discreet.posterior_sampler("direct", "gaussian", prior=(0, 1), n=10, sigma=1, bounds=(0, 1))
    assert mean.to_opendp().map(2) == pytest.approx(4 * mean.guarantee.mu**2 / 2)
    beta = discreet.posterior_sampler("direct", "beta", prior=(6, 12), n=10)
    curve = beta.to_opendp().map(1)
    assert curve(3.0) == pytest.approx(beta.guarantee.rdp(3))
    assert 0 < beta.to_opendp()(4)[0] < 1
    with pytest.raises(Exception, match="one replaced record"):
        beta.to_opendp().map(2)
    with pytest.raises(NotPrivateError):
        discreet.mechanism("ehdl", prior=(1, 1), n=10, epsilon=1).to_opendp()
