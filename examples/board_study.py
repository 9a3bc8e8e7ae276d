"""A study for a board: one schema, one budget, three questions, one report. The survey is simulated."""

import discreet
from discreet.study.simulated import simulate_records

schema = discreet.Schema(
    {
        "sex": ["female", "male"],
        "education": ["no degree", "school", "college", "university"],
        "age": discreet.Number(18, 95, missing="exclude", unit="years"),
        "hours": discreet.Number(0, 80, label="working hours"),
    },
    n=3000,
)
people = simulate_records(schema)
study = discreet.Study(people, schema, epsilon=2, delta="1e-6", ledger="ledger.db", dataset="survey-2026")
plan = study.split(  # opens no data: how much of the budget does each question get?
    [
        {"id": "education", "title": "Education by sex", "columns": ["sex", "education"], "within": 0.02},
        {"id": "age", "kind": "mean", "title": "Mean age", "column": "age"},
        {"id": "hours", "kind": "regress", "title": "Hours", "formula": "hours ~ age + sex", "weight": 3},
    ]
)
print(plan)
for question in plan.questions:
    print(study.answer(question), end="\n\n")
study.report("board.html", title="Survey 2026: results for the board")
print(f"The report is board.html, its data board.json; left of the budget: {study.account().remaining}")
