"""What all questions about counts share: prior, mechanism, price, and whose records they are."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

from discreet._registry import MECHANISMS
from discreet._typing import EpsilonLike
from discreet.answers.release import Release, publish
from discreet.data import Contribution
from discreet.declarations import (
    Domain,
    Relation,
    as_epsilon,
    as_integer,
    as_prior,
    as_relation,
    as_size,
    check_hidden_size,
    people_assumption,
)
from discreet.documents.answer import as_probability
from discreet.errors import InvalidInput, TooLargeError
from discreet.inference.add_remove import STRENGTH_PRIOR, LogUniform
from discreet.inference.expected_width import expected_width, width_without
from discreet.mechanisms import Mechanism, automatic, check_options
from discreet.mechanisms import mechanism as build_mechanism
from discreet.privacy.guarantee import Guarantee
from discreet.questions.base import Bound, PeopleQuestion, TotalQuestion, optional, parameter
from discreet.questions.text import BUDGET, NUMBERS, OPTIONS, PAIR, TEXT
from discreet.questions.widths import LEFT_OUT, NO_GUESS, POINTS, Guess, Rehearsal, Width

RELATIONS = (str(Relation.REPLACE_ONE), str(Relation.ADD_REMOVE))
MANY_LEVELS = 50
"""With more, of which most may be empty, the strength of the prior is inferred unless it is declared."""


@dataclass(frozen=True, kw_only=True)
class CountQuestion(TotalQuestion):
    """A question that a mechanism on counts answers."""

    epsilon: EpsilonLike = parameter(
        BUDGET, "Privacy budget of this release, such as 0.5 or 1/2.", example="0.5"
    )
    delta: EpsilonLike | None = optional(
        BUDGET, "The δ of the guarantee, such as 1e-6, for mechanisms that have one.", example="1e-6"
    )
    prior: float | Sequence[float] | None = optional(
        NUMBERS,
        "Dirichlet prior: one number for all levels, or one each: 1,2,1. Left out: 1, and with more than 50 "
        "levels one unknown number for all, which is inferred.",
        example="1",
    )
    mechanism: str = parameter(
        TEXT,
        "See `discreet mechanisms`; auto chooses by a rule.",
        default="auto",
        choices=lambda: ("auto", *MECHANISMS),
    )
    options: Mapping[str, Any] | None = optional(
        OPTIONS, "Options of the mechanism: calibration=exact; gamma=2.", label="Options of the mechanism"
    )

    relation: str = parameter(
        TEXT,
        "What is protected: replace-one, what a record says, where n is public; add-remove, whether a "
        "record is there at all, where n is private.",
        label="What is protected",
        default=str(Relation.REPLACE_ONE),
        choices=RELATIONS,
    )
    total_prior: Sequence[float] | None = optional(
        PAIR,
        "With add-remove: a range, such as 100,1e6, in which the private number of records is expected.",
        label="Range of the private number of records",
    )

    # What a kind of count question says.

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The levels that are counted."""

    # What follows from it.

    @property
    def k(self) -> int:
        return self.domain.k

    @cached_property
    def exact_prior(self) -> tuple[float, ...]:
        return as_prior(1.0 if self.prior is None else self.prior, self.k)

    @property
    def strength(self) -> LogUniform | None:
        """The range of the unknown parameter of the prior, where many levels have one that is inferred."""
        return STRENGTH_PRIOR if self.prior is None and self.k > MANY_LEVELS else None

    @cached_property
    def exact_epsilon(self) -> Fraction:
        return as_epsilon(self.epsilon)

    @property
    def _options(self) -> dict[str, Any]:
        given = dict(self.options or {})
        return given if self.delta is None else {**given, "delta": self.delta}

    def __post_init__(self) -> None:
        if self.relation not in RELATIONS:
            raise InvalidInput(f"relation={self.relation!r} is none of {', '.join(RELATIONS)}")
        _ = self.exact_prior, self.exact_epsilon
        chosen = self._chosen()
        made = check_options(chosen, self._options)
        if self.relation not in made.relations:
            fitting = ", ".join(name for name, one in MECHANISMS.items() if self.relation in one.relations)
            raise InvalidInput(
                f"mechanism={chosen!r} is not for relation={self.relation!r}; these are: {fitting}"
            )
        if self.total_prior is not None and not self.hides_size:
            raise InvalidInput("total_prior= goes with relation='add-remove'; here n is public")
        _ = self.expected_total
        if self.leaves_out and not made.leaves_out:
            fitting = ", ".join(name for name, one in MECHANISMS.items() if one.leaves_out)
            raise InvalidInput(
                f"mechanism={chosen!r} does not go with values that are left out (missing='exclude', or "
                f"strict=False) where n is public; these do: {fitting}"
            )
        if not self.strict:
            self.check_total()

    @property
    def leaves_out(self) -> bool:
        """Whether records without a value are counted, privately, beside the levels: n is that of all."""
        return self.domain.excludes_missing and not self.hides_size

    def domain_of(self, name: str, levels: Any) -> Domain:
        """The domain of a column: levels, a Domain, or a mapping with levels, other and missing."""
        found = domain_of(name, levels)
        missing = getattr(self, "missing", None) if found.missing is None else found.missing
        return replace(found, missing=self.place_of_missing(missing))

    @property
    def hides_size(self) -> bool:
        """Whether the number of records is private."""
        return self.relation == Relation.ADD_REMOVE

    @property
    def expected_total(self) -> LogUniform | None:
        """What is declared about the number of records where that is private."""
        return None if self.total_prior is None else LogUniform.of(self.total_prior, "total_prior")

    def _chosen(self) -> str:
        if self.mechanism != "auto":
            return self.mechanism
        return automatic(relation=as_relation(self.relation), options=self._options)

    @classmethod
    def options_of(cls, given: Mapping[str, Any]) -> set[str]:
        name = given.get("mechanism", "auto")
        classes = [MECHANISMS[one] for one in ([name] if name in MECHANISMS else MECHANISMS)]
        own = {field.name for made in classes for field in fields(made) if field.init}
        return (own | {"calibration"}) - {"prior", "n", "epsilon", "delta"}

    def rehearse(self, n: int, level: float, seed: int, guess: Guess = NO_GUESS) -> Rehearsal:
        """A share of ``typical``, or of a half, with ``left_out`` of the records left out."""
        told, n = guess.told(self.domain.excludes_missing), self._planned_size(n)
        share = as_probability(0.5 if guess.typical is None else guess.typical, "typical", "0.5")
        answered = guess.answered(n, self.domain.excludes_missing)
        name, given = self._parts(n, self.exact_epsilon / (getattr(self, "per_person", None) or 1))
        built = check_options(name, given)(**given)  # without the warnings of one that is to be used
        planned: dict[str, Any] = {"share": share, "level": level}
        found = expected_width(
            built,
            answered,
            n - answered,
            self.leaves_out,
            seed=seed,
            total_prior=self.expected_total,
            **planned,
        )
        if found is None:
            raise TooLargeError(
                f"the noise of {built.name} cannot be accounted for at n={n}; lattice has no such limit"
            )
        noise = max(0.0, 1 - (width_without(self.exact_prior, answered, **planned) / found) ** 2)
        name = f"a share of {100 * share:g} %"
        return Rehearsal((name,), (found / 2,), (noise,), told, unit=POINTS, assumed="made-up counts")

    def expected_width(self, size: Any = None, level: float = 0.95) -> Width:
        """Of a share of a half, for which sampling leaves most open."""
        found = self.rehearse(size, level, seed=0)
        guessed = f" of those with a value, which {100 * LEFT_OUT:g} % of records lack"
        return found.width(0, POINTS, found.names[0] + guessed * self.domain.excludes_missing)

    def _planned_size(self, size: Any) -> int:
        known = size if size is not None else self.declared_size
        if not known or (isinstance(known, tuple) and not any(known)):
            raise InvalidInput(
                "n is missing: a plan needs the number of records, or about how many there are"
            )
        return as_size(known)

    def build(self, n: int, epsilon: Fraction) -> Mechanism:
        """The mechanism for n records; with add-remove for any number of them, and n is not looked at."""
        name, given = self._parts(n, epsilon)
        built = build_mechanism(name, **given)
        built.check_size()
        return built

    def released(
        self,
        built: Mechanism,
        counts: tuple[int, ...],
        guarantee: Guarantee,
        axes: Mapping[str, Sequence[Any]] | None = None,
        column: str | None = None,
    ) -> Release:
        """What the mechanism makes of counts, with everything public that led to it."""
        output = built.run(counts, acknowledge_not_private=getattr(self, "acknowledge_not_private", False))
        return publish(
            built, output, self.domain, guarantee, axes, self.expected_total, column, self.strength
        )

    def _parts(self, n: int, epsilon: Fraction) -> tuple[str, dict[str, Any]]:
        size = {} if self.hides_size else {"n": n}
        prior = (*self.exact_prior, 1.0) if self.leaves_out else self.exact_prior
        return self._chosen(), {"prior": prior, "epsilon": epsilon, **size, **self._options}


@dataclass(frozen=True, kw_only=True)
class WholeCountQuestion(PeopleQuestion, CountQuestion):
    """A question about the counts of all records, of which a person may have several."""

    selection: ClassVar[Bound | None] = None
    """Where only some levels are published: their selection, with its guarantee."""

    @property
    def axes(self) -> Mapping[str, Sequence[Any]] | None:
        """Of a table: the levels of each column."""
        return None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hides_size:
            check_hidden_size(self.n, self.person)
        if self.person is not None or self.per_person is not None:
            Contribution(self.person, self.per_person, self.n)
        _ = self.reading

    @cached_property
    def reading(self) -> dict[str, Any]:
        """How records are bounded while they are counted."""
        bound = {"person": self.person, "per_person": self.per_person, "n": self.declared_size}
        return {**({"private_size": True} if self.hides_size else bound), "strict": self.strict}

    @cached_property
    def declared_size(self) -> int | None:
        """0 where the number of records is private."""
        if self.hides_size:
            return 0
        return None if self.n is None else as_size(self.n)

    def size_of(self, statistic: tuple[int, ...]) -> int:
        return 0 if self.hides_size else sum(statistic)

    @property
    def _records(self) -> int:
        return 1 if self.per_person is None else as_integer(self.per_person, "per_person")

    def bind(self, size: int) -> Bound:
        """One mechanism for all records; several records of a person by group privacy."""
        if self.selection is not None:
            return self.selection
        built = self.build(size, self.exact_epsilon / self._records)
        guarantee = self._guarantee(built)

        column = getattr(self, "column", None)
        return Bound(guarantee, lambda counts: self.released(built, counts, guarantee, self.axes, column))

    def _guarantee(self, built: Mechanism) -> Guarantee:
        if self.person is None:
            return built.guarantee
        note = people_assumption(self._records, self.person)
        return built.guarantee.for_unit(self.person, self._records, note)


def domain_of(name: str, levels: Any) -> Domain:
    """Levels, a Domain, or a mapping with levels, other and missing."""
    if isinstance(levels, Domain):
        return levels
    if not isinstance(levels, Mapping):
        return Domain(levels)
    if "levels" not in levels or not set(levels) <= {"levels", "other", "missing"}:
        raise InvalidInput(f"column {name!r} takes levels, other and missing")
    return Domain(**levels)
