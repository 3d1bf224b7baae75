"""Output as the four CLIs write it, put together by hand around a message."""

from __future__ import annotations

import json


def lines(*events: object) -> str:
    """Return events as JSON lines."""
    return "".join(f"{json.dumps(event, ensure_ascii=False)}\n" for event in events)


def claude(
    message: str,
    *,
    error: str = "unknown",
    status: int | None = None,
    said: str = "",
    is_error: bool = True,
) -> str:
    """Return a stream of Claude Code that fails with `message` after the model `said` something."""
    return lines(
        {"type": "system", "subtype": "init", "session_id": "s1", "model": "m"},
        {"type": "assistant", "message": {"model": "m", "content": [_text(said)]}},
        {
            "type": "assistant",
            "message": {"model": "<synthetic>", "content": [_text(message)]},
            "error": error,
        },
        {
            "type": "result",
            "subtype": "success",
            "is_error": is_error,
            "api_error_status": status,
            "result": message,
            "permission_denials": [],
        },
    )


def claude_answer(answer: str, **result: object) -> str:
    """Return a stream of Claude Code in which all is well."""
    return lines(
        {"type": "system", "subtype": "init", "session_id": "s1", "model": "m"},
        {"type": "assistant", "message": {"model": "m", "content": [_text(answer)]}},
        {"type": "result", "subtype": "success", "is_error": False, "result": answer} | result,
    )


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def codex(message: str, *, said: str = "working on it") -> str:
    """Return a stream of Codex that fails with `message`."""
    return lines(
        {"type": "thread.started", "thread_id": "t1"},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": said}},
        {"type": "error", "message": message},
        {"type": "turn.failed", "error": {"message": message}},
    )


def codex_answer(answer: str, tokens: int = 10) -> str:
    """Return a stream of Codex in which all is well."""
    return lines(
        {"type": "thread.started", "thread_id": "t1"},
        {"type": "item.completed", "item": {"id": "i", "type": "agent_message", "text": answer}},
        {"type": "turn.completed", "usage": {"input_tokens": tokens, "output_tokens": tokens}},
    )


def gemini(message: str, *, kind: str = "Error", code: int | str = 1) -> str:
    """Return the document that Gemini CLI writes on its error stream."""
    error = {"type": kind, "message": message, "code": code}
    return json.dumps({"session_id": "g1", "error": error}, indent=2) + "\n"


def gemini_stream(message: str, *, kind: str = "Error") -> str:
    """Return a stream of Gemini CLI that fails with `message`."""
    return lines(
        {"type": "init", "session_id": "g1", "model": "m"},
        {"type": "message", "role": "assistant", "content": "so far", "delta": True},
        {"type": "result", "status": "error", "error": {"type": kind, "message": message}},
    )


def gemini_answer(answer: str) -> str:
    """Return a stream of Gemini CLI in which all is well."""
    return lines(
        {"type": "init", "session_id": "g1", "model": "m"},
        {"type": "message", "role": "assistant", "content": answer, "delta": True},
        {"type": "result", "status": "success", "stats": {"input_tokens": 7, "output_tokens": 3}},
    )


def google(code: int, status: str, message: str, *details: object) -> str:
    """Return an error body of Google's APIs."""
    return json.dumps(
        {"error": {"code": code, "message": message, "status": status, "details": details}}
    )


def copilot(message: str, *, kind: str = "query", status: int | None = None) -> str:
    """Return a stream of Copilot CLI that fails with `message`."""
    data: dict[str, object] = {"errorType": kind, "message": message}
    if status is not None:
        data["statusCode"] = status
    return lines(
        {"type": "user.message", "data": {"content": "say hi"}},
        {"type": "session.error", "data": data},
        {"type": "result", "sessionId": "c1", "exitCode": 1},
    )


def copilot_answer(answer: str) -> str:
    """Return a stream of Copilot CLI in which all is well."""
    return lines(
        {"type": "assistant.message", "data": {"messageId": "m1", "content": answer}},
        {"type": "result", "sessionId": "c1", "exitCode": 0},
    )
