"""The meaning of each agent CLI's events."""

from __future__ import annotations

import pytest

from otpy_agents.run import (
    CliFault,
    Event,
    Final,
    LineSplitter,
    Problem,
    Retrying,
    SessionSeen,
    Spent,
    Text,
    ToolEnded,
    ToolStarted,
    Transcript,
    Usage,
    classify,
    find_adapter,
)
from tests.agents import cli_worlds as world
from tests.agents.samples import FOLDER, Sample, real, sample


def events(cli: str, text: str) -> list[Event]:
    """Return the events that the adapter of `cli` reads in `text`."""
    parser = find_adapter(cli).parser()
    return [event for line in text.split("\n") for event in parser.feed(line)]


class TestEvents:
    def test_claude(self) -> None:
        """Session, text, tools, money and the answer of Claude Code."""
        assert events("claude", sample("claude", "toolcall").stdout) == [
            SessionSeen("08d39844-4ac5-43ce-91e2-b64c0932e8b7", "claude-opus-4-8[1m]"),
            ToolStarted(
                "toolu_mock1",
                "Bash",
                {"command": "echo hi > made.txt", "description": "make file"},
            ),
            ToolEnded("toolu_mock1", ok=False),
            Text("hello from mock"),
            SessionSeen("08d39844-4ac5-43ce-91e2-b64c0932e8b7"),
            Spent(Usage(input=3000, cached=600, output=65, cost_usd=0.013924999999999998)),
            Final("hello from mock", None, ("Bash",)),
        ]

    def test_claude_tells_of_its_own_attempts(self) -> None:
        """Claude Code's own retries are seen, with their status."""
        seen = events("claude", sample("claude", "err500").stdout)
        again = [event for event in seen if isinstance(event, Retrying)]
        assert again == [Retrying(CliFault("server_error", 500, ("server_error",)))] * 10

    def test_claude_does_not_take_a_helpers_words_for_its_own(self) -> None:
        """Text of a sub-agent is not part of the answer, and an empty result keeps the text."""
        inner = {"model": "m", "content": [{"type": "text", "text": "inner"}]}
        helper = {"type": "assistant", "parent_tool_use_id": "t", "message": inner}
        own = {"type": "assistant", "message": {"content": [{"type": "text", "text": "outer"}]}}
        end = {"type": "result", "subtype": "success", "is_error": False, "result": ""}
        transcript = Transcript(events("claude", world.lines(helper, own, end)))
        assert transcript.answer == "outer"

    def test_codex(self) -> None:
        """Session, text, tools, tokens and the answer of Codex; its warnings are no errors."""
        item = {"id": "1", "type": "command_execution", "status": "in_progress"}
        done = {"type": "item.completed", "item": item | {"status": "declined"}}
        text = sample("codex", "ok").stdout
        text = text.replace(
            '{"type":"turn.started"}',
            world.lines({"type": "item.started", "item": item}, done).strip(),
        )
        session, *rest = events("codex", text)
        assert isinstance(session, SessionSeen)
        assert rest == [
            ToolStarted("1", "command_execution"),
            ToolEnded("1", ok=False, denied=True),
            Text("hello from mock"),
            Spent(Usage(input=1500, cached=300, output=25)),
            Final("hello from mock"),
        ]
        assert classify("codex", exit_code=0, stdout=text, stderr="").detail == "tools_denied"

    def test_codex_answers_with_its_last_message(self) -> None:
        """Its earlier messages are not part of the answer."""
        first, last = world.codex_answer("on the way"), world.codex_answer("the answer")
        text = first.splitlines()[1] + "\n" + last
        assert Transcript(events("codex", text)).answer == "the answer"

    def test_codex_tells_of_its_own_attempts(self) -> None:
        """Each reconnection is seen with its reason, and does not count as the outcome."""
        seen = events("codex", sample("codex", "rate429_once").stdout)
        assert (
            Retrying(CliFault("exceeded retry limit, last status: 429 Too Many Requests")) in seen
        )
        assert Transcript(seen).fault is None

    def test_gemini(self) -> None:
        """Session, text, tools, tokens and the answer of Gemini CLI, as stream and as document."""
        stream = sample("gemini", "stream").stdout.splitlines()
        tools = world.lines(
            {"type": "tool_use", "tool_name": "run_shell_command", "tool_id": "t1"},
            {
                "type": "tool_result",
                "tool_id": "t1",
                "status": "error",
                "error": {"type": "policy_violation", "message": "denied by policy"},
            },
        )
        session = "1987095c-9bf2-46b9-9f36-897b6d1f4c2b"
        text = "\n".join([*stream[:3], tools, *stream[3:]])
        assert events("gemini", text) == [
            SessionSeen(session, "gemini-2.5-flash"),
            Text("hello from mock"),
            ToolStarted("t1", "run_shell_command"),
            ToolEnded("t1", ok=False, denied=True),
            Spent(Usage(input=1500, cached=300, output=25)),
            Final(),
        ]
        document = Transcript(events("gemini", sample("gemini", "ok").stdout))
        assert (document.answer, document.finished) == ("hello from mock", True)
        assert document.usage == Usage(input=1500, cached=300, output=25)
        assert classify("gemini", exit_code=0, stdout=text, stderr="").detail == "tools_denied"

    def test_copilot(self) -> None:
        """Session, text, tools, tokens and the answer of Copilot CLI."""
        text = world.lines(
            {
                "type": "tool.execution_start",
                "data": {"toolCallId": "t", "toolName": "bash", "arguments": {"command": "ls"}},
            },
            {
                "type": "tool.execution_complete",
                "data": {"toolCallId": "t", "success": False, "error": {"code": "denied"}},
            },
        )
        report = (FOLDER / "copilot" / "resume1.report").read_text(encoding="utf-8")
        seen = events("copilot", text + sample("copilot", "ok").stdout + report)
        assert seen == [
            ToolStarted("t", "bash", {"command": "ls"}),
            ToolEnded("t", ok=False, denied=True),
            Text("hello from mock"),
            SessionSeen("ad6f1e8b-16f8-46f4-bd4b-ecd9a01b8068"),
            Final("hello from mock"),
            Spent(Usage(input=1500, cached=300, output=25)),
        ]

    @pytest.mark.parametrize(
        ("cli", "name"), [("claude", "cut_once_fast"), ("gemini", "thoughts_fast")]
    )
    def test_no_token_is_forgotten(self, cli: str, name: str) -> None:
        """Requests that Claude repeated after a cut stream count, and thoughts of Gemini."""
        usage = Transcript(events(cli, sample(cli, name).stdout)).usage
        assert usage is not None
        assert (usage.input, usage.cached, usage.output) == (1500, 300, 25)

    def test_copilot_names_the_vendors_error_beside_its_own(self) -> None:
        """The finer name, that of the error in the failed request, comes first."""
        seen = events("copilot", sample("copilot", "quota429").stdout)
        (problem,) = (event for event in seen if isinstance(event, Problem))
        assert problem.fault.codes[0] == "insufficient_quota"
        assert problem.fault.status == 429

    def test_a_command_may_speak_json_lines(self) -> None:
        """Any program can report as an agent does."""
        text = world.lines(
            {"type": "session", "id": "s"},
            {"type": "text", "text": "a"},
            {"type": "tool", "id": "t", "name": "grep", "input": {"for": "x"}},
            {"type": "tool_end", "id": "t"},
            {"type": "usage", "input": 3, "output": 1, "cost_usd": 0.5},
            {"type": "error", "message": "slow", "status": 429, "code": "rate_limited"},
            {"type": "result", "text": "b"},
        )
        assert events("command", text) == [
            SessionSeen("s"),
            Text("a"),
            ToolStarted("t", "grep", {"for": "x"}),
            ToolEnded("t"),
            Spent(Usage(input=3, output=1, cost_usd=0.5)),
            Problem(CliFault("slow", 429, ("rate_limited",))),
            Final("b"),
        ]

    @pytest.mark.parametrize("item", real(), ids=str)
    def test_bytes_may_come_in_any_portions(self, item: Sample) -> None:
        """However the stream is cut into chunks, the events are the same."""
        whole, data = events(item.cli, item.stdout), item.stdout.encode()
        for size in (7, 4096):
            splitter, parser = LineSplitter(), find_adapter(item.cli).parser()
            chunks = [data[at : at + size] for at in range(0, len(data), size)]
            lines = [line for chunk in chunks for line in splitter.feed(chunk)] + splitter.end()
            assert [event for line in lines for event in parser.feed(line)] == whole


class TestLineSplitter:
    def test_a_line_without_end_is_cut(self) -> None:
        """The rest beyond the limit is dropped, and the next line is whole."""
        splitter = LineSplitter(limit=4)
        assert splitter.feed(b"abc") == []
        assert splitter.feed(b"defgh\nxy\nlonger\n") == ["abcd", "xy", "long"]
        assert splitter.end() == []

    def test_a_last_line_needs_no_line_feed(self) -> None:
        """Text left at the end is a line; bytes that are not UTF-8 do no harm."""
        splitter = LineSplitter()
        assert splitter.feed(b"a\n\xff\xfeb") == ["a"]
        assert splitter.end() == ["\ufffd\ufffdb"]
        assert splitter.end() == []
