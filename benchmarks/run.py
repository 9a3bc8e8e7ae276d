"""What the package costs, measured on this machine in one run: ``make bench``.

Prints a table and writes ``out/bench.json``. Nothing here is a test: no figure is asserted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

import discreet
from discreet._declarations import Domain
from discreet._inference.noise_aware import noise_aware
from discreet._inference.sparse import SparsePosterior
from discreet._randomness.entropy import OSEntropy
from discreet.answers.release import Release
from discreet.answers.selected import SparseRelease
from discreet.errors import NoiseWarning


@dataclass
class Row:
    group: str
    what: str
    value: float
    unit: str
    against: str = ""
    ratio: float | None = None


def seconds(call: Callable[[], object], repeat: int = 3) -> float:
    """Best of ``repeat``: the least disturbed by whatever else the machine does."""
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def processor_seconds(call: Callable[[], object], times: int = 1) -> float:
    """Of one call, on average."""
    start = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - start) / times


def of_one(values: Sequence[object], n: int | str | None) -> discreet.Schema:
    """The schema of one column of categories that has no name."""
    return discreet.Schema({"value": discreet.Category(values)}, n=n, nameless=True)


def counts_of(n: int, k: int) -> tuple[int, ...]:
    return tuple(n // k + (1 if i < n % k else 0) for i in range(k))


def simulation() -> Iterator[Row]:
    for name in ("lszhang", "lsdim", "lshist", "lattice"):
        m = discreet.mechanism(name, prior=(1, 1, 1), n=60, epsilon=0.8)
        took = seconds(lambda m=m: m.simulate((20, 20, 20), size=1_000_000, seed=0))
        yield Row("simulate 10⁶ draws, k = 3, n = 60", name, took, "s")


def drawing() -> Iterator[Row]:
    for name in ("lszhang", "lsdim", "lshist", "lattice"):
        for n in (1_000, 1_000_000):
            m = discreet.mechanism(name, prior=(1, 1), n=n, epsilon=0.8)
            counts = counts_of(n, 2)
            first = seconds(lambda m=m, counts=counts: m.draw(counts), repeat=1)
            each = seconds(lambda m=m, counts=counts: [m.draw(counts) for _ in range(5_000)], 2) / 5_000
            label = f"{name}, n = {n:,} (the first: {first * 1e3:.2g} ms)"
            yield Row("one private draw, k = 2", label, each * 1e6, "µs")


_COUNT = """
import resource, statistics, sys, time
path, column, levels = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
import duckdb
from discreet._declarations import Domain
from discreet._data import count_levels

domain = Domain(levels, other=levels[-1])
def ours():
    count_levels(path, domain, column=column)
def theirs():
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar=false")  # which it would print among the figures
        connection.sql(f"select {column}, count(*) from '{path}' group by {column}").fetchall()
def took(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
ours()
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
theirs()
pairs = [(took(ours), took(theirs)) for _ in range(int(sys.argv[4]))]
medians = [statistics.median(times) for times in zip(*pairs)]
print(*medians, statistics.median(a / b for a, b in pairs), memory)
"""
_RELEASE = """
import resource, sys, time
start = time.perf_counter()
import discreet
schema = {"smoker": ("never", "former", "current")}
discreet.proportions(sys.argv[1], "smoker", schema=schema, epsilon=1)
took = time.perf_counter() - start
print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def python(program: str, *words: str) -> list[float]:
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    return [float(word) for word in done.stdout.split()]


def parquet() -> Iterator[Row]:
    """Ours and the same SQL take turns in one process, each with a connection of its own; medians."""
    import duckdb

    columns = {
        "smoker": (
            "['never', 'former', 'current'][1 + (range * 7919 % 10) // 4]",
            "never,former,current",
            21,
        ),
        "age": ("(range * 7919 % 110)::varchar", ",".join(map(str, range(110))), 21),
        "id": ("concat('record ', range)", "record 1,record 2,rest", 3),
    }
    selected = ", ".join(f"{sql} as {name}" for name, (sql, *_) in columns.items())
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "survey.parquet"))
        duckdb.sql(f"copy (select {selected} from range(10000000)) to '{path}' (format parquet)")
        group = "10⁷-row Parquet, counted"
        for name, (_, levels, pairs) in columns.items():
            ours, theirs, ratio, memory = python(_COUNT, path, name, levels, str(pairs))
            distinct = {"smoker": "3 levels", "age": "110 levels", "id": "10⁷ distinct values"}[name]
            # The plain SQL of the last one would fetch ten million rows, which is not the same count.
            against = (f"the same SQL in DuckDB ({theirs * 1e3:.3g} ms)", ratio) if name != "id" else ()
            yield Row(group, distinct, ours * 1e3, "ms", *against)
            yield Row(group, f"{distinct}, peak memory", memory, "MB")
        took, memory = min(python(_RELEASE, path) for _ in range(3))
        yield Row(group, "discreet.proportions of 3 levels, imports included", took, "s")
        yield Row(group, "discreet.proportions of 3 levels, peak memory", memory, "MB")


def counting(records: int = 4_000_000) -> Iterator[Row]:
    """Levels of data in memory, and of files, beside what the library itself takes to count its values."""
    from collections import Counter

    import duckdb
    import pandas as pd

    from discreet._data import count_levels

    names = [f"code {i}" for i in range(1_000)]
    texts, numbers = Domain(names), Domain(range(1_000))
    codes = np.random.default_rng(0).integers(0, 1_000, records)
    objects = np.array(names, dtype=object)[codes]
    listed, whole = objects.tolist(), codes.tolist()
    category = pd.Series(pd.Categorical.from_codes(codes, names))
    column = pd.Series(objects, dtype=object)
    ways: dict[str, tuple[object, Domain, str, Callable[[], object]]] = {
        "list of text": (listed, texts, "Counter", lambda: Counter(listed)),
        "list of ints": (whole, numbers, "Counter", lambda: Counter(whole)),
        "NumPy ints": (codes, numbers, "np.unique", lambda: np.unique(codes, return_counts=True)),
        "NumPy ints again": (codes, numbers, "np.bincount", lambda: np.bincount(codes)),
        "pandas categories": (category, texts, "value_counts", category.value_counts),
        "pandas objects": (column, texts, "value_counts", column.value_counts),
    }
    group = f"{records:,} records of 1,000 levels, counted"
    for name, (data, domain, native, call) in ways.items():
        took, theirs = in_turns(lambda data=data, domain=domain: count_levels(data, domain), call)
        yield Row(group, name, took * 1e3, "ms", f"{native} ({theirs * 1e3:.3g} ms)", took / theirs)
    with tempfile.TemporaryDirectory() as folder:
        for ending, reader in (("parquet", "'{}'"), ("csv", "read_csv('{}', all_varchar=true)")):
            path = str(Path(folder, f"codes.{ending}"))
            query = "select concat('code ', range * 7919 % 1000) as code from range(10000000)"
            duckdb.sql(f"copy ({query}) to '{path}'")

            def native_count(source: str = reader.format(path)) -> None:
                with duckdb.connect() as connection:
                    connection.execute("SET enable_progress_bar=false")
                    connection.sql(f"select code, count(*) from {source} group by code").fetchall()

            took, theirs = in_turns(lambda path=path: count_levels(path, texts, column="code"), native_count)
            yield Row(
                group,
                f"{ending}, 10⁷ records",
                took * 1e3,
                "ms",
                f"DuckDB's own ({theirs * 1e3:.3g} ms)",
                took / theirs,
            )


def in_turns(ours: Callable[[], object], theirs: Callable[[], object], times: int = 5) -> tuple[float, float]:
    """The least processor time of each, one after the other."""
    pairs = [(processor_seconds(ours), processor_seconds(theirs)) for _ in range(times)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)


def starting() -> Iterator[Row]:
    for what, command in (
        ("import discreet", [sys.executable, "-c", "import discreet"]),
        ("discreet --help", [sys.executable, "-m", "discreet._cli", "--help"]),
    ):
        yield Row("start", what, seconds(lambda c=command: subprocess.run(c, capture_output=True)), "s")


def releasing(repetitions: int = 300) -> Iterator[Row]:
    """Warm releases of a list: ``auto`` is a rule, so it costs what its choice costs."""
    answers = ["never"] * 210 + ["former"] * 95 + ["current"] * 64
    schema = of_one(("never", "former", "current"), n=369)

    def several(mechanism: str) -> None:
        for _ in range(repetitions):
            discreet.proportions(answers, schema=schema, epsilon=1, mechanism=mechanism)

    several("lattice")
    took = {name: seconds(lambda name=name: several(name), 5) / repetitions for name in ("lattice", "auto")}
    group = "warm release of a list, k = 3, n = 369"
    yield Row(group, "lattice", took["lattice"] * 1e3, "ms")
    yield Row(group, "auto", took["auto"] * 1e3, "ms", "lattice", took["auto"] / took["lattice"])


def naive_enumeration(prior: tuple[float, ...], counts: tuple[int, ...], epsilon: float) -> tuple[int, ...]:
    """EHDS as research code does it: lists of all candidates, plain Python, floats."""
    n, k = sum(counts), len(counts)
    candidates = [c for c in itertools.product(range(n + 1), repeat=k - 1) if sum(c) <= n]
    full = [(*c, n - sum(c)) for c in candidates]

    def distance(a: tuple[int, ...], b: tuple[int, ...]) -> float:
        gap = 0.0
        for p, x, y in zip(prior, a, b, strict=True):
            gap += (math.lgamma(p + x) + math.lgamma(p + y)) / 2 - math.lgamma(p + (x + y) / 2)
        return math.sqrt(max(0.0, 1 - math.exp(-gap)))

    smooth = 0.0
    for c in full:
        local = 0.0
        for i, j in itertools.permutations(range(k), 2):
            if c[i]:
                moved = list(c)
                moved[i] -= 1
                moved[j] += 1
                local = max(local, distance(c, tuple(moved)))
        away = sum(abs(x - y) for x, y in zip(c, counts, strict=True)) / 2
        smooth = max(smooth, 1 / (1 / local + away))
    weights = [math.exp(-epsilon * distance(counts, c) / (4 * smooth)) for c in full]
    return full[int(np.random.default_rng(0).choice(len(full), p=np.array(weights) / sum(weights)))]


def hellinger() -> Iterator[Row]:
    group = "EHDS, γ = 1, ε = 1: set-up and first draw"
    for k, n in ((2, 500), (2, 1_000_000), (3, 150), (10, 100_000)):
        counts = counts_of(n, k)
        m = discreet.mechanism("ehds", prior=(1.0,) * k, n=n, epsilon=1)
        label = f"k = {k}, n = {n:,}: {m.number_of_outputs:.3g} candidates"
        clear_caches()
        first = seconds(lambda m=m, counts=counts: m.draw(counts), repeat=1)
        ratio = None
        if (k, n) == (3, 150):
            clear_caches()
            first = min(first, seconds(lambda m=m, c=counts: (clear_caches(), m.draw(c)), repeat=3))
            naive = seconds(lambda: naive_enumeration((1.0,) * 3, (50, 50, 50), 1.0), repeat=1)
            ratio = naive / first
        yield Row(group, label, first * 1e3, "ms", "faster than naive enumeration", ratio)
        each = seconds(lambda m=m, counts=counts: [m.draw(counts) for _ in range(100)], repeat=1) / 100
        yield Row(group, f"{label}, each further draw", each * 1e3, "ms")
    group = "EHDS, k = 5: growth with n"
    times = []
    for n in (1_000, 10_000, 100_000, 1_000_000):
        m = discreet.mechanism("ehds", prior=(1.0,) * 5, n=n, epsilon=1)
        took = seconds(lambda m=m, n=n: (clear_caches(), m.draw(counts_of(n, 5))))
        times.append(took)
        yield Row(group, f"n = {n:,}: {m.number_of_outputs:.3g} candidates", took * 1e3, "ms")
    yield Row(group, "exponent of n from 10³ to 10⁶", math.log(times[-1] / times[0]) / math.log(1000), "")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Row(group, "peak memory of this process so far", memory, "MB")


def clear_caches() -> None:
    from discreet.mechanisms import _candidates, exponential

    for cache in (_candidates._compositions, exponential._enumerate, exponential._envelope):
        cache.cache_clear()


def acceptance() -> Iterator[Row]:
    for name, k, n in itertools.product(("ehd", "ehds"), (3, 10, 20), (1_000, 100_000)):
        for epsilon, shape in itertools.product((0.01, 0.1, 1, 10), ("flat", "skewed")):
            counts = list(counts_of(n, k)) if shape == "flat" else [n - 2 * (k - 1)] + [2] * (k - 1)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", NoiseWarning)
                m = discreet.mechanism(name, prior=(1.0,) * k, n=n, epsilon=epsilon)
            sampler = m.envelope(tuple(counts))
            for _ in range(50):
                sampler.draw(OSEntropy())
            label = f"{name}, k = {k}, n = {n:,}, ε = {epsilon}, {shape}"
            yield Row("acceptance of the envelope, 50 draws each", label, 50 / sampler.attempts, "")


def auditing() -> Iterator[Row]:
    for name, prior, n in (
        ("ehds", (1, 2), 2000),
        ("lshist", (1, 1, 1), 60),
        ("lszhang", (1, 2, 3), 30),
        ("ehd", (1, 2, 3), 60),
    ):
        m = discreet.mechanism(name, prior=prior, n=n, epsilon=0.8)
        a = discreet.audit(m)
        took = seconds(lambda m=m: discreet.audit(m))
        label = f"{name}, k = {m.k}, n = {n}: {a.triples:.3g} triples"
        yield Row("exact audits, distributions included", label, a.triples / took / 1e6, "million triples/s")


def coverage(repetitions: int = 5_000) -> Iterator[Row]:
    """90 % intervals, true proportions drawn from the uniform prior; all levels' intervals are counted."""
    group = f"coverage of 90 % intervals, lattice, {repetitions:,} repetitions"
    for k, n, epsilon in itertools.product((2, 5), (100, 1000), ("0.1", "1")):
        rng = np.random.default_rng(0)
        m = discreet.mechanism("lattice", prior=(1.0,) * k, n=n, epsilon=epsilon)
        hits = {"noise-aware": 0, "plug-in": 0}
        theta = rng.dirichlet((1.0,) * k, repetitions)
        noisy = rng.multinomial(n, theta) + m.simulate_noise(repetitions, rng)
        released = m.decoder.decode_many(noisy)
        for t, z, s in zip(theta, noisy.tolist(), released.tolist(), strict=True):
            aware = noise_aware(m, s, z)
            plug_in = discreet.Dirichlet(tuple(1.0 + c for c in s))
            for label, posterior in (("noise-aware", aware), ("plug-in", plug_in)):
                for i in range(1 if k == 2 else k):
                    hits[label] += 0.05 <= float(posterior.marginal(i).cdf(t[i])) <= 0.95
        for label, count in hits.items():
            share = 100 * count / (repetitions * (1 if k == 2 else k))
            yield Row(group, f"k = {k}, n = {n}, ε = {epsilon}: {label}", share, "%")


DRAWN: dict[str, tuple[tuple[float, float], dict[str, object], Callable[..., float]]] = {
    "gaussian": ((50, 10), {"sigma": 10, "bounds": (0, 100)}, lambda g, t, n: g.normal(n * t, 10 * n**0.5)),
    "poisson": ((4, 2), {"bounds": (0, 20)}, lambda g, t, n: g.poisson(n * t)),
    "exponential": ((4, 2), {"bounds": (0, 10)}, lambda g, t, n: g.gamma(n, 1 / t)),
    "beta": ((1, 1), {}, lambda g, t, n: g.binomial(n, t)),
}


def drawn(repetitions: int = 2_000) -> Iterator[Row]:
    """90 % intervals given one diffused draw; the naive one takes the draw for what the records said."""
    group = f"coverage of 90 % intervals given a posterior draw, δ = 1e-6, {repetitions:,} repetitions"
    for (name, (prior, options, total)), n, epsilon in itertools.product(
        DRAWN.items(), (100, 1000), ("0.5", "2")
    ):
        rng = np.random.default_rng(0)
        sampler = discreet.posterior_sampler(
            "diffused", name, prior=prior, n=n, epsilon=epsilon, delta="1e-6", **options
        )
        family, start, hits = sampler.family, sampler.prior, {"noise-aware": 0, "naive": 0}
        limits = [n * float(bound) for bound in options.get("bounds", (0, 1))]
        for theta in start.sample(repetitions, seed=1):
            statistic = float(np.clip(total(rng, theta, n), *limits))
            draw = sampler.simulate(statistic, seed=int(rng.integers(2**63)))
            distribution = family.given_draws(start, n, sampler.r, sampler.m, draw)
            said = n / float(draw[0]) if name == "exponential" else n * float(draw[0])
            own = family.contribution(Fraction(float(np.clip(said, *limits))), n)
            first, second = (float(a + b) for a, b in zip(family.natural(start), own, strict=True))
            naive = type(start)(*((first / second, second**-0.5) if name == "gaussian" else (first, second)))
            for label, posterior in (("noise-aware", distribution), ("naive", naive)):
                hits[label] += 0.05 <= float(posterior.cdf(theta)) <= 0.95
        for label, count in hits.items():
            yield Row(group, f"{name}, n = {n}, ε = {epsilon}: {label}", 100 * count / repetitions, "%")


def inference() -> Iterator[Row]:
    for name, k, n, epsilon in (
        ("lattice", 2, 1_000, "0.1"),
        ("lattice", 2, 100_000, "0.1"),
        ("lattice", 10, 10_000, "0.1"),
        ("lshist", 10, 10_000, "1"),
    ):
        m = discreet.mechanism(name, prior=(1.0,) * k, n=n, epsilon=epsilon)
        output = m.run(counts_of(n, k))
        took = seconds(lambda m=m, o=output: noise_aware(m, o.counts, o.noisy).interval(0.9), repeat=5)
        label = f"{name}, k = {k}, n = {n:,}, ε = {epsilon}"
        yield Row("noise-aware posterior with all its intervals", label, took * 1e3, "ms")


def levels() -> Iterator[Row]:
    """Warm releases from counts beside OpenDP's vector noise of the same scale; then many levels."""
    import opendp.prelude as dp

    from discreet._randomness.bulk import lattice_noise

    dp.enable_features("contrib")
    noise = dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int), scale=2.0)
    source = OSEntropy()
    group = "from counts, lattice, ε = 1"
    for k, n in ((2, 100), (10, 1_000), (100, 1_000), (1_000, 10_000), (10_000, 100_000)):
        counts, names = counts_of(n, k), tuple(range(k))
        mapping, times = dict(zip(names, counts, strict=True)), max(1, 2_000 // k)
        schema = of_one(names, n="public")

        def release(mapping: dict[int, int] = mapping, schema: discreet.Schema = schema) -> Release:
            return discreet.proportions(mapping, schema=schema, epsilon=1, mechanism="lattice")

        ways: dict[str, Callable[[], object]] = {
            "OpenDP": lambda counts=list(counts): noise(counts),
            "noise alone": lambda k=k: lattice_noise(k, Fraction(1), source),
            "release": release,
            "release, decoded": lambda release=release: release().counts,
        }
        took = dict.fromkeys(ways, math.inf)
        for _, (name, call) in itertools.product(
            range(5), ways.items()
        ):  # in turns, so that none is favoured
            took[name] = min(took[name], processor_seconds(call, times))
        against = f"OpenDP's vector noise ({took['OpenDP'] * 1e3:.3g} ms)"
        for name in list(ways)[1:]:
            value = took[name] * 1e3
            yield Row(group, f"k = {k:,}: {name}", value, "ms", against, took[name] / took["OpenDP"])
    for k, n, size in (
        (1_000, 100_000, "public"),
        (10_000, 100_000, "public"),
        (1_000, 3_000, "private"),
        (100_000, 300_000, "private"),
        (1_000_000, 3_000_000, "private"),
    ):
        shown = [sys.executable, __file__, "--many", str(k), str(n), size]
        made, known, memory, document = json.loads(
            subprocess.run(shown, capture_output=True, check=True).stdout
        )
        group = "many levels, ε = 1, in a process of its own"
        label = f"{size} n = {n:,}, k = {k:,}"
        yield Row(group, f"{label}: release", made, "s")
        yield Row(group, f"{label}: all 90 % intervals", known, "s")
        yield Row(group, f"{label}: peak memory", memory, "MB")
        yield Row(group, f"{label}: document", document, "MB")


def sparse() -> Iterator[Row]:
    """What stands out of many levels: the time goes with the records, and not with the levels."""
    group = "many more levels than records, ε = 1: release from codes, and all intervals"
    for k, n in ((10**6, 10**5), (10**9, 10**4), (10**9, 10**5), (10**9, 10**6), (10**18, 10**5)):
        codes = np.random.default_rng(0).zipf(1.3, n) % k

        def release(codes: np.ndarray = codes, k: int = k) -> SparseRelease:
            return discreet.proportions(
                codes, schema=of_one(range(k), n=None), epsilon=1, options={"expected_false": 1}
            )

        found = release()
        label = f"k = {k:.0e}, n = {n:,}"
        yield Row(group, f"{label}: release", seconds(release), "s")
        parts = found.counts, found.everything_else, found.mechanism
        took = seconds(lambda parts=parts: SparsePosterior(*parts).interval())
        yield Row(group, f"{label}: intervals", took, "s")
        yield Row(group, f"{label}: published levels", len(found.levels), "")
        yield Row(group, f"{label}: document", len(found.to_json()) / 1e3, "kB")


def many(k: int, n: int, size: str) -> tuple[float, float, float, float]:
    """Seconds of a release and of its intervals, peak memory and size of the document in MB."""
    names = tuple(f"level{i}" for i in range(k))
    rng = np.random.default_rng(0)
    true = rng.multinomial(n, rng.dirichlet(np.ones(k))).tolist()
    counts = dict(zip(names, true, strict=True))
    discreet.proportions({"a": 5, "b": 5}, schema=("a", "b"), epsilon=1).interval(0.9)  # imports
    schema = of_one(names, n="public" if size == "public" else None)
    start = time.process_time()
    released = discreet.proportions(counts, schema=schema, epsilon=1)
    made = time.process_time()
    released.interval(0.9)
    known = time.process_time() - made
    # Not getrusage, whose maximum a process inherits from the one that started it.
    memory = int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
    return made - start, known, memory, len(released.to_json()) / 1e6


def ledger(charges: int = 2_000) -> Iterator[Row]:
    """One process, one charge after another, each with a result of 2 kB; the disk decides."""
    guarantee = discreet.Guarantee(Fraction(1, 3))
    group = f"ledger: {charges:,} charges one by one, SQLite with synchronous=FULL"
    with tempfile.TemporaryDirectory() as folder, discreet.Ledger(Path(folder, "ledger.db")) as book:
        book.create("survey", epsilon=charges)
        start = time.perf_counter()
        for i in range(charges):
            book.spend("survey", guarantee, lambda: b"x" * 2_000, plan={"question": i}, request_id=f"q{i}")
        yield Row(group, "charges", charges / (time.perf_counter() - start), "per s")
        took = seconds(lambda: book.recall("survey", "q0", plan={"question": 0}), repeat=20)
        yield Row(group, "a retry", took * 1e3, "ms")
        yield Row(group, "show", seconds(lambda: book.show("survey"), repeat=20) * 1e3, "ms")
        yield Row(group, "verify", seconds(book.verify), "s")
        guarantee = discreet.Guarantee(Fraction(1, 10**6))
        book.create("empty", epsilon=1)
        for i in range(8 * charges // 2_000 * 1_000):  # to 10⁴ entries
            book.spend("survey", guarantee, lambda: b"", plan={"question": -1 - i}, request_id=f"r{i}")
        first = [
            seconds(lambda name=name: book.spend(name, guarantee, lambda: b"", plan={}), repeat=30)
            for name in ("survey", "empty")
        ]
        yield Row(
            group, "a charge with 10⁴ before it", first[0] * 1e3, "ms", "the first ones", first[0] / first[1]
        )
        yield Row(group, "size of the file", Path(folder, "ledger.db").stat().st_size / 1e6, "MB")


BENCHMARKS: dict[str, Callable[[], Iterator[Row]]] = {
    "simulation": simulation,
    "drawing": drawing,
    "parquet": parquet,
    "counting": counting,
    "starting": starting,
    "releasing": releasing,
    "hellinger": hellinger,
    "acceptance": acceptance,
    "auditing": auditing,
    "inference": inference,
    "ledger": ledger,
    "coverage": coverage,
    "levels": levels,
    "sparse": sparse,
    "drawn": drawn,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help=f"which to run, of: {', '.join(BENCHMARKS)}; all if none")
    parser.add_argument("--out", type=Path, default=Path("out/bench.json"))
    parser.add_argument("--many", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.many:
        k, n, size = arguments.many
        print(json.dumps(many(int(k), int(n), size)))
        return
    unknown = set(arguments.names) - set(BENCHMARKS)
    if unknown:
        parser.error(f"unknown benchmark {', '.join(sorted(unknown))}")
    rows: list[Row] = []
    group = ""
    for name in arguments.names or BENCHMARKS:
        for row in BENCHMARKS[name]():
            rows.append(row)
            if row.group != group:
                group = row.group
                print(f"\n{group}")
            ratio = f"   {row.ratio:.2f} × {row.against}" if row.ratio is not None else ""
            print(f"  {row.what:<42} {row.value:>12.4g} {row.unit}{ratio}", flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    about = {"python": platform.python_version(), "numpy": np.__version__, "discreet": discreet.__version__}
    arguments.out.write_text(
        json.dumps({"versions": about, "rows": [asdict(r) for r in rows]}, indent=2) + "\n"
    )
    print(f"\nWritten to {arguments.out}")


if __name__ == "__main__":
    main()
