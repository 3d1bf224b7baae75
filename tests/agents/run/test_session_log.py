"""The usage in the lines of a CLI's session file, and the reading of a file that grows."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from otpy_agents.adapters.session_log import UsageReader
from otpy_agents.attempt.events import Spent
from otpy_agents.run import Adapter, AttemptRequest, Usage, find_adapter
from otpy_agents.run.host.session_tail import SessionTail, tail_of

AGENTS = ("claude", "codex", "copilot", "gemini")
AGENT = pytest.mark.parametrize("cli", AGENTS)
SESSION = "01a20547-597a-7f60-b208-da355fcc908c"
ONE = Usage(input=1500, cached=300, output=25)
TWO = ONE + ONE
PLACES = {
    "claude": f".claude/projects/-work/{SESSION}.jsonl",
    "codex": f".codex/sessions/2026/11/22/rollout-2026-11-22T22-01-31-{SESSION}.jsonl",
    "copilot": f".copilot/session-state/{SESSION}/events.jsonl",
    "gemini": f".gemini/tmp/work/chats/session-2026-11-22T22-01-{SESSION[:8]}.jsonl",
}


def answers(cli: str, number: int, second: int = 0) -> list[str]:
    """Return the lines that a CLI writes for its request `number`, as they were seen."""
    at = f"2026-11-22T22:01:{second:02}.000Z"
    return [json.dumps({"timestamp": at, **line}) for line in _answers(cli, number)]


def _answers(cli: str, number: int) -> list[dict[str, Any]]:
    counts: dict[str, int]
    usage: dict[str, Any]
    match cli:
        case "claude":
            usage = {"input_tokens": 1200, "cache_read_input_tokens": 300, "output_tokens": 25}
            message = {"id": f"msg_{number}", "model": "m", "usage": usage}
            part = {"type": "assistant", "message": message}
            begun = {**part, "message": {**message, "usage": {**usage, "output_tokens": 1}}}
            return [{"type": "user", "message": {"content": "usage"}}, begun, part, part]
        case "codex":
            counts = {
                "input_tokens": 1500 * number,
                "cached_input_tokens": 300 * number,
                "output_tokens": 25 * number,
            }
            context = {"type": "turn_context", "payload": {"model": "m"}}
            record = {"type": "token_usage_record", "payload": {"thread_token_usage": counts}}
            info = {"type": "token_count", "info": {"total_token_usage": counts}}
            limits = {"type": "token_count", "info": None}
            told = [{"type": "event_msg", "payload": one} for one in (info, limits)]
            return [context, record, *told]
        case "gemini":
            counts = {"input": 1500, "output": 20, "cached": 300, "thoughts": 5}
            message = {"id": f"m{number}", "type": "gemini", "tokens": counts, "model": "m"}
            return [{"$set": {"lastUpdated": "tokens"}}, message, {**message, "toolCalls": []}]
        case _:
            usage = {"inputTokens": 1500, "outputTokens": 25, "cacheReadTokens": 300, "model": "m"}
            record = {"type": "session.usage_record", "data": {"usage": usage}, "id": f"e{number}"}
            return [{"type": "user.message", "data": {"content": "usage"}}, record]


def tail(cli: str, home: Path, *, resumed: bool = False, began: float = 0.0) -> SessionTail:
    variables = {"HOME": str(home)}
    found = tail_of(find_adapter(cli), variables, resumed=resumed, began=began)
    assert found is not None
    return found


def write(cli: str, home: Path, *lines: str, end: str = "\n") -> Path:
    path = home / PLACES[cli]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + end)
    return path


def reader(cli: str) -> UsageReader:
    log = find_adapter(cli).session_log
    assert log is not None
    return UsageReader(log)


@AGENT
def test_each_request_counts_once_however_often_the_file_tells_it(cli: str) -> None:
    """Claude writes it for each part, Codex for its limits too, Gemini when its tools end."""
    it = reader(cli)
    for number, total in ((1, ONE), (2, TWO), (2, TWO)):
        for line in answers(cli, number):
            it.feed(line)
        assert it.total == total
    assert it.spent == Spent(TWO, "m")


@AGENT
@pytest.mark.parametrize("line", ["", "{", "null", '"usage"', '{"type":"assistant","message":3}'])
def test_lines_that_are_something_else_count_nothing(cli: str, line: str) -> None:
    """No vendor promises the format: other lines are ignored."""
    it = reader(cli)
    it.feed(line)
    it.feed(f'{{"type": "event_msg", "payload": {{"type": "token_count", "info": [{line!r}]}}}}')
    assert it.total == Usage()


@AGENT
async def test_a_file_is_read_as_it_grows(cli: str, tmp_path: Path) -> None:
    """A look counts the lines that are there; half a line counts only once it is whole."""
    it = tail(cli, tmp_path)
    assert await it.look(SESSION) is None
    write(cli, tmp_path, *answers(cli, 1))
    assert await it.look(SESSION) == Spent(ONE, "m")
    assert await it.look(SESSION) is None
    text = "\n".join(answers(cli, 2))
    write(cli, tmp_path, text[:-20], end="")
    await it.look(SESSION)
    write(cli, tmp_path, text[-20:])
    await it.look(SESSION)
    assert (await tail(cli, tmp_path).look(SESSION)) == Spent(TWO, "m")
    write(cli, tmp_path, *answers(cli, 3))
    assert await it.look(SESSION) == Spent(TWO + ONE, "m")


@AGENT
async def test_what_a_session_held_before_is_none_of_the_attempt(cli: str, tmp_path: Path) -> None:
    """The exception is a CLI that counts by session, as the meter expects (G-07)."""
    began = 1_795_384_890.0  # 22:01:30
    write(cli, tmp_path, *answers(cli, 1, second=29), *answers(cli, 2, second=31))
    it = tail(cli, tmp_path, resumed=True, began=began)
    spent = await it.look(SESSION)
    assert spent is not None
    assert spent.usage == (TWO if find_adapter(cli).cumulative_usage else ONE)
    new = await tail(cli, tmp_path, began=began).look(SESSION)
    assert new == Spent(TWO, "m")


@AGENT
async def test_a_file_that_is_written_afresh_counts_once(cli: str, tmp_path: Path) -> None:
    """Requests are told apart by their ids, and not by their place."""
    path = write(cli, tmp_path, "x" * 5000, *answers(cli, 1))
    it = tail(cli, tmp_path)
    assert await it.look(SESSION) == Spent(ONE, "m")
    path.write_text("\n".join([*answers(cli, 1), *answers(cli, 2), ""]), encoding="utf-8")
    assert await it.look(SESSION) == Spent(TWO, "m")


@AGENT
@pytest.mark.parametrize("session", ["", "../x", "*", "a/b", "[a]", None])
async def test_a_strange_session_leads_to_no_file(
    cli: str, session: str | None, tmp_path: Path
) -> None:
    """The session that an agent names is a name and not a pattern."""
    write(cli, tmp_path, *answers(cli, 1))
    assert await tail(cli, tmp_path).look(session) is None


async def test_a_pipe_in_the_place_of_the_file_holds_nobody_up(tmp_path: Path) -> None:
    """An agent may write in its session folder; opening a pipe there would block the host."""
    path = tmp_path / PLACES["claude"]
    path.parent.mkdir(parents=True)
    os.mkfifo(path)
    assert await tail("claude", tmp_path).look(SESSION) is None


async def test_a_long_file_and_a_long_line_are_read_whole(tmp_path: Path) -> None:
    """It is read in blocks, so that other tasks have their turn, for any length of a line."""
    pad = json.dumps({"type": "user", "text": "x" * 700_000})
    for number in range(1, 4):
        write("claude", tmp_path, pad, *answers("claude", number), pad)
    assert await tail("claude", tmp_path).look(SESSION) == Spent(TWO + ONE, "m")


async def test_helpers_of_claude_are_found_at_the_end_at_the_latest(tmp_path: Path) -> None:
    """Each has a transcript of its own; the search for new ones is made now and then."""
    path = write("claude", tmp_path, *answers("claude", 1))
    it = tail("claude", tmp_path)
    assert await it.look(SESSION) == Spent(ONE, "m")
    helper = path.with_suffix("") / "subagents" / "agent-a5.jsonl"
    helper.parent.mkdir(parents=True)
    helper.write_text("\n".join([*answers("claude", 2), ""]), encoding="utf-8")
    assert await it.look(SESSION) is None
    assert await it.look(SESSION, last=True) == Spent(TWO, "m")


@AGENT
async def test_a_line_of_output_is_followed_by_looks(
    cli: str, tmp_path: Path, mock_clock: object
) -> None:
    """The file may be written a moment after the line; without output nothing is looked at."""
    it, told = tail(cli, tmp_path), list[Spent]()
    following = asyncio.ensure_future(it.follow(lambda: SESSION, told.append))
    write(cli, tmp_path, *answers(cli, 1))
    await asyncio.sleep(60)
    assert told == []
    it.wrote()
    await asyncio.sleep(0.5)
    assert told == [Spent(ONE, "m")]
    write(cli, tmp_path, *answers(cli, 2))
    await asyncio.sleep(0.6)
    assert told == [Spent(ONE, "m"), Spent(TWO, "m")]
    await asyncio.sleep(0.1)
    write(cli, tmp_path, *answers(cli, 3))
    it.wrote()  # a new line does not wait for the last look after the line before
    await asyncio.sleep(0.1)
    assert told[2:] == [Spent(TWO + ONE, "m")]
    following.cancel()


@pytest.mark.parametrize(
    ("cli", "variable", "place"),
    [
        ("claude", "CLAUDE_CONFIG_DIR", ".claude"),
        ("codex", "CODEX_HOME", ".codex"),
        ("copilot", "COPILOT_HOME", ".copilot"),
        ("gemini", "GEMINI_CLI_HOME", ""),
    ],
)
def test_the_configuration_folder_counts_before_the_home(
    cli: str, variable: str, place: str, tmp_path: Path
) -> None:
    """Two accounts of one CLI keep their sessions apart."""
    path = write(cli, tmp_path, *answers(cli, 1))
    log = find_adapter(cli).session_log
    assert log is not None
    variables = {variable: str(tmp_path / place), "HOME": "/nowhere"}
    assert log.files(SESSION, variables) == [path]
    assert log.files(SESSION, {variable: "/nowhere", "HOME": str(tmp_path)}) == []
    assert log.files(SESSION, {}) == ()


@pytest.mark.parametrize("cli", ["claude", "copilot", "gemini"])
def test_a_new_session_is_known_from_its_start(cli: str, tmp_path: Path) -> None:
    """It has an id that no other attempt has; a session that is chosen already stays."""
    adapter: Adapter = find_adapter(cli)
    request = AttemptRequest(prompt="x", folder=tmp_path)
    launch = adapter.launch(request)
    assert launch.session is not None
    assert f"--session-id {launch.session}" in " ".join(launch.argv).replace("=", " ")
    assert adapter.launch(request).session == launch.session
    assert adapter.launch(evolve(request, folder=tmp_path / "2")).session != launch.session
    assert adapter.launch(evolve(request, session="s")).session is None
    assert adapter.launch(evolve(request, flags=("--resume=s",))).session is None
