"""Do intervals of weighted surveys hold the population's numbers, and how wide are they?

Weights are informative: people who are rarely drawn differ in what is asked. The designs have strata or
clusters where they say so. The reference is the interval of Hájek's estimate without noise, by its linearised
variance; of regressions the weighted estimate with the sandwich of R's ``survey`` package. Weights are at
most 4, around 1, and few are cut.

    python benchmarks/weights.py --repetitions 300
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit, ndtr

import discreet
from discreet._randomness.entropy import SeededEntropy
from discreet.questions.quantiles import QuantileCounts
from discreet.questions.regress import RegressionSums

MOST = 4
DELTA = 1e-6
"""Of regressions, where none is given."""
SHARES = {True: (0.45, 0.35, 0.2), False: (0.7, 0.25, 0.05)}
"""Shares of the answers among those who are rarely drawn, and among the others."""
LEVELS = ("a", "b", "c")
KINDS = ("share", "mean", "groups", "strata", "clusters", "both")
FAMILIES = {"linear": "gaussian", "logistic": "binomial", "poisson": "poisson"}
RESPONSES = {"linear": "income", "logistic": "member", "poisson": "visits"}
ALL = (*KINDS, *FAMILIES, "quantiles")
QUARTILES = np.array([0.25, 0.5, 0.75])


def survey(rng: np.random.Generator, n: int, kind: str) -> pd.DataFrame:
    """A survey; the first half of the strata has other answers, and members of a cluster are alike."""
    size = 4 if kind in ("clusters", "both") else 1
    clusters = n // size
    stratum = np.arange(clusters) % 5
    rare = rng.random(clusters) < 0.2
    effect = rng.normal(0, 1, clusters)
    cluster = np.repeat(np.arange(clusters), size)
    weight = np.where(rare, 2.4, 0.65)[cluster] * np.exp(rng.normal(0, 0.2, n))
    edges = {flag: np.cumsum(shares)[:2] for flag, shares in SHARES.items()}

    place = ndtr(0.5 * effect[cluster] + np.sqrt(0.75) * rng.normal(0, 1, n))
    moved = np.where(stratum[cluster] < 2, 0.0, 0.1)
    thresholds = np.where(rare[cluster, None], edges[True], edges[False]) - moved[:, None]
    answer = (place[:, None] > thresholds).sum(axis=1)
    age = np.clip(45 + 8 * rare[cluster] + 6 * effect[cluster] + rng.normal(0, 12, n), 0, 100)
    sex = np.where(rng.random(n) < 0.5, "f", "m")
    x, rarely = rng.uniform(0, 10, n), rare[cluster]
    return pd.DataFrame(
        {
            "answer": np.array(LEVELS)[answer],
            "age": age,
            "weight": weight,
            "stratum": stratum[cluster],
            "cluster": cluster,
            "sex": sex,
            "x": x,
            "income": 20 + (1.5 + rarely) * x + 4 * (sex == "m") + rng.normal(0, 4 + x / 2, n),
            "member": np.where(rng.random(n) < expit(-1 + (0.2 + 0.2 * rarely) * (x - 3)), "yes", "no"),
            "visits": np.minimum(rng.poisson(np.exp(0.2 + (0.1 + 0.08 * rarely) * x)), 20),
        }
    )


def census(path: Path) -> pd.DataFrame:
    """The people of an excerpt of the American Community Survey, with the names of the columns above."""
    people = pd.read_csv(path, na_values="N")
    age = people["AGEP"].to_numpy(float)
    return pd.DataFrame(
        {
            "answer": np.array(LEVELS)[people["OWN_RENT"]],
            "age": age,
            "weight": 1.0,
            "stratum": 0,
            "cluster": np.arange(len(people)),
            "sex": np.where(people["SEX"] == 2, "f", "m"),
            "x": age / 10,
            "income": np.clip(people["PINCP"].fillna(0) / 1000, 0, 80),
            "member": np.where(people["EDU"].fillna(0) >= 11, "yes", "no"),
            "visits": people["NPF"].fillna(0),
        }
    )


def drawn(people: pd.DataFrame, rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Draw n people: the old and those who rent are drawn more often than others."""
    size = 1 + people["age"] / 50 + 2 * (people["answer"] == "c")
    rows = rng.choice(len(people), n, p=size / size.sum())
    weight = (size.mean() / size).to_numpy()[rows]
    return people.iloc[rows].assign(weight=weight, cluster=np.arange(n)).reset_index(drop=True)


def request(kind: str, n: int, epsilon: float, delta: float | None) -> Any:
    """The question of a kind, under its schema."""
    columns = {
        "answer": list(LEVELS),
        "age": (0, 100),
        "weight": discreet.Weight(MOST),
        "stratum": discreet.Category(list(range(5)), public=True),
        "sex": ["f", "m"],
        "x": (0, 10),
        "income": (0, 80),
        "member": ["no", "yes"],
        "visits": (0, 20),
    }
    design: dict[str, Any] = {"strata": "stratum"} if kind in ("strata", "both") else {}
    if kind in ("clusters", "both"):
        design |= {"cluster": "cluster", "person": "cluster", "per_person": 4}
    schema = discreet.Schema(columns, n=n, **design)
    budget = {"epsilon": epsilon, "delta": delta}
    if kind in FAMILIES:
        formula = f"{RESPONSES[kind]} ~ x + sex"
        budget["delta"] = DELTA if delta is None else delta
        return discreet.Regress(formula, family=FAMILIES[kind], **budget).request(schema)
    if kind == "mean":
        return discreet.Mean("age", **budget).request(schema)
    if kind == "quantiles":
        return discreet.Quantiles("age", QUARTILES, **budget).request(schema)
    by = "sex" if kind == "groups" else None
    return discreet.Proportions("answer", by=by, **budget).request(schema)


def answer(asked: Any, sums: Any, source: SeededEntropy) -> Any:
    """The answer of a request with noise from a seed."""
    if isinstance(asked, RegressionSums):
        return asked.regression.fit(sums, asked.schema.person, source)
    if isinstance(asked, QuantileCounts):
        return asked.answer(asked.counts.answer(sums, source))
    return asked.answer(sums, source)


def hajek(frame: pd.DataFrame, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Estimates without noise, and their deviations by linearisation."""
    w = np.minimum(frame["weight"].to_numpy(), MOST)
    if kind in FAMILIES:
        return coefficients(frame, kind, w)
    if kind == "quantiles":
        return quartiles(frame["age"].to_numpy(), w)
    if kind == "mean":
        pieces = [(np.ones(len(w)), frame["age"].to_numpy())]
    elif kind == "groups":
        pieces = [
            ((frame["sex"] == sex).to_numpy(float), (frame["answer"] == level).to_numpy(float))
            for sex in ("f", "m")
            for level in LEVELS
        ]
    else:
        pieces = [(np.ones(len(w)), (frame["answer"] == level).to_numpy(float)) for level in LEVELS]
    unit = frame["cluster"].to_numpy()
    stratum = frame["stratum"].to_numpy() if kind in ("strata", "both") else np.zeros(len(w), dtype=int)
    found = []
    for domain, y in pieces:
        whole = (w * domain).sum()
        p = (w * domain * y).sum() / whole
        z = np.bincount(unit, w * domain * (y - p) / whole)
        of_unit = np.zeros(len(z), dtype=int)
        of_unit[unit] = stratum
        variance = sum(len(part) * part.var(ddof=1) for part in (z[of_unit == h] for h in np.unique(of_unit)))
        found.append((p, np.sqrt(variance)))
    estimates, deviations = np.array(found).T
    return estimates, deviations


def quartiles(values: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted quartiles without noise, and half of what Woodruff's test of one deviation keeps."""
    order = np.argsort(values)
    below = np.cumsum(w[order]) / w.sum()
    points = values[order][np.searchsorted(below, QUARTILES)]
    gaps = (values[:, None] <= points) - QUARTILES
    deviations = np.sqrt(((w[:, None] * gaps) ** 2).sum(axis=0)) / w.sum()
    ends = [values[order][np.searchsorted(below, QUARTILES + s * deviations)] for s in (-1, 1)]
    return points, (ends[1] - ends[0]) / 2


def coefficients(frame: pd.DataFrame, kind: str, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weighted coefficients without noise, and their deviations by the sandwich."""
    rows = np.column_stack([np.ones(len(w)), frame["x"], frame["sex"] == "m"])
    y = frame[RESPONSES[kind]]
    y = (y == "yes").to_numpy(float) if kind == "logistic" else y.to_numpy(float)
    point = np.array([np.log(np.average(y, weights=w)) if kind == "poisson" else 0.0, 0, 0])
    for _ in range(30):
        predictor = rows @ point
        mean = {"linear": predictor, "logistic": expit(predictor), "poisson": np.exp(predictor)}[kind]
        slope = {"linear": np.ones(len(w)), "logistic": mean * (1 - mean), "poisson": mean}[kind]
        inverse = np.linalg.inv((rows * (w * slope)[:, None]).T @ rows)
        scores = rows * (w * (y - mean))[:, None]
        point = point + inverse @ scores.sum(axis=0)
    middle = scores.T @ scores * len(w) / (len(w) - 1)
    return point, np.sqrt(np.diag(inverse @ middle @ inverse))


@cache
def truth(kind: str) -> np.ndarray:
    """The population's numbers: weighted means of a very large survey."""
    frame = survey(np.random.default_rng(1), 4_000_000, kind)
    w = frame["weight"]
    if kind in FAMILIES:
        return coefficients(frame, kind, w.to_numpy())[0]
    if kind == "quantiles":
        return quartiles(frame["age"].to_numpy(), w.to_numpy())[0]
    if kind == "mean":
        return np.array([(w * frame["age"]).sum() / w.sum()])
    shares = np.array([w[frame["answer"] == level].sum() for level in LEVELS]) / w.sum()
    return np.tile(shares, 2) if kind == "groups" else shares


def results(
    kind: str,
    n: int,
    epsilons: Sequence[float],
    delta: float | None,
    repetitions: int,
    seed: int,
    people: pd.DataFrame | None = None,
) -> Iterator[list[tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """For each ε: whether intervals hold with and without noise, and how much wider those with noise are."""
    rng = np.random.default_rng([seed, n, ALL.index(kind)])
    known = truth(kind) if people is None else hajek(people, kind)[0]
    requests = [request(kind, n, epsilon, delta) for epsilon in epsilons]
    for _ in range(repetitions):
        frame = survey(rng, n, kind) if people is None else drawn(people, rng, n)
        sums = requests[0].read(frame)
        estimate, deviation = hajek(frame, kind)
        found = []
        for asked in requests:
            source = SeededEntropy(int(rng.integers(2**62)))
            low, high = answer(asked, sums, source).interval(0.9)
            plain = np.abs(estimate - known) <= 1.645 * deviation
            width = (high - low) / (2 * 1.645 * deviation)
            found.append(((low <= known) & (known <= high), plain, width))
        yield found


def main() -> None:
    """Print a line for each kind, n and ε."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--seed", type=int, default=35)
    parser.add_argument("--delta", type=float)
    parser.add_argument("--census", type=Path, help="people to draw from: an excerpt of the ACS")
    parser.add_argument("--kinds", default=",".join(ALL))
    parser.add_argument("--sizes", default="1000,5000,20000")
    parser.add_argument("--epsilons", default="0.5,1,3")
    asked = parser.parse_args()
    people = None if asked.census is None else census(asked.census)
    print(f"{'kind':9} {'n':>6} {'ε':>4}  held at 90 %   without noise   width, as a multiple of that")
    for kind in asked.kinds.split(","):
        for n in map(int, asked.sizes.split(",")):
            epsilons = list(map(float, asked.epsilons.split(",")))
            found = list(results(kind, n, epsilons, asked.delta, asked.repetitions, asked.seed, people))
            for epsilon, of_epsilon in zip(epsilons, zip(*found, strict=True), strict=True):
                held, plain, width = (np.array(part) for part in zip(*of_epsilon, strict=True))
                print(
                    f"{kind:9} {n:6} {epsilon:4g} {held.mean():13.3f} {plain.mean():15.3f} "
                    f"{np.median(width):12.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
