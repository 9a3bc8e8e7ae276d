"""A private regression with error bars: the question, :class:`Regression`, and its answer, :class:`Fit`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.special import ndtri

from discreet._data.grids import Grid
from discreet._declarations import (
    Domain,
    Relation,
    as_epsilon,
    as_positive,
    as_probability,
    as_rational,
    as_real,
    as_reals,
    as_target_delta,
    people_assumption,
)
from discreet._documents.answer import Answer
from discreet._documents.base import parse
from discreet._documents.parts import (
    INTERVALS_NOTE,
    LARGEST,
    VERSIONS,
    Figure,
    Row,
    Words,
    as_count,
    with_interval,
)
from discreet._documents.weights import DRAWS, SurveyWeights, WeighsRecords
from discreet._interop import Bridged
from discreet._json import fields_as_json
from discreet._randomness.entropy import OS_ENTROPY, SeededEntropy
from discreet._typing import EpsilonLike, FloatArray
from discreet.distributions.mixture_likelihood import MixtureLikelihood
from discreet.errors import DataError, InvalidInputError
from discreet.privacy.curves import Gaussian as GaussianCurve
from discreet.privacy.curves import largest_gaussian
from discreet.privacy.guarantee import Guarantee
from discreet.regression._newton.curvature import MOST_LATENT
from discreet.regression._newton.design import RESPONSE_BITS, WEIGHT_BITS, Design, design
from discreet.regression._newton.earlier import COLUMNS_OF_0_2, EarlierFit
from discreet.regression._newton.formulas import check_formula, term_in_words
from discreet.regression._newton.models import ResponseModel, model_of
from discreet.regression._newton.posterior import (
    SURVEY_PART,
    CoefficientPrior,
    Posterior,
    PublicSetting,
)
from discreet.regression._newton.records import RecordSource, codes_of, read
from discreet.regression._newton.rounds import Outcome, Schedule, ask, descends
from discreet.regression._newton.sums import Round, RoundNoise, RoundSums, possible, round_cost

if TYPE_CHECKING:
    from discreet._randomness.entropy import Source

_READING = (
    "A coefficient is the change of the linear predictor for one more unit of its column, with the other "
    "columns held fixed. Given the prior and the model, the interval contains it with the stated "
    "probability."
)
_PUBLIC = "the number of records is public"
_MOST_ROUNDS = 16
"""The most rounds that are read from a document; no question has as many."""
_MOST_RECORDS = 2**53
"""The most records in a document that does not state their number."""
_SCALES = {"gaussian": f"orthogonal, 2^{RESPONSE_BITS}"}
"""The name of the scaling of columns and numeric responses; a document with another scaling is refused."""
BASIS = "rounded Gaussian noise on exact integer sums; rounds compose as Gaussian differential privacy"


@dataclass(frozen=True)
class Units:
    """The map from scaled coefficients w to those in the units of the columns: mixing @ w + offset."""

    names: tuple[str, ...]
    mixing: FloatArray
    offset: FloatArray
    ranges: FloatArray
    """The declared range of each column, its largest value minus its least."""


@dataclass(frozen=True)
class Regression:
    """The public question of a regression, fixed before the data are read: see :func:`discreet.regress`."""

    formula: str
    family: str
    bounds: Mapping[str, tuple[float, float]]
    levels: Mapping[str, Sequence[Any]]
    epsilon: Fraction
    delta: Fraction
    prior: Mapping[str, tuple[float, float]] | None = None
    missing: Mapping[str, Any] | None = None
    n: int | None = None
    relation: Relation = Relation.REPLACE_ONE
    per_person: int | None = None
    norm: float | None = None
    aim: str = "intervals"
    person: str | None = None
    other: Mapping[str, Any] | None = None
    """For each column, the level that undeclared values count as."""
    errors: str | None = None
    """``"robust"`` where errors may have unequal variances."""
    weight: str | None = None
    """The column of survey weights: the errors are then robust."""
    most: float | None = None
    """The largest weight; larger ones are cut to it."""

    def __post_init__(self) -> None:
        if (self.weight is None) is not (self.most is None):
            raise InvalidInputError("weight=COLUMN and most=NUMBER go together")
        if self.weight is not None and (self.family == "multinomial" or self.aim != "intervals"):
            raise InvalidInputError(
                "has no weighted form: use 'gaussian', 'binomial' or 'poisson' with intervals, or leave the "
                "weight out of the schema, for coefficients of the records",
                parameter="family",
                value=self.family,
            )
        if self.errors not in (None, "robust"):
            raise InvalidInputError("must be 'robust', or be left out", parameter="errors", value=self.errors)
        if self.errors and (self.family != "gaussian" or self.aim != "intervals"):
            raise InvalidInputError(
                "is for intervals of Gaussian models; leave it out", parameter="errors", value=self.errors
            )
        if self.robust and self.design.d > MOST_LATENT:
            raise InvalidInputError(
                f"{'weights' if self.weight else 'robust errors'} are possible for at most {MOST_LATENT} "
                f"coefficients, but the formula has {self.design.d}"
            )
        if self.aim not in ("intervals", "prediction"):
            raise InvalidInputError("must be 'intervals' or 'prediction'", parameter="aim", value=self.aim)
        if self.n is not None and not self.hides_size and self.n < self.design.d:
            raise InvalidInputError(
                f"n={self.n} is less than the {self.design.d} coefficients: nothing can be fitted"
            )

    @property
    def robust(self) -> bool:
        """Whether errors are robust: the sampling variance of the score is released, not derived from the
        model."""
        return self.errors == "robust" or self.weight is not None

    @property
    def hides_size(self) -> bool:
        """Whether the number of records is private."""
        return self.relation is Relation.ADD_REMOVE

    @cached_property
    def design(self) -> Design:
        """The design; for predictions by gradient descent, rows are shortened to their typical norm.

        A row that is shortened as a whole, intercept included, stays on its side of the decision boundary.
        Noise is proportional to the largest norm, so it is up to √3 times smaller for evenly spread numbers.
        """
        unshortened = design(
            self.formula,
            family=self.family,
            bounds=self.bounds,
            levels=self.levels,
            missing=self.missing,
            other=self.other,
            norm=self.norm,
            weight=None if self.weight is None or self.most is None else (self.weight, self.most),
        )
        model = model_of(self.family, unshortened)
        if self.norm is not None or self.aim != "prediction":
            return unshortened
        signal = self.mu_squared / (self.per_person or 1) ** 2
        if not descends(unshortened, model, self.aim, self.n, signal, self._has_public_size(unshortened)):
            return unshortened
        return unshortened.spread(math.isqrt(int(np.trace(unshortened.second_moments) * unshortened.unit**2)))

    @cached_property
    def model(self) -> ResponseModel:
        return model_of(self.family, self.design)

    @cached_property
    def mu_squared(self) -> Fraction:
        return largest_gaussian(self.epsilon, self.delta)

    @cached_property
    def response_scale(self) -> tuple[float, float]:
        """The middle and half-width of a numeric response's bounds; 0 and 1 for other responses."""
        coder = self.design.response.coder
        if not (self.model.normal and isinstance(coder, Grid)):
            return 0.0, 1.0
        return (coder.low + coder.high) / 2, coder.width / 2

    def term_in_words(self, name: str) -> str:
        """Return the name of a coefficient in words, with its outcome in a multinomial model."""
        of = next((f"{v}: " for v in self.design.response.levels if name.startswith(f"{v}: ")), "")
        return of + term_in_words(name.removeprefix(of), self.levels)

    @cached_property
    def units(self) -> Units:
        design, outputs, (middle, half) = self.design, self.model.outputs, self.response_scale
        ranges = design.ranges()
        offset = np.zeros(design.d)
        if design.constant is not None:
            offset[design.constant] = middle
        names = design.names
        if outputs > 1:
            names = tuple(f"{level}: {name}" for level in design.response.levels[1:] for name in names)
        mixing = np.asarray(np.kron(np.eye(outputs), design.mixing * half), dtype=np.float64)
        return Units(names, mixing, np.tile(offset, outputs), np.tile(ranges, outputs))

    @cached_property
    def guarantee(self) -> Guarantee:
        people, most = self.per_person is not None and not self.hides_size, self.per_person or 1
        public = () if self.hides_size else (_PUBLIC,)
        return Guarantee(
            exact_epsilon=self.epsilon,
            relation=Relation.REPLACE_PERSON if people else self.relation,
            exact_delta=self.delta,
            basis=BASIS,
            assumptions=(*public, people_assumption(most, self.person)) if people else public,
            curve=GaussianCurve(self.mu_squared),
            unit=self.person if people else None,
        )

    def scaled_prior(self) -> CoefficientPrior:
        """The prior of the scaled coefficients."""
        wide = CoefficientPrior.wide(self.design, self.model, self.aim)
        if not self.prior:
            return wide
        if not isinstance(self.prior, Mapping):
            raise InvalidInputError("must name coefficients", parameter="prior", value=self.prior)
        units, declared = self.units, {}
        unknown = [name for name in self.prior if name not in units.names]
        if unknown:
            raise InvalidInputError(
                f"prior names {unknown[0]!r}, which is not one of the coefficients {units.names}"
            )
        for name, pair in self.prior.items():
            try:
                centre, deviation = (float(value) for value in pair)
            except (TypeError, ValueError):
                raise InvalidInputError(
                    f"prior[{name!r}]={pair!r} must be (mean, standard deviation)"
                ) from None
            if not (math.isfinite(centre) and math.isfinite(deviation) and deviation > 0):
                raise InvalidInputError(
                    f"prior[{name!r}]={pair!r} needs finite numbers and a standard deviation > 0"
                )
            declared[units.names.index(name)] = centre, deviation
        back = np.asarray(np.linalg.inv(units.mixing), dtype=np.float64)
        return wide.with_declared(back, units.offset, declared)

    def setting(self, n: int | None, survey: tuple[int, ...] = ()) -> PublicSetting:
        """Return the public setting of the rounds: ``n`` is None if private, ``survey`` sums the weights."""
        prior, people = self.scaled_prior(), self.per_person or 1
        return PublicSetting(
            self.design,
            self.model,
            prior,
            self.mu_squared,
            self.relation,
            n,
            people,
            self.n,
            self.robust,
            survey,
        )

    @property
    def is_counted(self) -> bool:
        """Whether the number of records that are used is public, and so a part of the answer."""
        return self._has_public_size(self.design)

    def _has_public_size(self, design: Design) -> bool:
        """Whether the number of records used is public: not under add-remove, nor if some are left out."""
        return not self.hides_size and not design.excludes

    def fit(self, data: Any, person: str | None = None, source: Source = OS_ENTROPY) -> Fit:
        """Fit the model to data; with a ``source`` other than the operating system the answer is not
        private."""
        with read(self.design, data, person, self.per_person) as records:
            return self.fit_records(records, source)

    def fit_records(self, records: RecordSource, source: Source = OS_ENTROPY) -> Fit:
        """Fit the model to records that were read already."""
        if not self.hides_size:
            if not records.n:
                raise DataError("the data are empty: there are no records")
            if self.n is not None and records.n != self.n:
                raise InvalidInputError(
                    f"n={self.n} was declared but the data have a different number of records"
                )
            if records.n < self.design.d:
                raise InvalidInputError(f"there are fewer records than the {self.design.d} coefficients")
        setting = self.setting(records.n if self._has_public_size(self.design) else None)
        outcome = ask(setting, lambda link, curved: records.sums(self.model, link, curved), source, self.aim)
        reached = None if outcome.reached is None else tuple(outcome.reached.tolist())
        private = type(source) is not SeededEntropy
        return Fit(self, setting.n, reached, outcome.rounds, private, VERSIONS, outcome.setting.survey)

    def to_dict(self) -> dict[str, Any]:
        """Return the question as JSON values that :meth:`from_dict` reads."""
        fields = fields_as_json(self)
        fields["bounds"] = {name: list(map(float, pair)) for name, pair in self.bounds.items()}
        fields["levels"] = {name: list(values) for name, values in self.levels.items()}
        return {name: value for name, value in fields.items() if value not in (None, {})}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Regression:
        """Read the result of :meth:`to_dict`, checking each part."""
        fields = dict(content)
        for name in ("bounds", "prior"):
            pairs = fields.get(name, {}).items()
            for _, pair in pairs:
                as_reals(pair, name)
            fields[name] = {key: tuple(pair) for key, pair in pairs}
        fields["levels"] = {name: tuple(values) for name, values in fields.get("levels", {}).items()}
        fields["epsilon"] = as_rational(fields["epsilon"], "epsilon", 0)
        fields["delta"] = as_rational(fields["delta"], "delta", 0, 1)
        fields["relation"] = Relation(fields["relation"])
        if fields.get("most") is not None:
            fields["most"] = as_real(fields["most"], "most")
            if not (isinstance(fields["weight"], str) and fields["most"] > 0):
                raise ValueError("its weights are malformed")
        for name in ("n", "per_person"):
            if fields.get(name) is not None:
                fields[name] = as_count(fields[name], name, 1)
        asked = cls(**{**fields, "prior": fields["prior"] or None})
        people = asked.per_person is not None
        if (
            asked.relation not in (Relation.REPLACE_ONE, Relation.ADD_REMOVE)
            or (asked.person is None) is people
        ):
            raise ValueError("its relation or its unit of privacy is malformed")
        if asked.hides_size and (people or asked.n is not None):
            raise ValueError("it states a number of records that is private")
        if not (asked.epsilon and 0 < asked.delta < 1):
            raise ValueError("its epsilon and delta are malformed")
        return asked


def regression(
    formula: str,
    *,
    epsilon: EpsilonLike,
    delta: EpsilonLike,
    family: str = "gaussian",
    levels: Mapping[str, Sequence[Any] | Domain] | None = None,
    relation: str = "replace-one",
    missing: Mapping[str, Any] | None = None,
    **how: Any,
) -> Regression:
    """Return the :class:`Regression` of :func:`discreet.regress`, from arguments that a schema checked."""
    domains = {
        k: domain if isinstance(domain, Domain) else Domain(domain) for k, domain in (levels or {}).items()
    }
    ruled = {k: domain.missing for k, domain in domains.items() if domain.missing is not None}
    ruled |= dict(missing or {})
    question = Regression(
        formula,
        family,
        dict(how.pop("bounds", None) or {}),
        {k: tuple(domain.levels) for k, domain in domains.items()},
        as_epsilon(epsilon),
        as_target_delta(delta, "ask for counts instead, with pure epsilon"),
        relation=Relation(relation),
        missing=ruled or None,
        other={k: domain.other for k, domain in domains.items() if domain.other is not None} or None,
        **how,
    )
    _ = question.model, question.scaled_prior()  # every mistake before any data
    return question


@dataclass(frozen=True)
class Prediction:
    """Mean responses of records, each with an interval at ``level``."""

    mean: FloatArray
    low: FloatArray
    high: FloatArray
    level: float


def as_level(level: Any) -> float:
    return as_probability(level, "level", "0.9")


@dataclass(frozen=True, repr=False, eq=False)
class Fit(WeighsRecords, Bridged, Answer):
    """The posterior of a regression's coefficients given private sums; it may be published.

    Arrays follow the order of ``names``, in the units of the formula's columns. ``warnings`` has reasons why
    intervals may cover less often than stated; it depends on released values only, and may be empty.
    """

    format: ClassVar[str] = "discreet/regression"
    label: ClassVar[str] = "coefficient"
    variable: ClassVar[str] = "coefficients"
    plot_kind: ClassVar[str] = "coefficients"

    question: Regression
    n: int | None
    """The number of records, where it is public."""
    reached: tuple[float, ...] | None
    """The point at which gradient descent ended, if it was used."""
    rounds: tuple[tuple[Round, RoundSums], ...]
    """The released rounds: noisy sums, and the points at which they were taken."""
    private: bool = True
    versions: Mapping[str, str] = field(default_factory=dict)
    survey: tuple[int, ...] = ()
    """Noisy sums of survey weights: see :class:`discreet.regression._newton.sums.RoundSums`."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fit) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    @cached_property
    def outcome(self) -> Outcome:
        """The rounds, with the posterior of the scaled coefficients."""
        reached = None if self.reached is None else np.array(self.reached)
        return Outcome(self.question.setting(self.n, self.survey), reached, self.rounds)

    @cached_property
    def posterior(self) -> Posterior:
        """Draws of the coefficients in the units of the columns."""
        units = self.question.units
        return self.outcome.posterior.transform(units.mixing, units.offset)

    def likelihood(self) -> MixtureLikelihood:
        """Return the likelihood log P(published | coefficients), for a model of your own.

        Given the curvature and the dispersion the coefficients are normal; both are integrated out over their
        posterior draws. The prior of this fit is divided out.

        Returns
        -------
        MixtureLikelihood
            With ``log_prob`` and ``gradient``, of coefficients in the order of ``names``.

        Raises
        ------
        InvalidInputError
            If no curvature was published, or if the scale of the prior was learned.
        """
        distribution, units = self.outcome.posterior, self.question.units
        if distribution.components is None:
            raise InvalidInputError("this fit is for prediction: only a fit for intervals has a likelihood")
        weights, means, roots = distribution.components
        back = np.linalg.inv(units.mixing)
        inverses = np.linalg.inv(roots) @ back
        mixture = MixtureLikelihood.of_normals(
            self.names,
            weights,
            means @ units.mixing.T + units.offset,
            np.swapaxes(inverses, 1, 2) @ inverses,
        )
        prior_mean = units.mixing @ self.question.scaled_prior().mean + units.offset
        return mixture.without_prior(prior_mean, back.T @ np.linalg.inv(distribution.prior) @ back)

    @cached_property
    def warnings(self) -> tuple[str, ...]:
        """Reasons why the intervals may cover less often than stated, judged from released values; may be
        empty."""
        return (
            *(self.survey_weights.warnings if self.survey else ()),
            *reliability_warnings(self.question, self.posterior, bool(self.rounds)),
        )

    @cached_property
    def survey_weights(self) -> SurveyWeights:
        """The noisy sums of the weights."""
        if not self.survey or self.question.weight is None or self.question.most is None:
            raise InvalidInputError("the schema of this regression declares no weight")
        setting, rng = self.outcome.setting, np.random.default_rng(2)
        steps = float(1 << WEIGHT_BITS)
        deviations = [math.sqrt(variance) for variance in setting.survey_noise]
        total, _ = setting.weights
        return SurveyWeights(
            column=self.question.weight,
            most=self.question.most,
            n=self.n,
            cut=float(self.survey[0]),
            cut_scale=deviations[0],
            gaussian=True,
            totals=np.maximum(rng.normal(total, deviations[1] / steps, DRAWS), 1.0),
            counted=(float(self.survey[3]), deviations[3]) if self.n is None else (float(self.n), 0.0),
            squared=self.survey[2] / steps,
            deviation=deviations[2] / steps,
        )

    @property
    def records(self) -> float:
        """The number of records: public, or estimated from the released sums."""
        return float(self.n or self.outcome.posterior.records)

    @property
    def names(self) -> tuple[str, ...]:
        return self.question.units.names

    @property
    def guarantee(self) -> Guarantee:  # type: ignore[override]
        """The guarantee of everything in the answer."""
        return self.question.guarantee if self.private else Guarantee(None, basis="a simulation: not private")

    def _in_words(self, name: str) -> str:
        return self.question.term_in_words(name)

    def covariance(self) -> FloatArray:
        """The posterior covariance."""
        return self.posterior.covariance

    def noise_share(self) -> FloatArray:
        """The share of each coefficient's variance that comes from the privacy noise."""
        return np.clip(1 - np.diag(self.posterior.noise_free) / self.posterior.std() ** 2, 0.0, 1.0)

    def sigma(self, level: float = 0.95) -> tuple[float, float, float]:
        """Return the standard deviation of a Gaussian model's errors, in the units of the response.

        Parameters
        ----------
        level
            The probability of the interval.

        Returns
        -------
        tuple of float
            Median, low and high end.
        """
        scale = self.question.response_scale[1]
        return self._spread("gaussian", "sigma", np.sqrt(self.posterior.dispersion) * scale, level)

    def dispersion(self, level: float = 0.95) -> tuple[float, float, float]:
        """Return the ratio of the variance of counts to their mean, given the columns: 1 for a Poisson
        response.

        The intervals of the coefficients allow for overdispersion where the released sums establish it.

        Parameters
        ----------
        level
            The probability of the interval.

        Returns
        -------
        tuple of float
            Median, low and high end.
        """
        return self._spread("poisson", "dispersion", self.posterior.dispersion, level)

    def _spread(self, family: str, name: str, values: FloatArray, level: float) -> tuple[float, float, float]:
        if self.question.family != family:
            raise InvalidInputError(
                f"has no {name}; only {family.capitalize()} models do",
                parameter="family",
                value=self.question.family,
            )
        tail = (1 - as_level(level)) / 2
        middle, low, high = np.ravel(self.posterior.quantiles(values[:, None], (0.5, tail, 1 - tail)))
        return float(middle), float(low), float(high)

    def predict(self, frame: Any, level: float = 0.95) -> Prediction:
        """Predict the mean response of records: probabilities, rates, or numbers.

        Parameters
        ----------
        frame
            A table with the columns of the formula, in their own units.
        level
            The probability of the interval.

        Returns
        -------
        Prediction
            ``low``, ``mean`` and ``high``, one for each record; for a multinomial model with a column for
            each level, in the declared order.
        """
        tail, distribution = (1 - as_level(level)) / 2, self.outcome.posterior
        design, outputs = self.question.design, self.question.model.outputs
        rows = design.scale_rows(codes_of(design, frame))
        if outputs > 1:  # by draws, with a fixed seed: a softmax has no normal distribution
            responses = [self._through(rows @ w.reshape(outputs, -1).T) for w in distribution.choose(400, 0)]
            low, high = np.quantile(responses, [tail, 1 - tail], axis=0)
        else:
            reach = -ndtri(tail) * np.sqrt(np.einsum("ij,ij->i", rows @ distribution.covariance, rows))
            low, high = (self._through(rows @ distribution.mean + side * reach) for side in (-1, 1))
        return Prediction(self.response(rows), low, high, level)

    def response(self, rows: FloatArray) -> FloatArray:
        """Return the mean response of scaled rows at the posterior mean of the coefficients."""
        outputs = self.question.model.outputs
        centre = self.outcome.posterior.mean.reshape(outputs, -1)
        return self._through(rows @ centre.T if outputs > 1 else rows @ centre[0])

    def _through(self, predictor: FloatArray) -> FloatArray:
        """Apply the inverse link, in the units of the response."""
        middle, half = self.question.response_scale
        return middle + half * self.question.model.mean(predictor)

    def effects(self, level: float = 0.95) -> list[Row]:
        """Return average marginal effects: how much the mean response changes per unit of a column.

        An effect is a coefficient times the average derivative of the mean response in the linear predictor.
        That average is the released Hessian's entry for the intercept, divided by the number of records.

        Parameters
        ----------
        level
            The probability of the interval.

        Returns
        -------
        list of Row
            One for each column, in the units of the response; numeric columns in several terms are left out.
        """
        model, distribution = self.question.model, self.outcome.posterior
        if model.outputs > 1 or not self.rounds or self.question.design.constant is None:
            raise InvalidInputError(
                "marginal effects need an intercept, a response of numbers or two values, and a published "
                "curvature: see the warnings of the fit"
            )
        effects = replace(
            self.posterior, draws=self.posterior.draws * distribution.slope[:, None], exact=None
        )
        rows = self._rows_of(effects, as_level(level))
        plain = zip(rows, self.question.design.plain, strict=True)
        return [replace(row, name=self._row_label(row.name)) for row, is_plain in plain if is_plain]

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Draw coefficients from their posterior, in the units of the columns.

        Returns
        -------
        array of shape (size, len(names))
        """
        return self.posterior.choose(as_positive(size, "size"), seed)

    def _rows(self, level: float) -> list[Row]:
        """One row for each coefficient, in the units of the columns."""
        shares = self.noise_share().tolist()
        rows = self._rows_of(self.posterior, level)
        return [replace(row, noise=share) for row, share in zip(rows, shares, strict=True)]

    def _rows_of(self, distribution: Posterior, level: float) -> list[Row]:
        numbers = np.column_stack([distribution.mean, distribution.std(), *distribution.interval(level)])
        return [Row(name, *row) for name, row in zip(self.names, numbers.tolist(), strict=True)]

    def more_columns(self, rows: Sequence[Row], level: float) -> dict[str, list[str]]:
        """Return odds ratios or rate ratios with their intervals."""
        ratio = self.question.model.ratio
        if ratio is None:
            return {}
        ends = [[math.exp(min(x or 0.0, 700.0)) for x in (row.mean, row.low, row.high)] for row in rows]
        return {ratio: [with_interval(*numbers) for numbers in ends]}

    @property
    def slopes(self) -> list[int]:
        """Return which coefficients to plot: all but intercepts, whose scale would hide the others."""
        slopes = [j for j, name in enumerate(self.names) if "Intercept" not in name]
        return slopes or list(range(len(self.names)))

    def _figure(self, rows: Sequence[Row], level: float) -> Figure:
        """Plot the slopes that the prior does not dominate, times the declared ranges if these differ
        tenfold."""
        ranges, title = self.question.units.ranges, self.words().name
        drawn = sorted({*self.slopes} - {*self.posterior.find_undecided()}) or self.slopes
        if len(drawn) < len(self.slopes):
            title += ". Coefficients that the prior dominates are in the table only"
        if max(ranges[drawn]) > 10 * min(ranges[drawn]):
            rows = [_times(row, float(r)) for row, r in zip(rows, ranges, strict=True)]
            title += ". × marks a change over the whole declared range"
        return Figure(title, tuple(rows[j] for j in drawn))

    @property
    def notes(self) -> tuple[str, ...]:
        """Return the number of records, σ of a Gaussian model, and how to read the intervals."""
        asked = self.question
        about = min(self.records, math.inf if asked.n is None else asked.n)
        if self.survey and self.n is None:
            about = float(max(self.survey[3], 1))
        size = (
            f"n = {self.n:,}"
            if self.n is not None
            else f"About {about:,.0f} records were used (their exact number is private)"
        )
        if asked.model.normal:
            size += f"; σ = {with_interval(*self.sigma())}"
        notes = [f"{size}. Coefficients are in the units of the columns.", INTERVALS_NOTE]
        if self.survey:
            notes += [
                "The coefficients are those of the population that the weights stand for, and the intervals "
                "account for the weights.",
                self.survey_weights.note,
            ]
        elif asked.errors:
            notes.append("The errors may have unequal variances: the intervals are robust.")
        if asked.family == "poisson" and (dispersion := self.dispersion())[1] > 1:
            notes.append(
                f"The variance of counts is about {dispersion[0]:.2g} times that of a Poisson distribution "
                f"({dispersion[1]:.2g} to {dispersion[2]:.2g}); the intervals allow for it."
            )
        return tuple(notes)

    def words(self) -> Words:
        """Describe the model and how to read its coefficients."""
        asked = self.question
        stamp = "Private" if self.private else "NOT PRIVATE (from a seed):"
        declared = "; ".join(f"{name}: {low:g} to {high:g}" for name, (low, high) in asked.bounds.items())
        listed = "; ".join(f"{name}: {', '.join(map(str, values))}" for name, values in asked.levels.items())
        facts = [("Formula", asked.formula), ("Family", asked.family), ("Declared bounds", declared)]
        facts += [("Declared levels", listed)] if listed else []
        facts += [("Weights", f"{asked.weight}, cut at {asked.most:g}")] if asked.weight else []
        facts += [("Errors", "may have unequal variances (robust)")] if asked.errors else []
        return Words(
            headline=f"{stamp} {'weighted ' * bool(asked.weight)}{asked.family} regression: {asked.formula}",
            name=f"{'Weighted r' if asked.weight else 'R'}egression {asked.formula} ({asked.family})",
            facts=tuple(facts),
            reading=(_READING,),
        )

    def content(self) -> dict[str, Any]:
        """Return the answer as JSON values."""
        return {
            "question": self.question.to_dict(),
            "guarantee": self.guarantee.to_dict(),
            "columns": _SCALES.get(self.question.family, "orthogonal"),
            "n": self.n,
            "reached": None if self.reached is None else list(self.reached),
            **({"survey": list(self.survey)} if self.survey else {}),
            "rounds": [
                {
                    "point": list(turn.link.point),
                    "clip": turn.link.clip,
                    "mu_squared": str(turn.mu_squared),
                    "noise": [
                        None if variance is None else str(variance) for variance in astuple(turn.noise)
                    ],
                    "gradient": list(sums.gradient),
                    "curvature": list(sums.curvature),
                    "square": sums.square,
                    **({"outer": list(sums.outer)} if sums.outer else {}),
                    **({"mixing": list(turn.link.mixing)} if turn.link.mixing else {}),
                }
                for turn, sums in self.rounds
            ],
            "private": self.private,
            "versions": dict(self.versions),
        }

    @classmethod
    def from_json(cls, text: str) -> Any:
        """Read a document; one of version 0.2 is read without its estimates."""
        document = parse(text)
        content = document.get("release")
        columns = content.get("columns") if isinstance(content, Mapping) else None
        earlier = document.get("version") == 1 or columns == COLUMNS_OF_0_2
        return EarlierFit.from_json(text) if earlier else super().from_json(text)

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Fit:
        """Read the result of :meth:`content`; the guarantee must match the question."""
        question, reached = content["question"], content["reached"]
        if content.get("columns") != _SCALES.get(question["family"], "orthogonal"):
            raise ValueError(
                "its sums are over columns with another scale: read it with the version that wrote it"
            )
        # Nothing is computed that has many more columns than the document has numbers.
        held = max([len(reached or ()), *(len(fields["point"]) for fields in content["rounds"])])
        sizes = {name: len(levels) for name, levels in question.get("levels", {}).items()}
        least, most = check_formula(question["formula"], sizes)
        if max([least, *(number - 1 for number in sizes.values())]) > held or most > 64 * (held + 4):
            raise ValueError("its formula has more columns than it has coefficients")
        asked = Regression.from_dict(question)
        read = cls(
            asked,
            None if content["n"] is None else as_count(content["n"], "n", 1),
            None if reached is None else tuple(as_reals(reached, "reached").tolist()),
            tuple(_round_from(fields, asked) for fields in content["rounds"][:_MOST_ROUNDS]),
            content["private"] is True,
            dict(content["versions"]),
            tuple(as_count(value, "survey", -(2**200), 2**200) for value in content.get("survey", ())),
        )
        promised = read.guarantee.to_dict()
        earlier = {**promised, "assumptions": [_PUBLIC]}  # of 0.2.0, for people
        if content["guarantee"] not in (promised, *([earlier] if asked.per_person else [])):
            raise ValueError("its guarantee does not match its question")
        return read

    def check_parts(self) -> None:
        """Check that the number of records, the rounds and their noise match the question."""
        asked = self.question
        if (self.n is not None) is not asked.is_counted:
            raise ValueError("it states a number of records that its question keeps private, or the reverse")
        if self.n is not None and (self.n < asked.design.d or asked.n not in (None, self.n)):
            raise ValueError("its number of records does not match its question")
        setting = asked.setting(self.n)
        plan = Schedule.of(setting, asked.aim)
        if len(self.survey) != (len(setting.survey_noise) if setting.weighted else 0):
            raise ValueError("its sums of weights do not match its question")
        if [turn.mu_squared for turn, _ in self.rounds] != [
            share * setting.rounds_squared for share in plan.shares
        ]:
            raise ValueError("its rounds do not match its question")
        size = asked.design.d * asked.model.outputs if plan.steps else None
        if (None if self.reached is None else len(self.reached)) != size:
            raise ValueError("its last point does not fit its question")
        people = Fraction(asked.per_person or 1) ** 2
        for turn, sums in self.rounds:
            if not possible(asked.model, asked.design, turn, sums, self.n or _MOST_RECORDS):
                raise ValueError("a round has larger sums than that many records can have")
            variance = turn.noise.gradient
            cost = round_cost(asked.model, asked.design, turn, asked.relation) * people
            wanted = variance * cost / turn.mu_squared
            if variance.denominator != 1 or abs(variance - wanted) > 1 + variance / 10**6:
                raise ValueError("the noise of a round does not match its share of the privacy loss")
        super().check_parts()

    def cost(self) -> Guarantee:
        """Return the guarantee that follows from the noise of rounds or, for descent, from the question."""
        asked = self.question
        spent = sum(
            (round_cost(asked.model, asked.design, turn, asked.relation) for turn, _ in self.rounds),
            Fraction(0),
        )
        if self.reached is not None:
            spent += asked.mu_squared / Fraction(asked.per_person or 1) ** 2
        if self.survey:
            setting = asked.setting(self.n)
            spent += setting.mu_squared * SURVEY_PART / setting.per_person**2
        relation = Relation.ADD_REMOVE if asked.hides_size else Relation.REPLACE_ONE
        return Guarantee(None, relation, basis=BASIS, curve=GaussianCurve(spent))


def _round_from(content: Mapping[str, Any], asked: Regression) -> tuple[Round, RoundSums]:
    def whole(name: str) -> tuple[int, ...]:
        return tuple(as_count(value, name, -LARGEST) for value in content.get(name, ()))

    robust = asked.robust
    variances = (None if value is None else as_rational(value, "noise", 0) for value in content["noise"])
    noise = RoundNoise(*variances)  # type: ignore[arg-type]
    point, size = whole("point"), asked.design.d * asked.model.outputs
    sums = RoundSums(
        whole("gradient"),
        whole("curvature"),
        as_count(content["square"], "square", -LARGEST),
        whole("outer"),
    )
    triangle = size * (size + 1) // 2
    lengths = len(point), len(sums.gradient), len(sums.curvature), len(sums.outer)
    noised = [0 if variance is None else triangle for variance in (noise.curvature, noise.outer)]
    if noise.gradient is None or lengths != (size, size, *noised) or (noise.outer is None) is robust:
        raise ValueError("a round is malformed")
    if noise.square is None and sums.square:
        raise ValueError("a round publishes a sum without noise")
    mixing, clip = whole("mixing"), as_count(content["clip"], "clip")
    link = asked.model.link_at(asked.design, point, clip, mixing, robust)
    return Round(link, noise, as_rational(content["mu_squared"], "mu_squared", 0)), sums


_BENT = 0.4


def reliability_warnings(asked: Regression, distribution: Posterior, seen: bool) -> tuple[str, ...]:
    """Return reasons why intervals may cover less often than stated, judged from released values.

    A prior that the user declared may dominate a coefficient without a warning.
    """
    if not seen:
        return (
            "no curvature was published, because noise would have dominated it: use the fit for prediction; "
            "its intervals are those of the prior",
        )
    names = [asked.units.names[j] for j in distribution.find_undecided()]
    reasons, undecided = [], [asked.term_in_words(name) for name in names if name not in (asked.prior or ())]
    if len(undecided) == 1:
        reasons.append(
            f"{undecided[0]} cannot be estimated at this ε, and the prior decides it: declare a prior or "
            "narrower bounds, or take more records, a larger epsilon or fewer columns"
        )
    elif undecided:
        reasons.append(
            f"{', '.join(undecided)} cannot be told apart at this ε, and the prior decides them: declare a "
            "prior or narrower bounds, or take more records, a larger epsilon or fewer "
            "columns"
        )
    if distribution.bent > _BENT:
        reasons.append(
            "the last round was linearised too far from the coefficients: take more records or a larger "
            "epsilon, or declare a prior"
        )
    return tuple(reasons)


def _times(row: Row, factor: float) -> Row:
    """Return the row of a coefficient multiplied by the range of its column."""
    name = row.name if math.isclose(factor, 1) else f"{row.name} × {factor:,.7g}"
    sd, low, high = (factor * (part or 0.0) for part in (row.sd, row.low, row.high))
    return replace(row, name=name, mean=factor * row.mean, sd=sd, low=low, high=high)
