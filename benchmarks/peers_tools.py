"""One release by each tool, as its documentation recommends it. Run by peers.py in each tool's environment.

    python peers_tools.py [BYTES OF ADDRESS SPACE] < jobs.jsonl > results.jsonl

A job is a line of JSON with ``tool`` (a name of TOOLS), ``prior``, ``epsilon``, ``rows`` (counts; each row is
one release), ``repetitions`` of all rows, and ``seconds`` after which no more releases are made once
``at_least`` of them are. A result has the released counts, the time of the first release with everything
that it sets up except imports, the median time of the others, and the peak memory of this process.

All guarantees are for replacing one of n records, n public. Every tool returns k counts in [0, n]; added to
the prior they are the parameters of the released posterior. Needs NumPy and the tool itself, nothing else.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

Counts = tuple[int, ...]
Prior = tuple[float, ...]
Release = Callable[[Counts], dict[str, Any]]
"""From true counts to the released ones (``counts``) and whatever else was published (``noisy``)."""


def clamp(values: Sequence[float], n: int) -> list[int]:
    return [min(max(int(value), 0), n) for value in values]


# ---- discreet ------------------------------------------------------------------------------------------


def discreet_lattice(prior: Prior, n: int, epsilon: float, sensitivity: float) -> Release:
    import discreet

    m = discreet.mechanism("lattice", prior=prior, n=n, epsilon=str(epsilon))

    def release(counts: Counts) -> dict[str, Any]:
        output = m.run(counts)
        return {"counts": output.counts, "noisy": output.noisy}

    return release


def discreet_ehd(prior: Prior, n: int, epsilon: float, sensitivity: float) -> Release:
    import discreet

    m = discreet.mechanism("ehd", prior=prior, n=n, epsilon=str(epsilon))
    return lambda counts: {"counts": m.draw(counts)}


# ---- OpenDP --------------------------------------------------------------------------------------------


def opendp_noise(sensitivity: int, epsilon: float) -> Any:
    """Discrete Laplace noise on a vector of counts whose ℓ1 sensitivity is given."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    noise = dp.m.make_laplace(*space, scale=sensitivity / epsilon)
    assert noise.map(sensitivity) <= epsilon * (1 + 1e-9)
    return noise


def opendp_counts(prior: Prior, n: int, epsilon: float, sensitivity: float) -> Release:
    """Noise on all k counts: a replaced record moves two of them by one, ℓ1 sensitivity 2."""
    noise = opendp_noise(2, epsilon)
    return lambda counts: {"counts": clamp(noise(list(counts)), n)}


def opendp_known_total(prior: Prior, n: int, epsilon: float, sensitivity: float) -> Release:
    """Noise on the first k − 1 counts, the last is what is left of n; ℓ1 sensitivity 1 for k = 2, else 2."""
    noise = opendp_noise(1 if len(prior) == 2 else 2, epsilon)

    def release(counts: Counts) -> dict[str, Any]:
        first = clamp(noise(list(counts[:-1])), n)
        return {"counts": [*first, *clamp([n - sum(first)], n)]}

    return release


def opendp_noisy_max(prior: Prior, n: int, epsilon: float, sensitivity: float) -> Release:
    """Private selection among all candidates by permute-and-flip, scores −H, ℓ∞ sensitivity as given."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.linf_distance(T=float)
    select = dp.m.make_noisy_max(*space, dp.max_divergence(), scale=2 * sensitivity / epsilon)
    assert select.map(sensitivity) <= epsilon * (1 + 1e-9)

    def release(counts: Counts) -> dict[str, Any]:
        rows, scores = scored_candidates(prior, counts)
        return {"counts": rows[select(scores)].tolist()}

    return release


# ---- diffprivlib ---------------------------------------------------------------------------------------


def diffprivlib_histogram(prior: Prior, n: int, epsilon: float, sensitivity: float) -> Release:
    """Its histogram takes sensitivity 1 per bin: ε for adding or removing a record. Replacing one moves two
    bins, so ε/2 is what makes it ε here."""
    from diffprivlib.tools import histogram

    k = len(prior)

    def release(counts: Counts) -> dict[str, Any]:
        records = np.repeat(np.arange(k), counts)
        noisy, _ = histogram(records, epsilon=epsilon / 2, bins=k, range=(-0.5, k - 0.5))
        return {"counts": clamp(noisy.tolist(), n)}

    return release


def diffprivlib_exponential(prior: Prior, n: int, epsilon: float, sensitivity: float) -> Release:
    """Its exponential mechanism over all candidates, utilities −H; set up once per dataset."""
    from diffprivlib.mechanisms import Exponential

    @lru_cache(maxsize=1)
    def prepared(counts: Counts) -> tuple[np.ndarray, Any]:
        rows, scores = scored_candidates(prior, counts)
        return rows, Exponential(epsilon=epsilon, sensitivity=sensitivity, utility=scores)

    def release(counts: Counts) -> dict[str, Any]:
        rows, mechanism = prepared(counts)
        return {"counts": rows[mechanism.randomise()].tolist()}

    return release


# ---- candidates for the peers, vectorised --------------------------------------------------------------


def compositions(n: int, k: int) -> np.ndarray:
    """All rows of k non-negative whole numbers that sum to n."""
    rows = np.arange(n + 1, dtype=np.int32)[:, None]
    for _ in range(k - 2):
        left = n - rows.sum(axis=1) + 1
        repeated = np.repeat(np.arange(len(rows)), left)
        last = np.arange(len(repeated)) - np.repeat(np.cumsum(left) - left, left)
        rows = np.concatenate([rows[repeated], last[:, None].astype(np.int32)], axis=1)
    return np.concatenate([rows, n - rows.sum(axis=1, keepdims=True, dtype=np.int32)], axis=1)


@lru_cache(maxsize=1)
def scored_candidates(prior: Prior, counts: Counts) -> tuple[np.ndarray, list[float]]:
    """The counts of all candidate posteriors and −H to each of them, from one table per level."""
    n = sum(counts)
    rows = compositions(n, len(prior))
    gap = np.zeros(len(rows))
    for a, c, column in zip(prior, counts, rows.T, strict=True):
        own = math.lgamma(a + c)
        table = [(own + math.lgamma(a + b)) / 2 - math.lgamma(a + (b + c) / 2) for b in range(n + 1)]
        gap += np.array(table)[column]
    return rows, (-np.sqrt(-np.expm1(-np.maximum(gap, 0.0)))).tolist()


# ---- the naive way -------------------------------------------------------------------------------------


def naive_candidates(n: int, k: int) -> Iterator[Counts]:
    if k == 1:
        yield (n,)
        return
    for first in range(n + 1):
        for rest in naive_candidates(n - first, k - 1):
            yield (first, *rest)


def naive_distance(prior: Prior, a: Counts, b: Counts) -> float:
    """Hellinger distance between Dir(prior + a) and Dir(prior + b) with equal totals."""
    gap = 0.0
    for p, x, y in zip(prior, a, b, strict=True):
        gap += (math.lgamma(p + x) + math.lgamma(p + y)) / 2 - math.lgamma(p + (x + y) / 2)
    return math.sqrt(max(0.0, 1 - math.exp(-gap)))


def naive_distribution(
    prior: Prior, counts: Counts, epsilon: float, sensitivity: float
) -> tuple[list[Counts], list[float]]:
    """The exponential mechanism as research code does it: a list of all candidates, plain Python, floats."""
    candidates = list(naive_candidates(sum(counts), len(counts)))
    rate = epsilon / (2 * sensitivity)
    weights = [math.exp(-rate * naive_distance(prior, counts, candidate)) for candidate in candidates]
    total = sum(weights)
    return candidates, [weight / total for weight in weights]


def naive_enumeration(prior: Prior, n: int, epsilon: float, sensitivity: float) -> Release:
    distribution = lru_cache(maxsize=1)(naive_distribution)

    def release(counts: Counts) -> dict[str, Any]:
        candidates, probabilities = distribution(prior, counts, epsilon, sensitivity)
        return {"counts": random.choices(candidates, probabilities)[0]}

    return release


TOOLS: dict[str, Callable[[Prior, int, float, float], Release]] = {
    "discreet lattice": discreet_lattice,
    "discreet ehd": discreet_ehd,
    "OpenDP counts": opendp_counts,
    "OpenDP known total": opendp_known_total,
    "OpenDP noisy max": opendp_noisy_max,
    "diffprivlib histogram": diffprivlib_histogram,
    "diffprivlib exponential": diffprivlib_exponential,
    "naive enumeration": naive_enumeration,
}


# ---- running jobs --------------------------------------------------------------------------------------


def megabytes() -> float:
    """Peak memory of this process so far.

    Linux counts what the parent had at the fork into ru_maxrss, so its own mark of the process is read there.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().partition("VmHWM:")[2].split()[0]) / 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1 << 10)


@lru_cache
def warm_up(tool: str) -> tuple[float, float]:
    """Imports everything that a release needs, by one of four records; seconds, and memory afterwards."""
    start = time.perf_counter()
    TOOLS[tool]((1.0, 1.0, 1.0), 4, 1.0, 1.0)((2, 1, 1))
    return time.perf_counter() - start, megabytes()


def perform(job: dict[str, Any]) -> dict[str, Any]:
    import_s, base_mb = warm_up(job["tool"])
    prior, rows = tuple(job["prior"]), [tuple(row) for row in job["rows"]]
    start = time.perf_counter()
    release = TOOLS[job["tool"]](prior, sum(rows[0]), job["epsilon"], job["sensitivity"])
    released, times = [release(rows[0])], [time.perf_counter() - start]
    stop, wanted = start + job.get("seconds", math.inf), len(rows) * job.get("repetitions", 1)
    while len(released) < wanted:
        begin = time.perf_counter()
        if begin > stop and len(released) >= job.get("at_least", 1):
            break
        released.append(release(rows[len(released) % len(rows)]))
        times.append(time.perf_counter() - begin)
    result = {
        "counts": [r["counts"] for r in released],
        "first_s": times[0],
        "each_s": statistics.median(times[1:]) if times[1:] else None,
        "import_s": import_s,
        "base_mb": base_mb,
        "peak_mb": megabytes(),
    }
    if "noisy" in released[0]:
        result["noisy"] = [r["noisy"] for r in released]
    return result


def main() -> None:
    if len(sys.argv) > 1:
        limit = int(sys.argv[1])
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    results = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a tool prints is no result
    for line in sys.stdin:
        try:
            result = perform(json.loads(line))
        except Exception as error:  # whatever a tool refuses is a figure of this benchmark
            result = {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
        print(json.dumps(result), file=results, flush=True)


if __name__ == "__main__":
    main()
