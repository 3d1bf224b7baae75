"""The fake vendor itself: what it sends, in which order, and what it remembers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Final, TypeAlias, cast

import aiohttp
import pytest

from tests.agents.fake_api import Answer, Cut, Error, FakeApi, Garbage, Hang, Refuse, UseTool

pytestmark = pytest.mark.real_time

Question: TypeAlias = tuple[str, dict[str, object]]

# Path and body of a request for a stream, and of one for a document, by API.
STREAMED: Final[Mapping[str, Question]] = {
    "Anthropic Messages": ("/v1/messages", {"model": "m", "stream": True}),
    "OpenAI Responses": ("/v1/responses", {"model": "m", "stream": True}),
    "OpenAI chat completions": ("/v1/chat/completions", {"model": "m", "stream": True}),
    "Gemini": ("/v1beta/models/m:streamGenerateContent?alt=sse", {}),
}
WHOLE: Final[Mapping[str, Question]] = {
    "Anthropic Messages": ("/v1/messages", {"model": "m"}),
    "OpenAI Responses": ("/v1/responses", {"model": "m"}),
    "OpenAI chat completions": ("/v1/chat/completions", {"model": "m"}),
    "Gemini": ("/v1beta/models/m:generateContent", {}),
}
DIALECTS: Final = tuple(STREAMED)


async def ask(api: FakeApi, path: str, body: object) -> tuple[int, str, dict[str, str]]:
    """Return status, text and headers of the answer to one request."""
    async with aiohttp.ClientSession() as session, session.post(api.url + path, json=body) as got:
        headers = {name.lower(): value for name, value in got.headers.items()}
        return got.status, await got.text(), headers


def events(text: str) -> list[dict[str, object]]:
    """Return the data of server-sent events."""
    data = [line.removeprefix("data: ") for line in text.split("\n") if line.startswith("data: ")]
    return [cast("dict[str, object]", json.loads(item)) for item in data if item != "[DONE]"]


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_an_answer_comes_as_stream_or_whole(dialect: str) -> None:
    """Each API gives the text and the tokens in both of its forms, and says which it was."""
    async with FakeApi(Answer("so be it")) as api:
        status, text, headers = await ask(api, *STREAMED[dialect])
        assert status == 200
        assert headers["content-type"] == "text/event-stream"
        assert len(events(text)) >= 2
        whole = await ask(api, *WHOLE[dialect])
    document = json.loads(whole[1])
    for form in (text, json.dumps(document)):
        assert "so be it" in form
        assert "300" in form
    assert [exchange.dialect for exchange in api.exchanges] == [dialect, dialect]
    assert api.strays == []


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_tool_is_called_with_its_arguments(dialect: str) -> None:
    """The name of the tool and its arguments stand in both forms."""
    async with FakeApi(UseTool("Bash", {"command": "true"})) as api:
        for path, body in (STREAMED[dialect], WHOLE[dialect]):
            _, text, _ = await ask(api, path, body)
            assert "Bash" in text
            assert "command" in text


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("error", Error)
async def test_a_vendor_refuses_in_its_own_words(dialect: str, error: Error) -> None:
    """Each error is an HTTP status of that kind and a document with a message."""
    async with FakeApi(Refuse(error)) as api:
        status, text, headers = await ask(api, *STREAMED[dialect])
    assert json.loads(text)["error"]["message"]
    wanted = {Error.UNAUTHORIZED: 401, Error.FORBIDDEN: 403, Error.MODEL: 404}
    wanted |= {Error.RATE_LIMIT: 429, Error.RATE_LIMIT_LONG: 429, Error.OVERLOADED: 529}
    wanted |= {Error.SERVER_ERROR: 500, Error.UNAVAILABLE: 503}
    assert status == wanted.get(error, status)
    assert 400 <= status <= 599
    if error is Error.RATE_LIMIT:
        assert "retry-after" in headers or "retryDelay" in text


async def test_the_script_is_followed_and_its_last_line_repeated() -> None:
    """One reply for each request, and then the last one for ever; other requests do not count."""
    async with FakeApi(Refuse(Error.SERVER_ERROR), Answer()) as api:
        await ask(api, "/v1/messages/count_tokens", {})
        asked = [await ask(api, *WHOLE["OpenAI Responses"]) for _ in range(3)]
    assert [status for status, _, _ in asked] == [500, 200, 200]
    assert api.strays == ["POST /v1/messages/count_tokens"]


async def test_requests_are_remembered_as_they_came() -> None:
    """Path, body and headers can be looked at afterwards."""
    async with FakeApi() as api:
        await ask(api, "/v1/responses", {"model": "m", "input": "hi"})
    (exchange,) = api.exchanges
    assert exchange.path == "/v1/responses"
    assert exchange.body["input"] == "hi"
    assert exchange.headers["content-type"] == "application/json"
    assert exchange.reply == Answer()


@pytest.mark.parametrize("form", [STREAMED, WHOLE], ids=["streamed", "whole"])
async def test_a_connection_is_cut_in_the_middle(
    form: Mapping[str, Question],
) -> None:
    """The client sees the beginning of a good answer and then the end of the connection."""
    async with FakeApi(Cut()) as api, aiohttp.ClientSession() as session:
        path, body = form["Anthropic Messages"]
        async with session.post(api.url + path, json=body) as got:
            assert got.status == 200
            with pytest.raises(aiohttp.ClientError):
                await got.read()


async def test_garbage_is_announced_as_json() -> None:
    """A page for people comes with status 200 in place of an answer."""
    async with FakeApi(Garbage()) as api:
        status, text, headers = await ask(api, *STREAMED["Gemini"])
    assert (status, text[:6]) == (200, "<html>")
    assert headers["content-type"].startswith("application/json")


async def test_a_hanging_vendor_can_be_left_and_closed() -> None:
    """The request is seen; neither side has to wait for the answer that never comes."""
    async with FakeApi(Hang()) as api:
        waiting = asyncio.ensure_future(ask(api, *STREAMED["OpenAI Responses"]))
        await api.asked()
        assert not waiting.done()
        leaving = asyncio.ensure_future(ask(api, *STREAMED["OpenAI Responses"]))
        await api.asked(2)
        leaving.cancel()
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await waiting
