"""Building blocks for questions, families and mechanisms of your own: see ``docs/how-to/extending.md``."""

from __future__ import annotations

from discreet._data import clipped_sum, contingency, count_levels
from discreet._documents.answer import Answer
from discreet._documents.parts import Row, Words
from discreet._numerics.enclosures import Ball, ball
from discreet._randomness.cells import exact_cell, power_of_two
from discreet._randomness.entropy import Source, private_source
from discreet._randomness.integers import discrete_laplace
from discreet._registry import DOCUMENTS, FAMILIES, MECHANISMS, QUESTIONS
from discreet.distributions.gamma import Gamma
from discreet.distributions.mixtures import GammaMixture
from discreet.mechanisms._outputs import Output
from discreet.mechanisms.base import Mechanism
from discreet.posterior_sampling._given_draws import weighed_statistics
from discreet.posterior_sampling.family import Family, NumberFamily, ProfiledFamily, of_two
from discreet.questions._request import PricedRequest, Request
from discreet.questions._text import NAMES, NUMBER, NUMBERS, OPTIONS, TEXT, optional, parameter
from discreet.questions.base import Question
from discreet.questions.widths import Guess, PlannedWidth

__all__ = [
    "DOCUMENTS",
    "FAMILIES",
    "MECHANISMS",
    "NAMES",
    "NUMBER",
    "NUMBERS",
    "OPTIONS",
    "QUESTIONS",
    "TEXT",
    "Answer",
    "Ball",
    "Family",
    "Gamma",
    "GammaMixture",
    "Guess",
    "Mechanism",
    "NumberFamily",
    "Output",
    "PlannedWidth",
    "PricedRequest",
    "ProfiledFamily",
    "Question",
    "Request",
    "Row",
    "Source",
    "Words",
    "ball",
    "clipped_sum",
    "contingency",
    "count_levels",
    "discrete_laplace",
    "exact_cell",
    "of_two",
    "optional",
    "parameter",
    "power_of_two",
    "private_source",
    "weighed_statistics",
]
