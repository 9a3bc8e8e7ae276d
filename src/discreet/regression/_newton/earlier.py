"""Regressions released by discreet 0.2: they are read and shown, but their estimates are not recomputed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from discreet._documents.answer import Answer
from discreet._documents.parts import Row, Words
from discreet._typing import FloatArray
from discreet.errors import InvalidInputError
from discreet.privacy.guarantee import Guarantee

_NO_ESTIMATES = (
    "Only discreet 0.2, which wrote this regression, can compute its coefficients, because its columns were "
    "scaled differently. Its guarantee is shown as stated, not checked."
)
COLUMNS_OF_0_2 = "bounded"
"""The name of the column scaling of such documents, written when one is saved again."""
_PARTS = ("question", "guarantee", "n", "reached", "rounds", "private", "versions")


@dataclass(frozen=True, repr=False)
class EarlierFit(Answer):
    """The question, guarantee and released sums of a regression of version 0.2."""

    format: ClassVar[str] = "discreet/regression"
    label: ClassVar[str] = "coefficient"

    guarantee: Guarantee
    released: Mapping[str, Any]
    """The document as it was written."""

    def content(self) -> dict[str, Any]:
        return {"columns": COLUMNS_OF_0_2, **{name: self.released[name] for name in _PARTS}}

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> Self:
        """Read a document of version 0.2: a question, a guarantee and rounds of sums."""
        asked = content["question"]
        if not all(isinstance(asked[name], str) for name in ("formula", "family")):
            raise ValueError("its question has no formula or no family")
        if not isinstance(content["rounds"], list) or not isinstance(content["versions"], Mapping):
            raise ValueError("its rounds or versions are malformed")
        stated = Guarantee.from_dict(content["guarantee"])
        private = content["private"] is True
        return cls(stated if private else Guarantee(None, basis="a simulation: not private"), dict(content))

    def cost(self) -> Guarantee:
        """Return the stated guarantee, because the cost of these sums can no longer be recomputed."""
        return self.guarantee

    def _rows(self, level: float) -> list[Row]:
        """Return no rows, because no estimate is computed."""
        return []

    def draws(self, size: int = 4000, seed: int | None = None) -> FloatArray:
        """Raise an error, because no estimate is computed."""
        raise InvalidInputError("only discreet 0.2 can draw from a regression that it saved")

    @property
    def warnings(self) -> tuple[str, ...]:
        return (_NO_ESTIMATES,)

    def words(self) -> Words:
        """Describe the question."""
        asked = self.released["question"]
        stamp = "Private" if self.is_private else "NOT PRIVATE (from a seed):"
        return Words(
            headline=f"{stamp} {asked['family']} regression of an earlier version: {asked['formula']}",
            name=f"Regression {asked['formula']} ({asked['family']})",
            facts=(("Formula", asked["formula"]), ("Family", asked["family"])),
        )
