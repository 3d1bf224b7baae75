"""Says why an attempt ended, from nothing but its exit code, its output and its container's state.

In this order (RUN-39, C-08): a crash; then what the CLI's last event says in fields of its own;
then the words of the final error message; then the exit code by that CLI's own table. Nothing else
is read for errors: not the model's text, not a tool's output, not an identifier.
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from attrs import evolve

from otpy_agents.adapters.adapter import Adapter
from otpy_agents.adapters.registry import find_adapter
from otpy_agents.adapters.stream import plain
from otpy_agents.attempt.events import CliFault
from otpy_agents.attempt.failures import Classification, Detail
from otpy_agents.attempt.transcript import Transcript
from otpy_agents.classify.judgement import judge
from otpy_agents.classify.last_words import error_in, is_json, notice_in, opening_in

__all__ = ["classify"]

# Signals by which the system or the program itself ends what went wrong. Any other was sent by
# somebody, which says nothing about the run (RUN-40 and RUN-44).
_CRASHES: Final = frozenset(
    {
        *(signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS),
        *(signal.SIGILL, signal.SIGFPE, signal.SIGTRAP, signal.SIGSYS),
    }
)
_SIGNAL_BASE: Final = 128
_NOT_STARTED: Final = (126, 127)
# What `timeout(1)` and all who copy it exit with after they ended a command.
_TIME_LIMIT: Final = 124
_CUT: Final = frozenset({_TIME_LIMIT, None})
_MESSAGE_LIMIT: Final = 2000
# An attempt whose answer did not come, for reasons that say nothing more than that.
_NO_ANSWER: Final = frozenset({Detail.PROTOCOL, Detail.NETWORK, Detail.UNKNOWN})


def classify(
    cli: str,
    *,
    exit_code: int | None,
    stdout: str,
    stderr: str,
    container_state: Mapping[str, object] | None = None,
    now: datetime | None = None,
) -> Classification:
    """Say whether an attempt succeeded, and if not, why.

    Pure: the same arguments give the same verdict. A run that we ended ourselves is not to be asked
    about: its exit code means nothing then.

    Args:
        cli: Name of the adapter.
        exit_code: As the standard library gives it (negative for a signal) or as a shell does
            (128 and the signal); None if it is unknown: then that of `container_state` counts.
        stdout: Standard output exactly as the CLI wrote it, in any of its output formats.
        stderr: The error stream exactly as the CLI wrote it.
        container_state: `State` of the container as the Docker Engine API shows it; None if it ran
            in none.
        now: When it ended, with the local time zone. Only with it does a message that names a point
            in time, as "resets 3am", give a `retry_after`.

    Raises:
        UnknownAdapter: No adapter is called `cli`.
    """
    adapter = find_adapter(cli)
    state = container_state or {}
    code = exit_code if exit_code is not None else _exit_code(state)
    stdout, stderr = stdout.removeprefix("\ufeff"), stderr.removeprefix("\ufeff")
    transcript = _read(adapter, stdout, stderr)
    if code == 0:
        verdict = _claimed(adapter, transcript, stdout, now)
        lost = verdict.detail is Detail.NO_RESULT and state.get("OOMKilled") is True
        return _out_of_memory() if lost else verdict
    crash = _crash(adapter, code, state, stderr)
    if crash is not None:
        return crash
    return _failed(adapter, code, transcript, stdout, stderr, now)


def _exit_code(state: Mapping[str, object]) -> int | None:
    code = state.get("ExitCode")
    # A container that is created or runs shows 0 too.
    ended = state.get("Status", "exited") in {"exited", "dead"}
    return code if ended and isinstance(code, int) and not isinstance(code, bool) else None


def _read(adapter: Adapter, stdout: str, stderr: str) -> Transcript:
    transcript = Transcript()
    for text in (stdout, stderr) if adapter.errors_on_stderr else (stdout,):
        parser = adapter.parser()
        for line in text.split("\n"):
            transcript.add(parser.feed(line))
    return transcript


def _signal(adapter: Adapter, code: int | None) -> signal.Signals | None:
    if code is None or code in adapter.exit_codes:
        return None
    try:
        return signal.Signals(-code if code < 0 else code - _SIGNAL_BASE)
    except ValueError:
        return None


def _out_of_memory() -> Classification:
    return Classification(detail=Detail.CRASH, message="killed: the container is out of memory")


def _crash(
    adapter: Adapter, code: int | None, state: Mapping[str, object], stderr: str
) -> Classification | None:
    if state.get("OOMKilled") is True:
        return _out_of_memory()
    ended_by = _signal(adapter, code)
    if ended_by is not None and ended_by in _CRASHES:
        return Classification(detail=Detail.CRASH, message=f"ended by {ended_by.name}")
    if code is not None and adapter.exit_codes.get(code) is Detail.CRASH:
        words = error_in(stderr, adapter.plain_text) or f"exit code {code}"
        return _short(Classification(detail=Detail.CRASH, message=words))
    return None


def _claimed(
    adapter: Adapter,
    transcript: Transcript,
    stdout: str,
    now: datetime | None,
) -> Classification:
    """Judge an attempt that ended with exit code 0 (C-25)."""
    structured = transcript.seen or is_json(stdout, adapter.plain_text)
    answer = transcript.answer if structured else plain(stdout)
    fault = transcript.fault
    # The model's own words are not a notice of the CLI, even if the text is the same.
    if fault is None and not transcript.spoken:
        notice = notice_in(answer, adapter.plain_text)
        fault = CliFault(notice) if notice else None
    if fault is not None:
        verdict = judge(adapter, fault, now) or _unknown(fault.message)
        if verdict.detail in _NO_ANSWER and not answer.strip():
            return evolve(verdict, detail=Detail.NO_RESULT, retry_after=None)
        return _short(verdict)
    if structured and not transcript.finished:
        return _no_result("it never said that it was done")
    if not answer.strip():
        return _no_result("it ended without an answer" if stdout.strip() else "it wrote nothing")
    if transcript.denied:
        names = ", ".join(dict.fromkeys(transcript.denied))
        return Classification(detail=Detail.TOOLS_DENIED, message=f"refused: {names}")
    return Classification()


def _no_result(message: str) -> Classification:
    return Classification(detail=Detail.NO_RESULT, message=message)


def _unknown(message: str) -> Classification:
    return Classification(detail=Detail.UNKNOWN, message=message)


def _short(verdict: Classification) -> Classification:
    return evolve(verdict, message=verdict.message.strip()[:_MESSAGE_LIMIT])


def _failed(
    adapter: Adapter,
    code: int | None,
    transcript: Transcript,
    stdout: str,
    stderr: str,
    now: datetime | None,
) -> Classification:
    if code in _NOT_STARTED and not transcript.seen:
        words = error_in(stderr, adapter.plain_text) or f"exit code {code}: it could not be started"
        return _short(Classification(detail=Detail.USAGE, message=words))
    opening = "" if transcript.seen else opening_in(stdout, adapter.plain_text)
    said = [
        transcript.fault,
        CliFault(opening) if opening else None,
        CliFault(error_in(stderr, adapter.plain_text)),
        # It did not live to say more than why it tried again.
        None if transcript.finished else transcript.retry,
    ]
    faults = [fault for fault in said if fault is not None]
    for fault in faults:
        verdict = judge(adapter, fault, now, cut=code in _CUT)
        if verdict is not None:
            return _short(verdict)
    message = next((fault.message for fault in faults if fault.message.strip()), "")
    return _short(_by_exit_code(adapter, code, message))


def _by_exit_code(adapter: Adapter, code: int | None, message: str) -> Classification:
    if code is None:
        return _unknown(message or "its exit code is unknown")
    if code in adapter.exit_codes:
        detail = adapter.exit_codes[code]
        return Classification(detail=detail, message=message or f"exit code {code}")
    if code == _TIME_LIMIT:
        return Classification(
            detail=Detail.NETWORK if adapter.executable else Detail.UNKNOWN,
            message=message or f"exit code {code}: it was ended after a time limit",
        )
    ended_by = _signal(adapter, code)
    if ended_by is not None:
        return _unknown(": ".join(filter(None, (f"ended by {ended_by.name}", message))))
    return _unknown(message or f"exit code {code}")
