"""The plan page: what an ε costs, before any data is opened."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response

from discreet.distributions.normal import Normal
from discreet.errors import DiscreetError
from discreet.privacy.guarantee import Guarantee
from discreet.studio import charts
from discreet.studio.fields import MAX_EPSILON, MIN_EPSILON
from discreet.studio.forms import ReleaseForm
from discreet.studio.planning import all_figures, figures, mean_plan, meaning, picture, prior_densities
from discreet.studio.questions import MAX_PLAN_LEVELS, MAX_PLAN_N, PlanQuestion
from discreet.studio.shell import Studio, address, is_fragment, problem


def add_plan(app: FastAPI, studio: Studio) -> None:
    @app.get("/plan")
    def plan_page(request: Request) -> Response:
        question, context = _plan_context(request)
        status = 200
        try:
            if context["problem"] is None:
                context |= _plan_result(question)
                studio.prefetch.note(question)
        except DiscreetError as error:
            context["problem"] = problem(error)
        if context["problem"] is not None:
            status = context["problem"][0]
        fragment = is_fragment(request)
        response = studio.page(request, "plan_result.html" if fragment else "plan.html", status, **context)
        if fragment and status == 200:
            response.headers["HX-Push-Url"] = address("/plan", question.query())
        return response

    @app.get("/plan/all")
    def plan_all(request: Request) -> Response:
        question = PlanQuestion.read(request.query_params)
        question.check()
        found = all_figures(question.alpha, question.records, question.budget)
        if found is None:
            return Response(status_code=204)
        return studio.page(request, "plan_table.html", **_comparison(question, found))


def _plan_context(request: Request) -> tuple[PlanQuestion, dict[str, Any]]:
    try:
        question = PlanQuestion.read(request.query_params)
        found = None
    except DiscreetError as error:
        question, found = PlanQuestion(), problem(error)
    limits = {
        "levels": MAX_PLAN_LEVELS,
        "n": MAX_PLAN_N,
        "low": float(MIN_EPSILON),
        "high": float(MAX_EPSILON),
    }
    return question, {"question": question, "problem": found, "limits": limits}


def _plan_result(question: PlanQuestion) -> dict[str, Any]:
    question.check()
    common = {
        "meaning": meaning(Guarantee(question.budget)),
        "python": question.python(),
        "command": question.command(),
    }
    if question.kind == "mean":
        found = mean_plan(
            question.start,
            question.records,
            question.spread,
            question.limits,
            question.budget,
            question.target_delta,
        )
        release = address("/release", _planned(question, found.drawn_by).query())
        return {
            **common,
            "means": found,
            "means_spec": charts.means(found),
            "prior_spec": charts.prior_of_mean(Normal(*question.start), question.limits),
            "release": release,
        }
    shown = picture(question)
    compared = figures(question.alpha, question.records, question.budget)
    return {
        **common,
        **_comparison(question, compared),
        "picture": shown,
        "picture_spec": charts.releases(shown, question.names[question.shown]),
        "prior_spec": charts.priors(prior_densities(question)),
        "release": address("/release", _planned(question).query()),
    }


def _planned(question: PlanQuestion, method: str = "") -> ReleaseForm:
    """What was planned, as the release form has it; data are chosen next."""
    texts = {"epsilon": question.epsilon.strip(), "n": question.n.strip()}
    if question.kind == "mean":
        texts |= {name: getattr(question, name).strip() for name in ("bounds", "sigma", "delta")}
        return ReleaseForm(
            kind="sample",
            texts={"family": "gaussian", "prior": question.centre.strip(), "method": method, **texts},
        )
    if not question.levels.strip().isdigit():
        texts["levels"] = "\n".join(question.names)
    return ReleaseForm(kind="proportion", texts={"prior": question.prior.strip(), **texts})


def _comparison(question: PlanQuestion, found: Any) -> dict[str, Any]:
    spec = charts.comparison(found, len(found.lines))
    return {"question": question, "found": found, "comparison_spec": spec}
