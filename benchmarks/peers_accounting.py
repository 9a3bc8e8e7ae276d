"""Conversions and compositions by dp-accounting. Run by peers.py in the environment that has it.

    python peers_accounting.py < jobs.jsonl > results.jsonl

A job is a line of JSON with ``delta`` and either ``parts``, pairs of a loss ({"mu": …} or {"epsilon": …}) and
how often it occurs, or ``rdp``, pairs of an order and the Rényi divergence at it. A result has ε by the Rényi
accountant and by the privacy-loss distribution, each with the time it took; the second time of two, so that
nothing is measured that happens once.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable
from typing import Any


def by_rdp(job: dict[str, Any]) -> float:
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant, compute_epsilon

    if "rdp" in job:
        orders, values = zip(*job["rdp"], strict=True)
        return float(compute_epsilon(orders, values, job["delta"])[0])
    accountant = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    for loss, count in job["parts"]:
        if "mu" in loss:
            event = dp_accounting.GaussianDpEvent(1 / loss["mu"])
        else:  # the worst mechanism with this ε
            event = dp_accounting.RandomizedResponseDpEvent(2 / (1 + math.exp(loss["epsilon"])), 2)
        accountant.compose(event, count)
    return float(accountant.get_epsilon(job["delta"]))


def by_loss_distribution(job: dict[str, Any]) -> float:
    from dp_accounting.pld import privacy_loss_distribution as pld

    total = pld.identity()
    for loss, count in job["parts"]:
        if "mu" in loss:
            one = pld.from_gaussian_mechanism(1 / loss["mu"])
        else:
            one = pld.from_randomized_response(2 / (1 + math.exp(loss["epsilon"])), 2)
        total = total.compose(one.self_compose(count))
    return float(total.get_epsilon_for_delta(job["delta"]))


def timed(call: Callable[[], float]) -> dict[str, float]:
    call()
    start = time.perf_counter()
    epsilon = call()
    return {"epsilon": epsilon, "seconds": time.perf_counter() - start}


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        result = {"rdp": timed(lambda job=job: by_rdp(job))}
        if "parts" in job:
            result["pld"] = timed(lambda job=job: by_loss_distribution(job))
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
