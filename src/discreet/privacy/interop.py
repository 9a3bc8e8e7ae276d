"""Conversions for other libraries: dp-accounting events and OpenDP measurements."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from discreet._numerics.enclosures import up
from discreet.errors import InvalidInputError, missing_extra
from discreet.privacy.composite_curves import Composed
from discreet.privacy.curves import Approximate, Curve


def dp_event(curve: Curve) -> Any:
    """Convert a curve to the dp-accounting event with the same privacy loss.

    Parameters
    ----------
    curve
        The curve.

    Returns
    -------
    dp_accounting.DpEvent
        A Gaussian loss is the Gaussian mechanism with noise multiplier 1/μ; pure ε is randomised response on
        two answers, the least private mechanism with that ε; a composition is the composition of its parts.

    Raises
    ------
    InvalidInputError
        If dp-accounting has no event for the curve.

    Notes
    -----
    Use it with ``RdpAccountant(neighboring_relation=REPLACE_ONE)``. Their ``PLDAccountant`` doubles the
    sensitivity of a Gaussian under that relation, which 1/μ already includes.
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
    """Build an OpenDP user measurement with the curve as its privacy map.

    Parameters
    ----------
    draw
        Function that draws the private output.
    curve
        Its privacy curve.

    Returns
    -------
    opendp.Measurement
        The input is whatever ``draw`` takes, and the distance is the number of records replaced. The output
        measure is the max divergence for pure ε and the zero-concentrated divergence for a Gaussian loss
        (both for several records too), the Rényi divergence for one record if another curve bounds it,
        and the pair (ε, δ) otherwise.

    Raises
    ------
    InvalidInputError
        If OpenDP has no measure for the curve.
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

    def _privacy_map(distance: Any) -> Any:
        records = int(distance)
        if records < 0 or (records > 1 and not several):
            raise ValueError("the loss of this measurement is stated for one replaced record")
        return loss(records)

    return dp.m.make_user_measurement(
        dp.user_domain("sufficient statistic", lambda _: True),
        dp.user_distance("replaced records"),
        measure,
        function=draw,
        privacy_map=_privacy_map,
    )
