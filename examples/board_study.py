"""A board's study from one budget to one page: education by sex, the mean age of respondents, a regression.

The survey is made up. Run it with ``python examples/board_study.py``; it writes ``board.html``.
"""

import numpy as np
import pandas as pd

import discreet

rng, n = np.random.default_rng(1), 3000
sex, education = ("female", "male"), ("no degree", "school", "college", "university")
people = pd.DataFrame(
    {"sex": rng.choice(sex, n), "education": rng.choice(education, n, p=(0.1, 0.4, 0.3, 0.2))}
)
people["age"] = np.clip(rng.normal(47, 16, n), 18, 95).round()
people["hours"] = np.clip(
    22 + 4 * (people["sex"] == "male") + 0.1 * people["age"] + rng.normal(0, 8, n), 0, 80
)
people.loc[rng.random(n) < 0.05, "age"] = np.nan  # some did not say

study = discreet.Study(people, budget={"epsilon": 2, "delta": "1e-6"}, n=n, dataset="Survey 2026")
plan = study.split(  # before any data are opened: how much of the budget does each question get?
    [
        {"id": "education", "kind": "table", "title": "Education by sex", "within": "2 points",
         "columns": {"sex": sex, "education": education}},
        {"id": "age", "kind": "mean", "title": "Mean age of those who answered",
         "column": "age", "bounds": (18, 95), "missing": "exclude"},
        {"id": "hours", "kind": "regress", "title": "Working hours by age and sex", "weight": 3,
         "formula": "hours ~ age + C(sex)", "bounds": {"hours": (0, 80), "age": (18, 95)},
         "levels": {"sex": sex}, "missing": {"age": "exclude"}},
    ]
)  # fmt: skip
print(plan)
for question in plan.questions:
    print(study.answer(question), end="\n\n")
study.report("board.html", title="Survey 2026: results for the board")
print(f"The report is board.html; left of the budget: {study.account().remaining}")
