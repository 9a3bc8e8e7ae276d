"""The constants in the captions of Figures 4 and 5 of B, against what the data could have given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from discreet._numerics.hellinger import hellinger
from discreet.mechanisms.hellinger.sensitivity import global_sensitivity, smooth_sensitivity
from discreet_reproductions.paper_b.distributions import smoothing, uniform_counts
from discreet_reproductions.paper_b.readings import Settings, evenest, local_sensitivities, with_local
from discreet_reproductions.paper_b.tables import digits_apart
from discreet_reproductions.report import Row, Statement

__all__ = ["constant_claims", "constants"]


def constants(settings: Settings) -> list[Row]:
    """The constants of the captions against what the data could have given."""
    rows: list[Row] = []
    for n, quoted in settings.quoted.items():
        prior, even = settings.prior, uniform_counts(n, len(settings.prior))
        matching = with_local(settings, n)
        beta = smoothing(settings.epsilon, settings.deltas[0], n, places=n)
        smooth = np.array([smooth_sensitivity(row, prior, beta=beta) for row in matching.tolist()])
        both = np.round(smooth, len(quoted.smooth.split(".")[1])) == float(quoted.smooth)
        rows.append(
            {
                "n": n,
                "quoted_global": quoted.whole,
                "global": global_sensitivity(n, prior),
                "record_from_prior": float(hellinger((7, 4, 5), (8, 3, 5))),
                "quoted_beta": quoted.beta,
                "beta": smoothing(settings.epsilon, settings.deltas[0], n),
                "beta_with_2n": beta,
                "quoted_local": quoted.local,
                "local_even": float(local_sensitivities(np.array([even]), prior)[0]),
                "datasets_with_quoted_local": len(matching),
                "evenest_of_them": str(evenest(matching)),
                "quoted_smooth": quoted.smooth,
                "smooth_even": smooth_sensitivity(even, prior, beta=beta),
                "largest_smooth_of_them": float(smooth.max()),
                "datasets_with_both": int(both.sum()),
            }
        )
    return rows


def constant_claims(rows: Sequence[Row]) -> list[Statement]:
    """Which of the quoted constants are right."""
    whole_off = max(digits_apart(row["quoted_global"], row["global"]) for row in rows)
    prior_off = max(digits_apart(row["quoted_global"], row["record_from_prior"]) for row in rows)
    beta_off = [digits_apart(row["quoted_beta"], row["beta"]) for row in rows]
    other_off = [digits_apart(row["quoted_beta"], row["beta_with_2n"]) for row in rows]
    local = [row["datasets_with_quoted_local"] for row in rows]
    even = [digits_apart(row["quoted_local"], row["local_even"]) <= 0.5 for row in rows]
    smooth = [row["datasets_with_both"] for row in rows]
    return [
        Statement(
            "quoted global sensitivity",
            f"the global sensitivity is {rows[0]['quoted_global']}",
            "B Figures 4, 5",
            "yes" if whole_off <= 0.5 else "no",
            f"it is {rows[0]['global']:.12f}; the quoted number is H(Dir(7, 4, 5), Dir(8, 3, 5)) to "
            f"{prior_off:.2g} units of the last digit",
            "a record was taken from the prior: no dataset has fewer records in a category than none",
            {"global": rows[0]["global"]},
        ),
        Statement(
            "quoted smoothing",
            "β is " + ", ".join(f"{row['quoted_beta']} for n = {row['n']}" for row in rows),
            "B Figures 4, 5",
            "yes" if max(beta_off) <= 0.5 else "partly" if max(other_off) <= 0.5 else "no",
            "by B 2.3 "
            + ", ".join(f"{row['beta']:.9f}" for row in rows)
            + "; with 2n in the place of 2(n + 1) "
            + ", ".join(f"{row['beta_with_2n']:.13f}" for row in rows),
            "computed with 2n"
            if max(other_off) <= 0.5
            else "the β of another n: the caption of Figure 4(b) again",
            {"beta": [row["beta"] for row in rows]},
        ),
        Statement(
            "quoted local sensitivity",
            "the local sensitivity is "
            + ", ".join(f"{row['quoted_local']} for n = {row['n']}" for row in rows),
            "B Figures 4, 5",
            "yes" if all(even) else "partly" if all(local) else "no",
            "; ".join(
                f"n = {row['n']}: {row['datasets_with_quoted_local']} datasets round to it, the most even "
                f"{row['evenest_of_them']}; even counts have {row['local_even']:.4f}"
                for row in rows
            ),
            "B does not give its data; data of one shape have a smaller local sensitivity at a larger n",
            {"datasets": local},
        ),
        Statement(
            "quoted smooth sensitivity",
            "the smooth sensitivity is "
            + ", ".join(f"{row['quoted_smooth']} for n = {row['n']}" for row in rows),
            "B Figures 4, 5",
            "yes" if all(smooth) else "partly" if any(smooth) else "no",
            "; ".join(
                f"n = {row['n']}: {row['datasets_with_both']} datasets have both; with that local "
                f"sensitivity it is {row['largest_smooth_of_them']:.4f} at most"
                for row in rows
            ),
            "" if all(smooth) else "it is the local sensitivity itself in all of them",
            {"datasets": smooth},
        ),
    ]
