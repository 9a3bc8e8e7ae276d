"""The pictures of the gallery: figures as reports and the studio draw them, from seeded runs.

``python docs/_gallery.py`` writes them anew to docs/images/gallery/. Records are simulated; noise has a seed.
"""

from __future__ import annotations

import re
import sys
import warnings
from pathlib import Path

import numpy as np

import discreet
from discreet._reporting.figures import curve, drawing

sys.path.insert(0, str(Path(__file__).resolve().parent))
from _outputs import seeded

FOLDER = Path(__file__).resolve().parent / "images" / "gallery"
STYLE = {
    "var(--accent)": "#2456a6",
    "var(--second)": "#b3500a",
    "var(--line)": "#ccc",
    "currentColor": "#333",
}
N = 2000


def records() -> dict[str, list[object]]:
    """Simulate a survey in which the columns depend on each other."""
    rng = np.random.default_rng(1)
    sex, region = rng.integers(0, 2, N), rng.integers(0, 8, N)
    age = rng.uniform(18, 90, N).round()
    smoker = (rng.random(N) < 0.16 + 0.06 * sex + 0.02 * region).astype(int)
    income = np.clip(rng.lognormal(7.6 + 0.15 * sex, 0.5, N), 0, 9000).round()
    hours = np.clip(34 + 4 * sex - 0.05 * (age - 50) + rng.normal(0, 8, N), 0, 80).round()
    job, seen = rng.exponential(9 + 5 * sex), rng.uniform(3, 40, N)
    months = np.minimum(np.minimum(job, seen), 36)
    return {
        "sex": ["female" if one else "male" for one in sex],
        "smoker": ["yes" if one else "no" for one in smoker],
        "cough": ["yes" if one else "no" for one in rng.random(N) < 0.1 + 0.3 * smoker],
        "region": [f"region {one + 1}" for one in region],
        "age": age.tolist(),
        "income": income.tolist(),
        "hours": hours.tolist(),
        "months": months.tolist(),
        "found": ["found" if a <= min(b, 36) else "searching" for a, b in zip(job, seen, strict=True)],
    }


SCHEMA = discreet.Schema(
    {
        "sex": ["female", "male"],
        "smoker": ["no", "yes"],
        "cough": ["no", "yes"],
        "region": discreet.Category([f"region {one}" for one in range(1, 9)], public=True),
        "age": discreet.Number(18, 90, bins=(18, 30, 45, 60, 75, 90)),
        "income": (0, 9000),
        "hours": (0, 80),
        "months": (0, 36),
        "found": ["searching", "found"],
    },
    n=N,
)


def figures() -> dict[str, str]:
    """Return each figure as the HTML of a report."""
    data, epsilon = records(), 1
    by_region = discreet.proportions(data, "smoker", by="region", schema=SCHEMA, epsilon=epsilon)
    answers = {
        "proportions": discreet.proportions(data, "age", schema=SCHEMA, epsilon=epsilon),
        "table": discreet.proportions(data, "sex", "smoker", schema=SCHEMA, epsilon=epsilon),
        "groups": discreet.mean(data, "hours", by="region", schema=SCHEMA, epsilon=epsilon),
        "pooled": by_region.pool(),
        "quantiles": discreet.quantiles(data, "income", schema=SCHEMA, epsilon=epsilon),
        "survival": discreet.survival(data, "months", "found", by="sex", schema=SCHEMA, epsilon=epsilon),
        "regression": discreet.regress(
            data, "hours ~ age + sex + smoker", schema=SCHEMA, epsilon=epsilon, delta="1e-6"
        ),
        "network": discreet.network(
            data, {"smoker": ["sex"], "cough": ["smoker"]}, schema=SCHEMA, epsilon=epsilon
        ),
        "draws": discreet.draw(data, "smoker", schema=SCHEMA, epsilon=epsilon, delta="1e-6"),
    }
    drawn = {name: drawing(answer.figure()) for name, answer in answers.items()}
    epsilons = np.geomspace(0.05, 5, 25).tolist()
    plans = [discreet.plan(discreet.Proportions("smoker"), SCHEMA, epsilon=round(e, 4)) for e in epsilons]
    drawn["plan"] = curve(
        epsilons,
        [100 * plan.widths[0] for plan in plans],
        title="Expected half-width of the 95 % interval of a share",
        axes=("ε", "± points"),
        marked=1,
        floor=100 * plans[0].without_privacy()[0],
        logarithmic=True,
    )
    return drawn


def picture(figure: str) -> str:
    """Return the drawing of a figure as an SVG file of its own."""
    svg = re.search(r"<svg.*?</svg>", figure, re.DOTALL)
    assert svg is not None
    text = re.sub("|".join(map(re.escape, STYLE)), lambda found: STYLE[found[0]], svg[0])
    style = "text { font: 13px sans-serif; fill: #333 } .name { font-weight: 600 }"
    return text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1).replace(
        ">", f"><style>{style}</style>", 1
    )


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with seeded(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, figure in figures().items():
            (FOLDER / f"{name}.svg").write_text(picture(figure) + "\n", "utf-8")


if __name__ == "__main__":
    main()
