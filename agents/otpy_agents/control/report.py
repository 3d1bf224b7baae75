"""What the validation of a task found: one verdict for each criterion, and what follows of them.

A report is stored and audited, so it is data through and through. `valid`, `confidence` and the two
lists of names follow from the criteria and are never set beside them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, TypeVar, cast

from attrs import field, frozen

from otpy_agents.errors import InvalidReport

__all__ = [
    "Confidence",
    "CriterionReport",
    "CriterionVerdict",
    "MatchQuality",
    "ValidationReport",
]

# Of what was seen, as much as a prompt, a state and a person can do with.
_SEEN_LIMIT: Final = 600


class MatchQuality(StrEnum):
    """How surely a rule's check matches the meaning of the criterion (CTL-37)."""

    EXACT = "EXACT"
    """The check is the criterion: a table, or a sentence that says no more than it."""
    HIGH = "HIGH"
    """The check is what the sentence means, but for details of wording."""
    MEDIUM = "MEDIUM"
    """The check sees most of what the sentence says, or an agent's word settled it."""
    LOW = "LOW"
    """The check sees at most a sign of it, and decides nothing."""


class CriterionVerdict(StrEnum):
    """What a check says about a criterion."""

    PASSED = "passed"
    """It holds."""
    FAILED = "failed"
    """It does not hold."""
    UNCERTAIN = "uncertain"
    """No rule can tell."""


class Confidence(StrEnum):
    """How far a report can be trusted; `LOW` and `UNCERTAIN` ask for interrogation (CTL-37)."""

    HIGH = "HIGH"
    """Every check is exact, or nearly so."""
    MEDIUM = "MEDIUM"
    """A check saw only most of its criterion."""
    LOW = "LOW"
    """A criterion passed by a sign of it only."""
    UNCERTAIN = "UNCERTAIN"
    """No rule can tell about a criterion."""


_CONFIDENCE_OF: Final = {
    MatchQuality.EXACT: Confidence.HIGH,
    MatchQuality.HIGH: Confidence.HIGH,
    MatchQuality.MEDIUM: Confidence.MEDIUM,
    MatchQuality.LOW: Confidence.LOW,
}
_BEST_FIRST: Final = tuple(MatchQuality)


def _shortened(text: str) -> str:
    if len(text) <= _SEEN_LIMIT:
        return text
    end = f" … ({len(text):,} characters)"
    return f"{text[: _SEEN_LIMIT - len(end)]}{end}"


@frozen
class CriterionReport:
    """One criterion, the check that was made of it, and what that saw.

    Attributes:
        criterion: As the task has it; of a table, its JSON.
        verdict: Whether it holds.
        quality: How sure the rule is that `check` is what the criterion means.
        check: What was checked, in words.
        saw: What was found, in words and cut to what a prompt can hold.
        where: Path inside the project, and line if there is one: `src/a.py:3`.
    """

    criterion: str
    verdict: CriterionVerdict
    quality: MatchQuality
    check: str
    saw: str = field(converter=_shortened)
    where: str | None = None

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        return f"{self.criterion}: checked that {self.check}; saw: {self.saw}{place}"

    def to_json(self) -> dict[str, Any]:
        """Return it as plain data that `of_json` reads."""
        return {
            "criterion": self.criterion,
            "verdict": self.verdict.value,
            "quality": self.quality.value,
            "check": self.check,
            "saw": self.saw,
            "where": self.where,
        }

    @classmethod
    def of_json(cls, value: object) -> CriterionReport:
        """Return the report that `to_json` made into `value`.

        Raises:
            InvalidReport: It is none.
        """
        plain = _object(value, "criteria")
        where = plain.get("where")
        return cls(
            _text(plain, "criterion"),
            _one_of(CriterionVerdict, plain, "verdict"),
            _one_of(MatchQuality, plain, "quality"),
            _text(plain, "check"),
            _text(plain, "saw"),
            None if where is None else _text(plain, "where"),
        )


@frozen
class ValidationReport:
    """What the validation of one dispatch found (CTL-36).

    `of` makes one of its criteria; a report that another program wrote may have the seed's four
    fields and no criteria.

    Attributes:
        valid: Whether all criteria hold. One that no rule can tell about does not.
        confidence: How far that can be trusted.
        failed_criteria: Those that do not hold.
        uncertain_criteria: Those that no rule can tell about.
        criteria: Every one, in the task's order.
    """

    valid: bool
    confidence: Confidence
    failed_criteria: tuple[str, ...] = ()
    uncertain_criteria: tuple[str, ...] = ()
    criteria: tuple[CriterionReport, ...] = ()

    @classmethod
    def of(cls, criteria: Iterable[CriterionReport]) -> ValidationReport:
        """Return the report that these criteria make; the least sure one gives the confidence."""
        found = tuple(criteria)
        failed = _criteria_with(CriterionVerdict.FAILED, found)
        uncertain = _criteria_with(CriterionVerdict.UNCERTAIN, found)
        return cls(
            valid=bool(found) and not failed and not uncertain,
            confidence=_confidence(found),
            failed_criteria=failed,
            uncertain_criteria=uncertain,
            criteria=found,
        )

    def to_json(self) -> dict[str, Any]:
        """Return it in the seed's shape, with `criteria` beside the seed's fields."""
        return {
            "valid": self.valid,
            "confidence": self.confidence.value,
            "failed_criteria": list(self.failed_criteria),
            "uncertain_criteria": list(self.uncertain_criteria),
            "criteria": [criterion.to_json() for criterion in self.criteria],
        }

    @classmethod
    def of_json(cls, plain: object) -> ValidationReport:
        """Return the report in `plain`, which may lack `criteria`; unknown fields are left out.

        Raises:
            InvalidReport: It is none.
        """
        report = _object(plain, "report")
        if not isinstance(report.get("valid"), bool):
            raise InvalidReport("valid", report.get("valid"), "true or false")
        return cls(
            valid=report["valid"],
            confidence=_one_of(Confidence, report, "confidence"),
            failed_criteria=_texts(report, "failed_criteria"),
            uncertain_criteria=_texts(report, "uncertain_criteria"),
            criteria=tuple(
                CriterionReport.of_json(criterion)
                for criterion in _items(report.get("criteria", []), "criteria")
            ),
        )


def _criteria_with(
    verdict: CriterionVerdict, criteria: Iterable[CriterionReport]
) -> tuple[str, ...]:
    return tuple(found.criterion for found in criteria if found.verdict is verdict)


def _confidence(criteria: tuple[CriterionReport, ...]) -> Confidence:
    # Nothing checked is nothing known.
    if not criteria or _criteria_with(CriterionVerdict.UNCERTAIN, criteria):
        return Confidence.UNCERTAIN
    worst = max((found.quality for found in criteria), key=_BEST_FIRST.index)
    return _CONFIDENCE_OF[worst]


_E = TypeVar("_E", bound=StrEnum)


def _one_of(kind: type[_E], plain: Mapping[str, Any], name: str) -> _E:
    try:
        return kind(cast("str", plain.get(name)))
    except ValueError:
        raise InvalidReport(name, plain.get(name), " or ".join(kind)) from None


def _text(plain: Mapping[str, Any], name: str) -> str:
    value = plain.get(name)
    if not isinstance(value, str):
        raise InvalidReport(name, value, "text")
    return value


def _items(value: object, name: str) -> tuple[object, ...]:
    if not isinstance(value, list):
        raise InvalidReport(name, value, "a list")
    return tuple(cast("list[object]", value))


def _texts(plain: Mapping[str, Any], name: str) -> tuple[str, ...]:
    items = _items(plain.get(name), name)
    if not all(isinstance(item, str) for item in items):
        raise InvalidReport(name, plain.get(name), "a list of text")
    return cast("tuple[str, ...]", items)


def _object(value: object, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidReport(name, value, "an object")
    return cast("Mapping[str, Any]", value)
