"""The models, one file each: what a record adds at a public point, how far that reaches, and its
curvature."""

from __future__ import annotations

from typing import Any

from discreet._text import nearest
from discreet.errors import InvalidInput
from discreet.regression.newton.design import Design
from discreet.regression.newton.models.base import EXCESSES, UNKNOWN_EXCESS, Link, ResponseModel
from discreet.regression.newton.models.binomial import BinomialModel
from discreet.regression.newton.models.gaussian import GaussianModel
from discreet.regression.newton.models.multinomial import MultinomialModel
from discreet.regression.newton.models.poisson import PoissonModel

__all__ = ["EXCESSES", "MODELS", "UNKNOWN_EXCESS", "Link", "ResponseModel", "model_of"]

MODELS: dict[str, type[ResponseModel]] = {
    one.family: one for one in (GaussianModel, BinomialModel, MultinomialModel, PoissonModel)
}


def model_of(family: Any, design: Design) -> ResponseModel:
    """The model of a family for the response of a design."""
    if family not in MODELS:
        raise InvalidInput(f"family={family!r} is unknown{nearest(family, MODELS)}")
    return MODELS[family].of(design)
