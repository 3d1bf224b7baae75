"""Judges one error message and the fields that came with it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Final, cast, final

from otpy_agents.adapters.adapter import Adapter
from otpy_agents.adapters.fields import JsonObject, integer, obj, objects, text
from otpy_agents.adapters.vendor_codes import (
    by_code,
    by_status,
    by_vague_code,
    codes_in,
    fields_in,
    status_in,
)
from otpy_agents.attempt.events import CliFault
from otpy_agents.attempt.failures import Classification, Detail
from otpy_agents.classify.phrases import by_words, is_long_limit, is_short_limit, is_unpaid
from otpy_agents.classify.prose import prose, without_denials
from otpy_agents.classify.retry_after import seconds_to_wait
from otpy_agents.classify.vendor_words import WORDINGS

__all__ = ["LONG_WAIT", "judge"]

LONG_WAIT: Final = 300.0
"""Seconds. Who has to wait longer has used up an allowance; who less was only too fast."""

_DEPTH: Final = 4
_STARTS: Final = 3
# Longer messages are cut: the words that count stand at the beginning.
_LIMIT: Final = 16 * 1024
_decoder: Final = json.JSONDecoder()
_LIMITS: Final = frozenset({Detail.RATE_LIMIT, Detail.QUOTA})
_WAITS: Final = frozenset({Detail.OVERLOADED, Detail.SERVER_ERROR, Detail.NETWORK})


def judge(
    adapter: Adapter, fault: CliFault, now: datetime | None, *, cut: bool = False
) -> Classification | None:
    """Return what `fault` means; None if nothing in it says so.

    Args:
        adapter: Whose error it is.
        fault: The error.
        now: See `classify`.
        cut: Whether a time limit ended the attempt.
    """
    facts = _Facts(fault)
    detail = (
        by_code(facts.codes)
        or by_words(facts.words, adapter.wordings, cut=cut)
        or by_code(facts.names)
        or by_words(facts.words, WORDINGS)
        or by_status(facts.status)
        or by_vague_code((*facts.codes, *facts.names))
    )
    if detail is Detail.MODEL_UNAVAILABLE and not adapter.executable and not facts.speak_of_models:
        # Agents ask for little but their model; what else a command asks for and does not find
        # may be anything.
        return None
    if detail is None:
        return None
    wait = None
    if detail in _LIMITS:
        wait = seconds_to_wait(facts.everything, now)
        detail = _which_limit(detail, facts, wait)
        wait = None if detail is Detail.BILLING else wait
    elif detail in _WAITS:
        wait = seconds_to_wait(facts.everything, now)
    named = wait is not None and seconds_to_wait(facts.everything, None) is None
    return Classification(detail=detail, message=fault.message, retry_after=wait, named=named)


def _which_limit(detail: Detail, facts: _Facts, wait: float | None) -> Detail:
    """Tell an allowance that is used up from requests that came too fast (both are 429)."""
    if is_unpaid(facts.words):
        return Detail.BILLING
    if is_long_limit(facts.everything):
        return Detail.QUOTA
    if is_short_limit(facts.everything):
        return Detail.RATE_LIMIT
    if wait is not None and wait > LONG_WAIT:
        return Detail.QUOTA
    # Google speaks of a quota in both cases, and gives a short delay with the harmless one.
    short = seconds_to_wait(facts.everything, None)
    names_quota = by_code(facts.codes) is Detail.QUOTA
    return Detail.RATE_LIMIT if short is not None and not names_quota else detail


@final
class _Facts:
    """The fields and words of a fault, those of JSON inside its message included.

    Attributes:
        codes: Names in fields of their own, the most specific first.
        names: Names of errors in the words.
        status: HTTP status.
        words: Text in sentences.
        speak_of_models: Whether a model is mentioned.
        everything: All of it, for how long to wait.
    """

    def __init__(self, fault: CliFault) -> None:
        message = fault.message[:_LIMIT]
        codes = list(fault.codes)
        status = fault.status
        words = [message]
        for start, error in _errors_in(message):
            codes.extend(_codes(error))
            status = status or _status(error)
            said = text(error, "message", "Message")
            if said:
                # The JSON itself is not a sentence; the text before it may be one. Its brace
                # stays: a number in front of it is a status.
                words[0] = words[0] if len(words) > 1 else message[: start + 1]
                words.append(said)
        self.words = "\n".join(said for word in words if (said := prose(word)).strip())
        self.codes = (*codes, *fields_in(message))
        self.names = codes_in(self.words)
        self.status = status or status_in(self.words)
        self.speak_of_models = re.search(r"(?i)\bmodel|\bdeployment", message) is not None
        self.everything = without_denials(f"{message}\n{fault.hints[:_LIMIT]}")


def _errors_in(message: str, depth: int = _DEPTH) -> Iterator[tuple[int, JsonObject]]:
    """Yield the error objects that `message` holds as JSON, also as JSON inside of JSON.

    Each comes with where the outermost begins.
    """
    start = -1
    for _ in range(_STARTS):
        start = message.find("{", start + 1)
        if start < 0:
            return
        try:
            value, _end = cast("tuple[object, int]", _decoder.raw_decode(message, start))
        except (ValueError, RecursionError):
            continue
        found = obj(value)
        error = obj(found, "error") or obj(found, "detail") or found
        yield start, error
        if depth:
            # Gateways hand on what their own vendor said.
            for said in (text(error, "message"), text(obj(error, "metadata"), "raw")):
                for _start, inner in _errors_in(said, depth - 1):
                    yield start, inner
        return


def _codes(error: JsonObject) -> list[str]:
    details = (*objects(error, "details"), *objects(error, "errors"), obj(error, "innererror"))
    reasons = [text(detail, "reason", "code") for detail in details]
    own = (text(error, name) for name in ("code", "type", "__type", "status"))
    return [name for name in (*reasons, *own) if name]


def _status(error: JsonObject) -> int | None:
    status = integer(error, "code", "status", "statusCode")
    written = text(error, "code") if text(error, "code").isdigit() else text(error, "status")
    if not status and written.isascii() and written.isdigit():
        # Some gateways write the number as a string.
        status = int(written[:4])
    return status if 400 <= status <= 599 else None  # noqa: PLR2004
