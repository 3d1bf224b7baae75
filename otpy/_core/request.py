"""`Request`: a message with the type of its reply."""

from __future__ import annotations

from typing import Generic, TypeVar

ReplyT_co = TypeVar("ReplyT_co", covariant=True)


class Request(Generic[ReplyT_co]):
    """Base of requests that are typed by their own reply: `class Get(Request[bytes | None])`.

    For type checkers: `await ref.call(Get(...))` is `bytes | None`, whatever else the server
    replies to others. That `handle_call` replies so is the word of who writes the server, and it is
    not checked that the server takes this request. Any other object may be a request too; its
    reply has the one reply type of the server.
    """

    __slots__ = ()
