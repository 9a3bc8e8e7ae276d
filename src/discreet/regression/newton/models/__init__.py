"""The models, one file each: what a record adds at a public point, how far that reaches, and its
curvature."""

from __future__ import annotations

from typing import Any

from discreet.errors import InvalidInput
from discreet.regression.newton.design import Design
from discreet.regression.newton.models.base import Link, Model
from discreet.regression.newton.models.binomial import Binomial
from discreet.regression.newton.models.gaussian import Gaussian
from discreet.regression.newton.models.multinomial import Multinomial
from discreet.regression.newton.models.poisson import Poisson

__all__ = ["MODELS", "Link", "Model", "model_of"]

MODELS: dict[str, type[Model]] = {one.family: one for one in (Gaussian, Binomial, Multinomial, Poisson)}


def model_of(family: Any, design: Design) -> Model:
    """The model of a family for the response of a design."""
    if family not in MODELS:
        raise InvalidInput(f"family={family!r} must be one of {', '.join(MODELS)}")
    return MODELS[family].of(design)
