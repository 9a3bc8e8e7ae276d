"""D's argument that EHDL is not private, and a witness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from discreet._declarations import as_epsilon
from discreet._numerics.count_vectors import compositions
from discreet._numerics.hellinger import candidate_distances
from discreet._numerics.neighbours import HellingerDistributions
from discreet.mechanisms.hellinger.exponential import EHDL
from discreet.mechanisms.hellinger.sensitivity import local_sensitivity
from discreet.planning.audit import audit
from discreet_reproductions.arrays import FloatArray
from discreet_reproductions.report import Outcome, Row, Statement, new_figure
from discreet_reproductions.running import Run

__all__ = ["LocalSettings", "chain", "local", "local_loss", "local_statements", "smallest_size"]


@dataclass(frozen=True)
class LocalSettings:
    """Priors, ε and sizes for the exact loss of EHDL; where D's argument is examined."""

    priors: tuple[tuple[float, ...], ...] = ((1.0, 1.0), (0.5, 0.5), (0.1, 0.1), (0.01, 0.01))
    epsilons: tuple[float, ...] = (0.1, 0.5, 0.8, 1.0, 2.0)
    sizes: tuple[int, ...] = (2, 5, 10, 20, 40, 60, 100, 150, 200, 300, 450, 700)
    witness: tuple[tuple[float, ...], int, float] = ((0.1, 0.1), 200, 0.8)
    argument: tuple[tuple[tuple[float, ...], int], ...] = (
        *(((1.0, 1.0), n) for n in (1, 2, 5, 12, 40)),
        *(((0.1, 0.1), n) for n in (1, 2, 5, 12, 40, 200)),
        *(((7.0, 4.0), n) for n in (1, 2, 5, 12)),
        *(((1.0, 1.0, 1.0), n) for n in (1, 2, 5, 10)),
        *(((1.0, 2.0, 3.0), n) for n in (1, 2, 5, 10)),
    )

    def quick(self) -> LocalSettings:
        return replace(self, epsilons=(0.1, 0.8, 2.0), sizes=(2, 10, 30, 60, 100, 200, 400))


def local_loss(prior: tuple[float, ...], n: int, epsilons: Sequence[float]) -> list[float]:
    """The exact loss of EHDL at each ε over all neighbours and outputs."""
    rows = compositions(n, len(prior))
    sharpness = np.array([1 / local_sensitivity(row, prior) for row in rows.tolist()])
    distributions = HellingerDistributions(prior, rows, sharpness)
    return [distributions.worst_loss(epsilon / 2) for epsilon in epsilons]


def smallest_size(prior: tuple[float, ...], epsilon: float, below: int, above: int) -> int:
    """By bisection: the loss exceeds ε at ``above`` and not at ``below``."""
    while above - below > 1:
        middle = (below + above) // 2
        if local_loss(prior, middle, [epsilon])[0] > epsilon:
            above = middle
        else:
            below = middle
    return above


def first_excess(curve: Mapping[int, float], prior: tuple[float, ...], epsilon: float) -> int | None:
    """The smallest n whose exact loss is above ε, from the listed sizes and bisection between two of them."""
    below = 0
    for n, loss in sorted(curve.items()):
        if loss > epsilon:
            return smallest_size(prior, epsilon, below, n)
        below = n
    return None


def chain(prior: tuple[float, ...], n: int, epsilon: float) -> Row:
    """D's chain of inequalities for all ordered neighbours x, y with LS(y) < LS(x), and r = posterior(x).

    true > first > second = ε/2·(u/LS(x) − u/LS(y)) > ε, u = u(y, r) = −H: how many pairs meet each part.
    """
    rows = compositions(n, len(prior))
    distance = candidate_distances(prior, rows)
    local = np.array([local_sensitivity(row, prior) for row in rows.tolist()])
    pairs = HellingerDistributions(prior, rows, 1 / local).pairs
    x, y = np.concatenate([pairs, pairs[:, ::-1]]).T
    kept = local[y] < local[x] * (1 - 1e-12)
    x, y = x[kept], y[kept]
    half = epsilon / 2

    def log_sum(exponent: FloatArray) -> FloatArray:
        peak = exponent.max(axis=1)
        return np.asarray(peak + np.log(np.exp(exponent - peak[:, None]).sum(axis=1)))

    moved = distance[y, x]
    of_x, of_y = (log_sum(-half * distance[z] / local[z][:, None]) for z in (x, y))
    true = half * moved / local[y] + of_y - of_x
    first = log_sum(-half * distance[y] / local[x][:, None]) - (
        -half * moved / local[y] + log_sum(-half * distance[x] / local[y][:, None])
    )
    second = half * moved * (1 / local[y] - 1 / local[x])
    assumed = (np.abs(moved - distance[y].max(axis=1)) < 1e-12) & (np.abs(moved - local[y]) < 1e-12)
    return {
        "prior": f"({', '.join(f'{a:g}' for a in prior)})",
        "n": n,
        "epsilon": epsilon,
        "pairs": len(x),
        "as_assumed": int(assumed.sum()),
        "first_holds": int((true > first + 1e-12).sum()),
        "second_holds": int((first > second + 1e-12).sum()),
        "last_holds": int((second > epsilon).sum()),
        "largest_true": float(true.max(initial=0.0)),
        "largest_second": float(second.max(initial=0.0)),
        "largest_true_as_assumed": float(true[assumed].max(initial=0.0)),
    }


def local_statements(
    rows: Sequence[Row],
    found: Sequence[Row],
    arguments: Sequence[Row],
    witness: tuple[float, str],
    settings: LocalSettings,
) -> list[Statement]:
    """The conclusion, where it sets in, and the argument."""
    prior, n, epsilon = settings.witness
    loss, worst = witness
    excess = [row for row in found if row["n"] is not None]
    parts = [f"α = {r['prior']}, ε = {r['epsilon']:g}: n = {r['n']}" for r in excess]
    none = sorted({r["prior"] for r in found} - {r["prior"] for r in excess})
    largest = {p: max(r["ratio"] for r in rows if r["prior"] == p) for p in none}
    pairs = sum(row["pairs"] for row in arguments)
    assumed = sum(row["as_assumed"] for row in arguments)
    counts = {
        key: sum(row[key] for row in arguments) for key in ("first_holds", "second_holds", "last_holds")
    }
    biggest = max(arguments, key=lambda row: row["largest_second"] / row["epsilon"])
    supported = max((row["largest_true_as_assumed"] for row in arguments), default=0.0)
    return [
        Statement(
            "not-private",
            "EHDL is not ε-private",
            "D 1.2, B 2.2",
            "yes" if loss > epsilon else "no",
            f"α = ({', '.join(f'{a:g}' for a in prior)}), n = {n}, ε = {epsilon:g}: exact loss {loss:.4f} "
            f"at {worst}",
            values={"loss": loss},
        ),
        Statement(
            "smallest-sizes",
            "It fails for every prior and size",
            "read into D 1.2",
            "partly" if excess else "no",
            "smallest n with a loss above ε, by bisection: "
            ""
            + "; ".join(parts)
            + f"; none up to n = {max(settings.sizes)} for "
            + ", ".join(f"α = {p} (loss/ε at most {v:.3f})" for p, v in largest.items()),
            "it takes a small α, where LS falls to less than half within one step of the edge; for (1, 1) "
            "the "
            "measured loss stays below ε, which is no guarantee",
            {"found": parts},
        ),
        Statement(
            "argument",
            "Take neighbours with LS(y) < LS(x) and r = posterior(x) the worst candidate of y, at distance "
            "LS(y): "
            "then the ratio is above e^ε",
            "D 1.2.2",
            "yes" if assumed and counts["last_holds"] else "no",
            f"{pairs:,} pairs with LS(y) < LS(x): as assumed {assumed}; first inequality "
            f"{counts['first_holds']}, "
            f"second {counts['second_holds']}, the last line (> 2) {counts['last_holds']}, where the "
            f"quantity "
            f"reaches {2 * biggest['largest_second'] / biggest['epsilon']:.3f}; true log-ratio where as "
            f"assumed at "
            f"most {supported:.4f}",
            "the worst candidate of y is at the far end and not a neighbour; the first inequality bounds "
            "from above; "
            "the last line turns a < into a >: the quantity is 1 − LS(y)/LS(x) < 1 in the case assumed",
            {"pairs": pairs, "as_assumed": assumed, **counts},
        ),
    ]


def local(run: Run) -> Outcome:
    """EHDL loses more than ε: from which n on, and whether D's argument shows it."""
    settings = LocalSettings().quick() if run.quick else LocalSettings()
    run.expect(len(settings.priors) * 2 + 1)
    rows: list[Row] = []
    found: list[Row] = []
    for prior in settings.priors:
        own = run.step(f"local {prior} {settings}", partial(_loss_rows, prior, settings))
        rows += own
        found += run.step(f"first {prior} {settings}", partial(_first_rows, prior, own, settings))
    prior, n, epsilon = settings.witness
    checked = audit(EHDL(prior, n, as_epsilon(epsilon)))
    arguments = [chain(p, size, epsilon) for p, size in settings.argument]
    run.tick()
    statements = local_statements(
        rows, found, arguments, (checked.epsilon, _pair_words(checked.worst)), settings
    )
    earliest = min((row for row in found if row["n"] is not None), key=lambda row: row["n"])
    verdict = (
        f"{'Not private' if checked.epsilon > epsilon else 'No witness'}: exact loss "
        f"{checked.epsilon:.4f} at ε = {epsilon:g}, α = ({prior[0]:g}, {prior[1]:g}), n = {n}; "
        f"smallest n found "
        f"{earliest['n']} (α = {earliest['prior']}, ε = {earliest['epsilon']:g}). D's argument holds at "
        f"{sum(row['last_holds'] for row in arguments)} of {sum(row['pairs'] for row in arguments):,} pairs"
    )
    tables = {"": rows, "smallest": found, "argument": arguments}
    return Outcome(verdict, tables, {"": _loss_plot(rows)}, statements, asdict(settings))


def _pair_words(worst: Any) -> str:
    return f"{worst.counts} and {worst.neighbour}, output {worst.outcome}"


def _loss_rows(prior: tuple[float, ...], settings: LocalSettings) -> list[Row]:
    rows = []
    for n in settings.sizes:
        for epsilon, loss in zip(settings.epsilons, local_loss(prior, n, settings.epsilons), strict=True):
            name = f"({', '.join(f'{a:g}' for a in prior)})"
            rows.append({"prior": name, "n": n, "epsilon": epsilon, "loss": loss, "ratio": loss / epsilon})
    return rows


def _first_rows(prior: tuple[float, ...], own: Sequence[Row], settings: LocalSettings) -> list[Row]:
    rows = []
    for epsilon in settings.epsilons:
        curve = {row["n"]: row["loss"] for row in own if row["epsilon"] == epsilon}
        n = first_excess(curve, prior, epsilon)
        rows.append({"prior": own[0]["prior"], "epsilon": epsilon, "n": n})
    return rows


def _loss_plot(rows: Sequence[Row]) -> Any:
    figure = new_figure(9, 4.4)
    epsilons = [epsilon for epsilon in (0.8, 2.0) if any(row["epsilon"] == epsilon for row in rows)]
    for i, epsilon in enumerate(epsilons):
        axis = figure.add_subplot(1, 2, i + 1)
        for j, prior in enumerate(dict.fromkeys(row["prior"] for row in rows)):
            own = [row for row in rows if (row["prior"], row["epsilon"]) == (prior, epsilon)]
            axis.plot(
                [r["n"] for r in own], [r["ratio"] for r in own], marker="osd^"[j], markersize=4, label=prior
            )
        axis.axhline(1, color="black", linewidth=1, linestyle="--")
        axis.set_xscale("log")
        axis.set_xlabel("n (records)")
        axis.set_ylabel("exact loss / ε")
        axis.set_title(f"EHDL, ε = {epsilon:g}", fontsize=10)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, title="prior α")
    return figure
