"""Private logistic regression from a table, charged to a ledger where there is one."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from discreet._typing import EpsilonLike
from discreet.data.rows import as_number, read_rows
from discreet.declarations import Domain, as_bounds, as_size
from discreet.errors import DataError, InvalidInput
from discreet.questions.answering import Prepared, answered
from discreet.regression.release import LogisticRelease

if TYPE_CHECKING:
    from discreet.ledger.charging import LedgerLike

__all__ = ["release_logistic"]


def release_logistic(
    data: Any,
    *,
    target: str,
    classes: Sequence[Any],
    features: Mapping[str, tuple[float, float]],
    epsilon: EpsilonLike,
    delta: EpsilonLike | None = None,
    order: float | None = None,
    method: str = "diffuse",
    sampler: str = "auto",
    prior_precision: float = 1.0,
    norm_bound: float | None = None,
    draws: int = 1,
    n: int | None = None,
    ledger: LedgerLike | None = None,
    dataset: str | None = None,
    request_id: str | None = None,
) -> LogisticRelease:
    """Coefficients of a private logistic regression of column ``target`` on the columns ``features``.

    ``classes`` are declared, and so are the bounds (low, high) of each feature, which is clipped to them and
    mapped to [−1, 1]; ``norm_bound`` clips whole rows and is √d, which clips none, if not given. The rest is
    as in :class:`discreet.PrivateLogisticRegression`. Unlike counts and sums, the records are fetched from
    the engine; what leaves this function are the draws.
    """
    from discreet.regression import PrivateLogisticRegression

    labels = [str(label) for label in Domain(classes).levels]
    if not isinstance(features, Mapping) or not features:
        raise InvalidInput("features must map each column to its bounds, such as {'age': (0, 120)}")
    bounds = {column: as_bounds(limits, f"column {column!r}") for column, limits in features.items()}
    if target in bounds:
        raise InvalidInput(f"target={target!r} cannot be a feature too")
    reach = math.sqrt(len(bounds)) if norm_bound is None else norm_bound
    size = None if n is None else as_size(n)
    estimator = PrivateLogisticRegression(
        epsilon=epsilon,
        delta=delta,
        order=order,
        method=method,
        sampler=sampler,
        prior_precision=prior_precision,
        norm_bound=reach,
        draws=draws,
        n=size,
        classes=labels,
        multi_class="ovr" if len(labels) > 2 else None,
    )

    def prepare() -> Prepared[LogisticRelease]:
        def make() -> LogisticRelease:
            rows = read_rows(data, [target, *bounds])
            found = [str(row[0]) for row in rows]
            strange = sum(label not in labels for label in found)
            if strange:
                raise DataError(
                    f"{strange} of {len(rows)} records have a target outside the declared classes"
                )
            low, high = (np.array(ends) for ends in zip(*bounds.values(), strict=True))
            values = np.array([[as_number(value) for value in row[1:]] for row in rows])
            missing = int(np.isnan(values).any(axis=1).sum())
            if missing:
                raise DataError(f"{missing} of {len(rows)} records have a feature that is no number")
            scaled = 2 * (np.clip(values, low, high) - low) / (high - low) - 1
            estimator.fit(scaled, np.array(found))
            return replace(estimator.release_, features=tuple(bounds))

        return estimator.price(draws), make

    plan = {
        "question": "logistic",
        "target": target,
        "classes": labels,
        "features": {column: list(limits) for column, limits in bounds.items()},
        "epsilon": str(epsilon),
        "delta": None if delta is None else str(delta),
        "order": order,
        "method": method,
        "sampler": sampler,
        "prior_precision": prior_precision,
        "norm_bound": norm_bound,
        "draws": draws,
        "n": size,
    }
    return answered(prepare, LogisticRelease.from_json, plan, ledger, dataset, request_id)
