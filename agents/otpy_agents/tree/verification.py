"""What may be wrong with what an agent did that says that it is done."""

from __future__ import annotations

from typing import final

from attrs import frozen

__all__ = ["Complaint"]


@final
@frozen(kw_only=True)
class Complaint:
    """One thing that does not hold; the agent is told, if it gets another chance (TREE-29).

    Attributes:
        name: Its row in the table of failures, such as `changeset_wrong` or `tests_failed`.
        message: What is wrong, for the agent and for a person.
    """

    name: str
    message: str
