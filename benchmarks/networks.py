"""Bayesian networks: what a private one loses on held-out records, and how often its intervals hold.

    python benchmarks/networks.py adult FOLDER [--epsilon 1] [--releases 10]
    python benchmarks/networks.py coverage [--fits 60]

``adult``: eight columns of UCI Adult (``adult_train.csv.gz``, ``adult_test.csv.gz`` in FOLDER) on a graph
that was written down from what the columns mean, not from the data. The log-loss of the held-out part, in
nats a record, for the paper's Laplace noise (Zhang, Rubinstein and Dimitrakakis, 2016: noise of scale
2·columns/ε on all counts of every family, the noisy counts taken for the truth), for ours, and without
privacy.

``coverage``: networks with random tables, records from each, a release, and conditional shares whose true
value is known. Records and noise are from a seeded generator: this is a simulation, nothing here is private.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import discreet
from discreet._typing import FloatArray, IntArray
from discreet.answers.network import NetworkRelease
from discreet.answers.release import publish
from discreet.distributions._networks import NetworkDraws
from discreet.mechanisms.base import simulated_output
from discreet.questions.network import NetworkTables

GRAPH = {
    "education": ("age", "race"),
    "marital_status": ("age", "sex"),
    "occupation": ("education", "sex"),
    "hours": ("occupation", "sex"),
    "income": ("education", "marital_status"),
}
SCHOOLS = (
    "Preschool,1st-4th,5th-6th,7th-8th,9th,10th,11th,12th,HS-grad,Some-college,Assoc-voc,Assoc-acdm,Bachelors,"
    "Masters,Prof-school,Doctorate"
)
MARITAL = (
    "Married-civ-spouse,Divorced,Never-married,Separated,Widowed,Married-spouse-absent,Married-AF-spouse"
)
JOBS = (
    "Tech-support,Craft-repair,Other-service,Sales,Exec-managerial,Prof-specialty,Handlers-cleaners,"
    "Machine-op-inspct,Adm-clerical,Farming-fishing,Transport-moving,Priv-house-serv,Protective-serv,"
    "Armed-Forces,unknown"
)
LEVELS: dict[str, tuple[str, ...]] = {
    "age": ("under 25", "25-34", "35-44", "45-54", "55-64", "65 and over"),
    "race": ("White", "Asian-Pac-Islander", "Amer-Indian-Eskimo", "Other", "Black"),
    "sex": ("Female", "Male"),
    "education": tuple(SCHOOLS.split(",")),
    "marital_status": tuple(MARITAL.split(",")),
    "occupation": tuple(JOBS.split(",")),
    "hours": ("under 35", "35-40", "41-50", "over 50"),
    "income": ("<=50K", ">50K"),
}
LEVEL = 0.9


def adult(folder: Path, part: str) -> Any:
    import pandas as pd

    raw = pd.read_csv(folder / f"adult_{part}.csv.gz", keep_default_na=False, dtype=str)
    cuts = {"age": [0, 24, 34, 44, 54, 64, 200], "hours": [0, 34, 40, 50, 200]}
    raw["hours"] = raw["hours_per_week"]
    for column, edges in cuts.items():
        raw[column] = pd.cut(raw[column].astype(int), edges, labels=LEVELS[column]).astype(str)
    raw["occupation"] = raw["occupation"].where(raw["occupation"].isin(LEVELS["occupation"]), "unknown")
    return raw[list(LEVELS)]


def places(frame: Any) -> dict[str, IntArray]:
    return {
        column: frame[column].map({level: i for i, level in enumerate(own)}).to_numpy()
        for column, own in LEVELS.items()
    }


def log_loss(
    tables: Mapping[str, FloatArray], parents: Mapping[str, Any], records: Mapping[str, Any]
) -> float:
    """Mean of −log p(record) for conditional tables of shape (levels of parents…, own levels)."""
    logs = [
        np.log(tables[column])[tuple(records[name] for name in (*given, column))]
        for column, given in parents.items()
    ]
    return -float(np.mean(sum(logs)))


def plug_in(counts: FloatArray) -> FloatArray:
    """The mean of Dir(1 + counts) of every row."""
    shifted = counts + 1.0
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def family_counts(question: NetworkTables, records: Mapping[str, IntArray]) -> dict[str, FloatArray]:
    found = {}
    for column, given in question.graph.items():
        names = (*given, column)
        counts = np.zeros([question.domains[name].k for name in names])
        np.add.at(counts, tuple(records[name] for name in names), 1)
        found[column] = counts
    return found


def network_request(parents: Any, levels: Any, epsilon: Any, n: int | None) -> Any:
    """A network under a schema; n is private where it is None."""
    return discreet.Network(parents, epsilon=epsilon).request(discreet.Schema(levels, n=n))


def measure_adult(options: argparse.Namespace) -> None:
    train, test = adult(options.folder, "train"), adult(options.folder, "test")
    held_out, n = places(test), len(train)
    question = network_request(GRAPH, LEVELS, options.epsilon, n)
    counts = family_counts(question, places(train))
    without = log_loss({c: plug_in(x) for c, x in counts.items()}, question.graph, held_out)
    share = Fraction(options.epsilon) / len(counts)
    laplace = {
        column: discreet.mechanism("lszhang", prior=(1.0,) * x.size, n=n, epsilon=share)
        for column, x in counts.items()
    }
    theirs, ours = [], []
    for _ in range(options.releases):
        noisy = {
            column: np.reshape(one.draw(counts[column].astype(int).ravel().tolist()), counts[column].shape)
            for column, one in laplace.items()
        }
        theirs.append(log_loss({c: plug_in(x) for c, x in noisy.items()}, question.graph, held_out))
        made: NetworkRelease = question.bind(n).make(question.read(train))  # type: ignore[assignment]
        means = {c: x.mean(axis=0) for c, x in made.networks(1000).tables.items()}
        ours.append(log_loss(means, question.graph, held_out))
        print(f"  laplace {theirs[-1]:.4f}  ours {ours[-1]:.4f}", flush=True)
    closed = (np.mean(theirs) - np.mean(ours)) / (np.mean(theirs) - without)
    print(f"Adult, {len(LEVELS)} columns, n = {n:,}, ε = {options.epsilon}, {options.releases} releases")
    print(
        "tables: "
        + "; ".join(
            f"{'×'.join(f)} {t.k}: {float(t.epsilon):.3f}"
            for f, t in zip(question.families, question.tables, strict=True)
        )
    )
    print(f"log-loss of held-out records: Laplace, plug-in {np.mean(theirs):.4f} ± {np.std(theirs):.4f}; ")
    print(f"ours {np.mean(ours):.4f} ± {np.std(ours):.4f}; without privacy {without:.4f}")
    print(f"of the gap ours closes {100 * closed:.0f} %")


# ---- coverage ----------------------------------------------------------------------------------------------

SHAPES: dict[str, tuple[dict[str, tuple[str, ...]], dict[str, int]]] = {
    "chain": ({"b": ("a",), "c": ("b",), "d": ("c",)}, {"a": 2, "b": 3, "c": 3, "d": 2}),
    "tree": ({"b": ("a",), "c": ("a",), "d": ("b",), "e": ("b",)}, {"a": 3, "b": 2, "c": 4, "d": 3, "e": 2}),
    "collider": ({"c": ("a", "b"), "d": ("c",), "e": ("c", "a")}, {"a": 2, "b": 3, "c": 2, "d": 3, "e": 2}),
}


def simulated(
    question: NetworkTables, counts: list[FloatArray], n: int, rng: np.random.Generator
) -> NetworkRelease:
    """What a network makes of these counts, with noise from a seeded generator."""
    releases = []
    for table, x in zip(question.tables, counts, strict=True):
        built = table.build(n, table.epsilon)
        output = simulated_output(built, tuple(int(c) for c in x.ravel()), int(rng.integers(2**63)))
        releases.append(
            publish(built, output, table.domain, None, table.axes, table.expected_total, None, table.strength)
        )
    return NetworkRelease(question.graph, tuple(releases), question.price(n))


def truth_of(question: NetworkTables, rng: np.random.Generator) -> NetworkDraws:
    """One network from the prior."""
    sizes = {column: domain.k for column, domain in question.domains.items()}
    tables = {
        column: rng.dirichlet(np.ones(sizes[column]), [1, *(sizes[parent] for parent in given)])
        for column, given in question.graph.items()
    }
    levels = {column: tuple(domain.levels) for column, domain in question.domains.items()}
    return NetworkDraws(question.graph, levels, tables)


def asked(question: NetworkTables, rng: np.random.Generator) -> Iterator[tuple[str, str]]:
    """Columns, and other columns that are given: with parents and without."""
    names = list(question.graph)
    for column in names:
        yield column, str(rng.choice([name for name in names if name != column]))


def covered(shape: str, n: int, epsilon: str, relation: str, seed: int) -> dict[str, tuple[int, int]]:
    """Of each conditional how many of the intervals hold, and how many there are."""
    rng = np.random.default_rng([seed, n, len(relation), *map(ord, shape)])
    parents, sizes = SHAPES[shape]
    levels = {column: tuple(f"{column}{i}" for i in range(k)) for column, k in sizes.items()}
    question = network_request(parents, levels, epsilon, n if relation == "replace-one" else None)
    truth = truth_of(question, rng)
    records = next(truth.records(n, rng))
    counts = []
    for family in question.families:
        table = np.zeros([sizes[name] for name in family])
        np.add.at(table, tuple(records[name] for name in family), 1)
        counts.append(table)
    answer = simulated(question, counts, 0 if relation == "add-remove" else n, rng)
    drawn = answer.networks(1000, seed)
    held: dict[str, tuple[int, int]] = {}
    tail = np.array([(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    for column, given in asked(question, rng):
        exact, found = (one.joint((given, column), {}) for one in (truth, drawn))
        exact, found = (x / x.sum(axis=2, keepdims=True) for x in (exact, found))
        low, high = np.quantile(found, tail, axis=0)
        inside = (low <= exact[0]) & (exact[0] <= high)
        held[f"{column} | {given}"] = int(inside.sum()), inside.size
    return held


def measure_coverage(options: argparse.Namespace) -> None:
    print(f"coverage of {100 * LEVEL:g} % intervals of P(column = level | another column = level)")
    every = []
    for shape in options.shape:
        each: dict[str, list[float]] = {}
        for n in options.n:
            for epsilon in options.epsilon:
                for relation in options.relation:
                    found = [covered(shape, n, epsilon, relation, seed) for seed in range(options.fits)]
                    sums = [np.sum(list(one.values()), axis=0) for one in found]
                    rates = [float(held / number) for held, number in sums]
                    for name, (held, number) in (item for one in found for item in one.items()):
                        each.setdefault(name, []).append(held / number)
                    every += rates
                    error = np.std(rates) / math.sqrt(len(rates))
                    label = f"{shape:9} n {n:6,} ε {epsilon:4} {relation:11}"
                    print(f"{label} {np.mean(rates):.3f} ± {error:.3f} ({options.fits} networks)", flush=True)
        for name, rates in sorted(each.items()):
            error = np.std(rates) / math.sqrt(len(rates))
            print(f"{shape:9} P({name}) {np.mean(rates):.3f} ± {error:.3f}", flush=True)
    print(f"all {np.mean(every):.4f} ± {np.std(every) / math.sqrt(len(every)):.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    kinds = parser.add_subparsers(required=True)
    one = kinds.add_parser("adult")
    one.add_argument("folder", type=Path)
    one.add_argument("--epsilon", default="1")
    one.add_argument("--releases", type=int, default=10)
    one.set_defaults(run=measure_adult)
    two = kinds.add_parser("coverage")
    two.add_argument("--shape", nargs="+", default=list(SHAPES), choices=SHAPES)
    two.add_argument("--n", nargs="+", type=int, default=[500, 5000])
    two.add_argument("--epsilon", nargs="+", default=["0.5", "2"])
    two.add_argument("--relation", nargs="+", default=["replace-one", "add-remove"])
    two.add_argument("--fits", type=int, default=60)
    two.set_defaults(run=measure_coverage)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
