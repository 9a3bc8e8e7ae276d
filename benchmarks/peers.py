"""discreet and other tools side by side, measured here in one run.

    python benchmarks/peers.py [--quick] [--data FOLDER] [--page FILE] [--recorded]

Error at equal ε, coverage of 90 % intervals, time, memory, the largest size in a minute, and conversions.
Every tool is used as its documentation recommends it, with sensitivities for replacing one of n records
(``peers_tools.py``), in an environment of its own where versions clash (``.venv-bench``, made on first use).
What cannot be installed or imported is skipped with a printed reason. Writes ``out/peers.json``, prints a
table, draws ``docs/images/peers.png`` and with ``--page`` rewrites the block between its two markers;
``--recorded`` does this from the JSON of an earlier run. Nothing here is a test: no figure is asserted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import queue
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import discreet

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks import logistic, peers_report
from benchmarks.environments import PEERS, Found, find
from discreet.errors import NoiseWarning
from discreet_reproductions.hellinger.optimal import optimal_error

FOLDER = Path(__file__).resolve().parent
LEVEL = 0.9
DELTA = 1e-6
WIDTHS = 200
"""Repetitions over which the widths of intervals are averaged."""
MEMORY_LIMIT = 10 << 30
"""Bytes of address space that a process may take while it looks for its largest size."""
MAX_LISTED = 20_000
"""Candidates that are listed for the error of the exponential mechanism; sizes go on until the time is up."""

Array = npt.NDArray[Any]

COUNTS = {
    "discreet": "discreet lattice",
    "OpenDP": "OpenDP counts",
    "OpenDP, n kept": "OpenDP known total",
    "diffprivlib": "diffprivlib histogram",
}
EXPONENTIAL = {
    "discreet": "discreet ehd",
    "OpenDP": "OpenDP noisy max",
    "diffprivlib": "diffprivlib exponential",
    "naive": "naive enumeration",
}
METHODS = {"counts": COUNTS, "exponential": EXPONENTIAL}
"""By method and column of the table the tool that is run."""

PARAMETERS = {
    "relation": "replace one of n records, n public",
    "prior": "uniform: every parameter 1",
    "discreet lattice": "mechanism('lattice'), ε; noise on the lattice of counts of total n, decoded",
    "discreet ehd": "mechanism('ehd'), ε; tight global sensitivity",
    "OpenDP counts": "make_laplace on k whole numbers, ℓ1 sensitivity 2, scale 2/ε; clamped to [0, n]",
    "OpenDP known total": "make_laplace on k − 1 counts, ℓ1 sensitivity 1 (k = 2) or 2; the last is n − Σ",
    "OpenDP noisy max": "make_noisy_max (permute-and-flip) on −H, scale 2·GS/ε",
    "diffprivlib histogram": "tools.histogram with ε/2: its ε is for adding or removing a record, and "
    "replacing one moves two bins; clamped to n",
    "diffprivlib exponential": "mechanisms.Exponential on −H, sensitivity GS, ε",
    "naive enumeration": "all candidates in plain Python, exp(−εH/(2·GS)), random.choices",
    "limit": "optimal_error: no ε-private mechanism that releases the posterior of n records has less",
    "GS": "discreet.global_sensitivity(n, prior), the same for every tool",
}


@dataclass(frozen=True)
class Effort:
    """How much is measured."""

    repetitions: int
    seconds: float
    """For the releases of one tool at one setting; at least 50 are made."""
    coverage_repetitions: int
    size_seconds: float
    prior_settings: tuple[tuple[int, int, float], ...]
    fixed_settings: tuple[tuple[int, float], ...]


FULL = Effort(
    2000,
    1.5,
    3000,
    60.0,
    ((2, 100, 0.1), (2, 100, 0.5), (2, 100, 1.0), (3, 12, 0.5), (10, 1000, 0.5)),
    ((100, 0.5), (1000, 0.1), (1000, 0.5), (1000, 1.0), (10_000, 0.5)),
)
QUICK = Effort(200, 0.2, 300, 5.0, ((2, 100, 0.1), (3, 12, 0.5), (10, 1000, 0.5)), ((100, 0.5), (1000, 0.5)))


@dataclass
class Figure:
    """One measured number; ``more`` has what else was recorded with it."""

    measure: str
    method: str
    setting: str
    tool: str
    value: float
    unit: str = ""
    standard_error: float | None = None
    more: dict[str, Any] = field(default_factory=dict)


# ---- data ----------------------------------------------------------------------------------------------


@lru_cache
def real_proportions() -> dict[int, tuple[str, tuple[float, ...]]]:
    """Proportions from data that ship with scikit-learn, by the number of levels."""
    from sklearn.datasets import load_breast_cancer, load_wine

    cancer, wine = load_breast_cancer(), load_wine()
    radius, _ = np.histogram(cancer.data[:, 0], bins=10, range=(5, 30))
    found = {
        2: ("breast cancer, diagnosis", np.bincount(cancer.target)),
        3: ("wine, cultivar", np.bincount(wine.target)),
        10: ("breast cancer, radius", radius),
    }
    return {k: (name, tuple((c / c.sum()).tolist())) for k, (name, c) in found.items()}


def rounded_counts(proportions: Sequence[float], n: int) -> tuple[int, ...]:
    """Counts of total n nearest to the proportions: largest remainders."""
    exact = [n * p / math.fsum(proportions) for p in proportions]
    counts = [math.floor(x) for x in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: counts[i] - exact[i])
    for i in by_remainder[: n - sum(counts)]:
        counts[i] += 1
    return tuple(counts)


# ---- running the tools ---------------------------------------------------------------------------------


class Worker:
    """A process that makes releases with one tool; it is ended by ``close``."""

    def __init__(self, python: str, script: str = "peers_tools.py", *words: str) -> None:
        self._process = subprocess.Popen(
            [python, "-W", "ignore", str(FOLDER / script), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._lines: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put("")

    def ask(self, job: dict[str, Any], seconds: float = 600.0) -> dict[str, Any]:
        """The result, or why there is none, as ``error``."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            return {"error": f"not finished after {seconds:g} s"}
        except BrokenPipeError:
            line = ""
        return json.loads(line) if line else {"error": "the process ended"}

    def close(self) -> None:
        self._process.kill()
        self._reader.join()  # the pipe ends with the process
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate()

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@dataclass
class Bench:
    """The peers that were found, and one run over them."""

    effort: Effort
    found: dict[str, Found]

    def python(self, column: str) -> str | None:
        """The interpreter of a column of the table, none where the peer is not to be had."""
        name = column.partition(",")[0]
        return sys.executable if name in ("discreet", "naive") else self.found[name].python

    def tools(self, method: str) -> Iterator[tuple[str, str, str]]:
        for column, tool in METHODS[method].items():
            python = self.python(column)
            if python is not None:
                yield column, tool, python

    def job(self, tool: str, rows: Sequence[Sequence[int]], epsilon: float, **more: Any) -> dict[str, Any]:
        k, n = len(rows[0]), sum(rows[0])
        prior = (1.0,) * k
        sensitivity = float(discreet.global_sensitivity(n, prior))
        return {
            "tool": tool,
            "prior": prior,
            "epsilon": epsilon,
            "sensitivity": sensitivity,
            "rows": rows,
            **more,
        }

    # -- error on the same data --

    def fixed_data(self) -> Iterator[Figure]:
        settings = [
            (name, k, n, epsilon, rounded_counts(proportions, n))
            for k, (name, proportions) in real_proportions().items()
            for n, epsilon in self.effort.fixed_settings
        ]
        settings += [
            ("uniform", k, 1000, 0.5, rounded_counts((1.0,) * k, 1000)) for k in sorted(real_proportions())
        ]
        for method in METHODS:
            for column, tool, python in self.tools(method):
                with Worker(python) as worker:
                    for name, k, n, epsilon, counts in settings:
                        if method == "counts" or math.comb(n + k - 1, k - 1) <= MAX_LISTED:
                            setting = f"{name}, k = {k}, n = {n}, ε = {epsilon:g}"
                            yield from self._error(worker, method, column, tool, setting, counts, epsilon)

    def _error(
        self,
        worker: Worker,
        method: str,
        column: str,
        tool: str,
        setting: str,
        counts: tuple[int, ...],
        epsilon: float,
    ) -> Iterator[Figure]:
        repetitions, seconds = self.effort.repetitions, self.effort.seconds
        job = self.job(tool, [counts], epsilon, repetitions=repetitions, seconds=seconds, at_least=50)
        result = worker.ask(job)
        if "error" in result:
            print(f"  {tool}, {setting}: {result['error']}")
            return
        errors = hellinger_errors(np.array([counts]), np.array(result["counts"]))
        mean, error = mean_and_error(errors)
        more = {"counts": counts, "repetitions": len(errors)}
        yield Figure("error", method, setting, column, mean, "H", error, more)
        yield Figure("first release", method, setting, column, result["first_s"] * 1e3, "ms")
        if result["each_s"] is not None:
            yield Figure("further releases", method, setting, column, result["each_s"] * 1e3, "ms")

    # -- error and coverage over the prior --

    def prior_data(self) -> Iterator[Figure]:
        samples = {}
        for k, n, epsilon in self.effort.prior_settings:
            setting = f"data from the prior, k = {k}, n = {n}, ε = {epsilon:g}"
            rng = np.random.default_rng([k, n])
            theta = rng.dirichlet((1.0,) * k, self.effort.coverage_repetitions)
            samples[setting] = theta, rng.multinomial(n, theta), epsilon
            if k == 2 or n <= 12:
                limit = optimal_error(prior=(1.0,) * k, n=n, epsilon=str(epsilon))
                yield Figure("error", "counts", setting, "limit", limit, "H")
        for method in METHODS:
            for column, tool, python in self.tools(method):
                with Worker(python) as worker:
                    for setting, (theta, true, epsilon) in samples.items():
                        k, n = true.shape[1], int(true[0].sum())
                        if method == "exponential" and math.comb(n + k - 1, k - 1) > 1000:
                            continue
                        result = worker.ask(self.job(tool, true.tolist(), epsilon))
                        if "error" in result:
                            print(f"  {tool}, {setting}: {result['error']}")
                        else:
                            yield from prior_figures(
                                method, setting, column, tool, result, theta, true, epsilon
                            )

    # -- memory and size --

    def memory(self) -> Iterator[Figure]:
        for method, k, n in (("counts", 10, 1000), ("exponential", 5, 64)):
            setting = f"k = {k}, n = {n}, ε = 0.5"
            for column, tool, python in self.tools(method):
                with Worker(python) as worker:
                    result = worker.ask(self.job(tool, [rounded_counts((1.0,) * k, n)], 0.5))
                if "error" not in result:
                    more = {"after_imports_mb": result["base_mb"], "import_s": result["import_s"]}
                    yield Figure("peak memory", method, setting, column, result["peak_mb"], "MB", None, more)

    def sizes(self) -> Iterator[Figure]:
        """Doubling from n = 8, fourfold above 1024; each try has the stated seconds, imports excluded."""
        limit, k = self.effort.size_seconds, 5
        setting = f"largest n, k = {k}, ε = 1, {limit:g} s and {MEMORY_LIMIT >> 30} GB for one draw"
        for column, tool, python in self.tools("exponential"):
            n, reached, tried = 8, 0, []
            with Worker(python, "peers_tools.py", str(MEMORY_LIMIT)) as worker:
                worker.ask(self.job(tool, [rounded_counts((1.0,) * k, 4)], 1.0))  # imports
                while True:
                    result = worker.ask(self.job(tool, [rounded_counts((1.0,) * k, n)], 1.0), limit)
                    tried.append({"n": n, "seconds": result.get("first_s"), "error": result.get("error")})
                    if "error" in result:
                        break
                    reached, n = n, n * (2 if n < 1024 else 4)
            more = {"candidates": math.comb(reached + k - 1, k - 1), "tried": tried}
            yield Figure("size", "exponential", setting, column, reached, "records", None, more)

    # -- conversions --

    def accounting(self) -> Iterator[Figure]:
        from fractions import Fraction

        python = self.found["dp-accounting"].python
        if python is None:
            return
        mean = discreet.posterior_sampler(
            "diffused", "gaussian", prior=(0, 1), n=300, sigma=1, bounds=(0, 1), epsilon="0.5", delta="1e-6"
        ).guarantee
        proportion = discreet.posterior_sampler("direct", "beta", prior=(6, 12), n=100).guarantee
        pure = discreet.Guarantee(Fraction(1, 10))
        draw, table = {"mu": mean.mu}, {"epsilon": 0.1}
        orders = [1 + x for x in np.geomspace(0.01, proportion.max_order - 1.001, 200).tolist()]
        cases: dict[str, tuple[Any, dict[str, Any]]] = {
            "one draw of a mean": ([(mean, 1)], {"parts": [(draw, 1)]}),
            "50 draws of a mean": ([(mean, 50)], {"parts": [(draw, 50)]}),
            "20 draws of a mean and 20 tables of ε = 0.1": (
                [(mean, 20), (pure, 20)],
                {"parts": [(draw, 20), (table, 20)]},
            ),
            "one draw of a proportion, Beta(6, 12), n = 100": (
                [(proportion, 1)],
                {"rdp": [(order, proportion.rdp(order)) for order in orders]},
            ),
        }
        with Worker(python, "peers_accounting.py") as worker:
            for name, (parts, job) in cases.items():
                setting = f"{name}, δ = {DELTA:g}"
                for _ in range(2):  # the second time nothing is measured that happens once
                    start = time.perf_counter()
                    composed = [discreet.compose([guarantee], count=count) for guarantee, count in parts]
                    epsilon = discreet.compose(composed).epsilon_at(DELTA)
                    took = time.perf_counter() - start
                yield Figure("ε", "conversion", setting, "discreet", epsilon)
                yield Figure("time", "conversion", setting, "discreet", took * 1e3, "ms")
                result = worker.ask({**job, "delta": DELTA})
                for key, column in (("rdp", "dp-accounting RDP"), ("pld", "dp-accounting PLD")):
                    if key in result:
                        yield Figure("ε", "conversion", setting, column, result[key]["epsilon"])
                        took = result[key]["seconds"]
                        yield Figure("time", "conversion", setting, column, took * 1e3, "ms")


# ---- what is computed from releases --------------------------------------------------------------------


def mean_and_error(values: Array) -> tuple[float, float]:
    """The mean and its standard error."""
    return float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values))


def hellinger_errors(true: Array, released: Array) -> Array:
    """Hellinger distance between true and released posterior under the uniform prior, for each release."""
    return np.asarray(discreet.hellinger(released + 1.0, np.broadcast_to(true, released.shape) + 1.0))


def coverage(probabilities: Array) -> tuple[float, float]:
    """Share of equal-tailed intervals that hold the truth, and its standard error.

    ``probabilities`` has P(θᵢ ≤ truth) under each released posterior, a row for each repetition; the levels
    of one repetition depend on each other, so the standard error is that of the means of rows.
    """
    tail = (1 - LEVEL) / 2
    hits = (probabilities >= tail) & (probabilities <= 1 - tail)
    return mean_and_error(hits.mean(axis=1))


def plug_in(released: Array, theta: Array) -> tuple[Array, Array]:
    """P(θᵢ ≤ truth), and widths of intervals, when the released counts are taken for the true ones."""
    from scipy.special import betainc, betaincinv

    a = released + 1.0
    b = a.sum(axis=1, keepdims=True) - a
    if a.shape[1] == 2:
        a, b, theta = a[:, :1], b[:, :1], theta[:, :1]
    tail = (1 - LEVEL) / 2
    widths = betaincinv(a[:WIDTHS], b[:WIDTHS], 1 - tail) - betaincinv(a[:WIDTHS], b[:WIDTHS], tail)
    return betainc(a, b, theta), widths


def prior_figures(
    method: str,
    setting: str,
    column: str,
    tool: str,
    result: dict[str, Any],
    theta: Array,
    true: Array,
    epsilon: float,
) -> Iterator[Figure]:
    """Error, coverage and width from one release for each dataset; ours by both kinds of intervals."""
    released, more = np.array(result["counts"]), {"repetitions": len(true)}
    mean, error = mean_and_error(hellinger_errors(true, released))
    yield Figure("error", method, setting, column, mean, "H", error, more)
    ways = {column: plug_in(released, theta)}
    if column == "discreet":
        aware = noise_aware_intervals(tool, epsilon, released, result.get("noisy"), theta)
        ways = {"discreet": aware, "discreet, plug-in": ways["discreet"]}
    for way, (probabilities, widths) in ways.items():
        share, error = coverage(probabilities)
        yield Figure("coverage", method, setting, way, 100 * share, "%", 100 * error, more)
        mean, error = mean_and_error(widths.mean(axis=1))
        yield Figure("width", method, setting, way, mean, "", error, {"repetitions": len(widths)})


def noise_aware_intervals(
    tool: str, epsilon: float, released: Array, noisy: list[list[int]] | None, theta: Array
) -> tuple[Array, Array]:
    """The same from the posterior that accounts for the noise."""
    from discreet._inference.noise_aware import noise_aware

    k, n = theta.shape[1], int(released[0].sum())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoiseWarning)
        m = discreet.mechanism(tool.split()[1], prior=(1.0,) * k, n=n, epsilon=str(epsilon))

    @lru_cache(maxsize=1024)
    def posterior(counts: tuple[int, ...], kept: tuple[int, ...] | None) -> Any:
        return noise_aware(m, counts, kept)

    below, widths = np.empty((len(theta), 1 if k == 2 else k)), []
    for row, (counts, truth) in enumerate(zip(released.tolist(), theta, strict=True)):
        found = posterior(tuple(counts), tuple(noisy[row]) if noisy else None)
        below[row] = [float(found.marginal(i).cdf(truth[i])) for i in range(below.shape[1])]
        if row < WIDTHS:
            low, high = found.interval(LEVEL)
            widths.append((high - low)[: below.shape[1]])
    return below, np.array(widths)


def logistic_regression(folder: Path) -> Iterator[Figure]:
    """The rows of logistic.py for Adult with 14 columns."""
    for row in logistic.adult(folder, one_hot_too=False):
        if "test_error" in row:
            tool = "diffprivlib" if "diffprivlib" in row["what"] else "discreet"
            more = {"what": row["what"]}
            yield Figure("test error", "logistic", row["group"], tool, row["test_error"], "", None, more)
            yield Figure("fit", "logistic", row["group"], tool, row["seconds"], "s", None, more)


# ---- one run -------------------------------------------------------------------------------------------


def find_peers() -> dict[str, Found]:
    """Every peer, with a printed line; one that cannot be had is not fatal."""
    found = {}
    for peer in PEERS:
        here = found[peer.name] = find(peer)
        versions = ", ".join(f"{name} {version}" for name, version in here.versions.items())
        print(f"{peer.name}: {versions or 'no version'}" + (f"; skipped: {here.reason}" * bool(here.reason)))
    return found


def measure(effort: Effort, data: Path | None) -> dict[str, Any]:
    start = time.perf_counter()
    bench = Bench(effort, find_peers())
    installed = time.perf_counter() - start
    start, load = time.perf_counter(), os.getloadavg()
    parts = {
        "error on the same data": bench.fixed_data(),
        "error and coverage over the prior": bench.prior_data(),
        "memory": bench.memory(),
        "conversions": bench.accounting(),
        "size": bench.sizes(),
    }
    if data is not None:
        parts["logistic regression"] = logistic_regression(data)
    else:
        print("logistic regression: skipped, no folder with Adult was given (--data FOLDER)")
    figures = []
    for name, part in parts.items():
        print(f"{name} …", flush=True)
        begin = time.perf_counter()
        figures += list(part)
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    return {
        "date": time.strftime("%Y-%m-%d"),
        "quick": effort == QUICK,
        "seconds": time.perf_counter() - start,
        "seconds_to_find_peers": installed,
        "machine": {
            "cores": os.cpu_count(),
            "processor": platform.machine(),
            "system": platform.system(),
            "load_before_and_after": [load, os.getloadavg()],
        },
        "versions": {
            "discreet": discreet.__version__,
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "peers": {
            name: {"versions": here.versions, "skipped": here.reason} for name, here in bench.found.items()
        },
        "parameters": PARAMETERS,
        "effort": asdict(effort),
        "figures": [asdict(figure) for figure in figures],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer repetitions, 5 s for the largest size")
    parser.add_argument("--data", type=Path, help="folder with Adult, for logistic regression")
    parser.add_argument("--out", type=Path, default=Path("out/peers.json"))
    parser.add_argument("--plot", type=Path, help="draw the figure there; docs/images/peers.png with --page")
    parser.add_argument("--page", type=Path, help="rewrite the block between the markers in this file")
    parser.add_argument("--recorded", action="store_true", help="take the figures of --out, measure nothing")
    arguments = parser.parse_args()
    if arguments.page:
        peers_report.check_markers(arguments.page)
    if not arguments.recorded:
        result = measure(QUICK if arguments.quick else FULL, arguments.data)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
        print(f"Written to {arguments.out} after {result['seconds']:.0f} s")
    result = json.loads(arguments.out.read_text("utf-8"))
    peers_report.show(result)
    plot = arguments.plot or (Path("docs/images/peers.png") if arguments.page else None)
    if plot:
        peers_report.draw(result, plot)
    if arguments.page:
        peers_report.write_page(arguments.page, result)


if __name__ == "__main__":
    main()
