"""To other libraries: a curve as an event of dp-accounting, a mechanism as a measurement of OpenDP, draws as
inference data of ArviZ."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from discreet._numerics.enclosures import up
from discreet.errors import InvalidInputError, missing_extra
from discreet.privacy.composite_curves import Composed
from discreet.privacy.curves import Approximate, Curve


def dp_event(curve: Curve) -> Any:
    """The event whose privacy loss is that of the curve.

    A Gaussian loss is the Gaussian mechanism with noise multiplier 1/μ; pure ε is randomised response on two
    answers, the worst mechanism with that ε; a composition is the composition of its parts. Made for
    ``RdpAccountant(neighboring_relation=REPLACE_ONE)``: their ``PLDAccountant`` doubles the sensitivity of a
    Gaussian under that relation, and 1/μ has it inside already.
    """
    try:
        from dp_accounting import dp_event as events
    except ImportError:
        raise missing_extra("dp-accounting", "accounting") from None
    square = curve.gaussian_squared
    if square is not None:
        return events.GaussianDpEvent(1 / math.sqrt(square)) if square else events.NoOpDpEvent()
    if isinstance(curve, Approximate) and curve.delta == 0:
        return events.RandomizedResponseDpEvent(2 / (1 + math.exp(min(up(curve.epsilon), 700.0))), 2)
    if isinstance(curve, Composed):
        parts = [(dp_event(part), count) for part, count in curve.parts]
        return events.ComposedDpEvent(
            [event if count == 1 else events.SelfComposedDpEvent(event, count) for event, count in parts]
        )
    raise InvalidInputError(
        f"dp-accounting has no event for a curve of kind {curve.kind!r}; it has them for pure epsilon, for "
        "Gaussian losses and for compositions of these. Convert instead: guarantee.epsilon_at(delta)"
    )


def opendp_measurement(draw: Callable[[Any], Any], curve: Curve) -> Any:
    """A user measurement of OpenDP: ``draw`` with the curve as its privacy map.

    Input: whatever ``draw`` takes; distance: the number of records replaced. Output: pure ε under the max
    divergence, a Gaussian loss under the zero-concentrated divergence (both also for several records), any
    other curve under the Rényi divergence for one record, and what is only (ε, δ) as that pair.
    """
    try:
        import opendp.prelude as dp
    except ImportError:
        raise missing_extra("OpenDP", "opendp") from None
    dp.enable_features("contrib", "honest-but-curious")

    square = curve.gaussian_squared
    measure: Any
    loss: Callable[[int], Any]
    several = True
    if isinstance(curve, Approximate) and curve.delta == 0:
        measure, loss = dp.max_divergence(), lambda records: up(records * curve.epsilon)
    elif square is not None:
        measure, loss = dp.zero_concentrated_divergence(), lambda records: up(records**2 * square / 2)
    elif curve.max_order > 1:
        measure, several = dp.renyi_divergence(), False
        loss = lambda records: lambda order: curve.rdp(order) if records else 0.0  # noqa: E731
    elif isinstance(curve, Approximate):
        pair = up(curve.epsilon), up(curve.delta)
        measure, several = dp.fixed_smoothed_max_divergence(), False
        loss = lambda records: pair if records else (0.0, 0.0)  # noqa: E731
    else:
        raise InvalidInputError(
            "OpenDP has no measure for this curve; convert it to one pair: guarantee.to_dp(delta)"
        )

    def privacy_map(distance: Any) -> Any:
        records = int(distance)
        if records < 0 or (records > 1 and not several):
            raise ValueError("the loss of this measurement is stated for one replaced record")
        return loss(records)

    return dp.m.make_user_measurement(
        dp.user_domain("sufficient statistic", lambda _: True),
        dp.user_distance("replaced records"),
        measure,
        function=draw,
        privacy_map=privacy_map,
    )
