"""The audit of a soak: every assignment accounted for exactly once, and nothing left."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import aiosqlite

from otpy_agents.agent.state import MOVES, AgentState, Happening
from otpy_agents.store.records import State
from otpy_monitors import Kind
from tests.agents.soak.books import Books

__all__ = ["audit"]

_FINAL = {
    State.DONE: AgentState.DONE,
    State.REAPED: AgentState.REAPED,
    State.FAILED: AgentState.FAILED,
}


async def audit(books: Books, folder: Path) -> None:
    """Check that all books agree, and add each error to `books.wrong`.

    Args:
        books: Those of a soak whose hosts have all ended.
        folder: The folder of its stores.
    """
    await asyncio.sleep(1)  # what was cancelled a moment ago ends
    ledger = await _tables(folder / "w.sqlite", "assignment", "attempt", "agent", "agent_move")
    runs = await _tables(folder / "state" / "runs.sqlite3", "run", "attempt")
    sessions = await _tables(folder / "sessions.sqlite", "session")
    books.wrong += _outcomes(books, ledger)
    books.wrong += _told(books, ledger)
    books.wrong += _moves(books, ledger)
    books.wrong += _work(books, ledger)
    books.wrong += _runs(books, ledger, runs)
    books.wrong += _sessions(ledger, sessions)
    books.wrong += _spent(books)
    books.wrong += _left(books)


Rows = list[Mapping[str, Any]]
Tables = dict[str, Rows]


async def _tables(path: Path, *names: str) -> Tables:
    database = await aiosqlite.connect(path)
    database.row_factory = aiosqlite.Row
    try:
        return {
            name: [
                dict(row)
                for row in await database.execute_fetchall(f"SELECT * FROM {name}")  # noqa: S608
            ]
            for name in names
        }
    finally:
        await database.close()


def _outcomes(books: Books, ledger: Tables) -> Iterator[str]:
    """Check that each assignment came out as it must, with a reason."""
    rows = {row["id"]: row for row in ledger["assignment"]}
    if set(rows) != {plan.id for plan in books.plans}:
        yield "the ledger has other assignments than the list"
    for plan in books.plans:
        row = rows[plan.id]
        state, reason = State(row["state"]), row["reason"]
        if state is not plan.kind.ends:
            yield f"{plan.id} is {state} ({reason}), wanted {plan.kind.ends}"
        if state is not State.DONE and plan.kind.why not in reason:
            yield f"{plan.id} is {state} because {reason!r}, wanted {plan.kind.why!r}"
        if row["finished"] is None:
            yield f"{plan.id} is {state} but not finished"


def _told(books: Books, ledger: Tables) -> Iterator[str]:
    """Check that events and pools agree with the ledger, and that each end was told once."""
    told: defaultdict[str, list[str]] = defaultdict(list)
    for one in books.told:
        if one.name in {"mortal.done", "mortal.reaped", "mortal.failed"}:
            told[one.id].append(one.name.removeprefix("mortal."))
    for row in ledger["assignment"]:
        name, state = row["id"], row["state"]
        ends = told[name]
        once = list(dict.fromkeys(ends)) if state == State.FAILED else ends  # each host tries again
        if once != [state]:
            yield f"{name} is {state}, but its ends were told as {ends}"
        if not row["told"]:
            yield f"{name} is {state}, and nobody wrote down that it was told"
        known = [str(outcome.state) for outcome in books.outcomes.get(name, [])]
        if set(known) - {state}:
            yield f"{name} is {state}, but pools knew it as {known}"


def _moves(books: Books, ledger: Tables) -> Iterator[str]:
    """Check that the moves of each agent led to its state, and that each of them was allowed."""
    stands = {row["assignment"]: row["state"] for row in ledger["agent"]}
    moves: defaultdict[str, Rows] = defaultdict(list)
    for row in sorted(ledger["agent_move"], key=lambda row: row["id"]):
        moves[row["assignment"]].append(row)
    told = Counter(one.id for one in books.told if one.name == "agent.state")
    for row in ledger["assignment"]:
        name, state = row["id"], State(row["state"])
        if state is State.FAILED and name not in moves:
            continue  # it was never begun
        at = None
        for move in moves[name]:
            key = AgentState(move["source"]), Happening(move["happening"])
            if MOVES.get(key) != move["target"]:
                yield f"{name} moved as nobody may: {move}"
            if at is not None and move["source"] != at:
                yield f"{name} was {at} and then moved from {move['source']}"
            at = move["target"]
        if at != stands.get(name) or at != _FINAL.get(state):
            yield f"{name} is {state}, stands at {stands.get(name)}, its moves led to {at}"
        if told[name] != len(moves[name]):
            yield f"{name} has {len(moves[name])} moves, {told[name]} were told"


def _work(books: Books, ledger: Tables) -> Iterator[str]:
    """Check that no agent worked twice at once, and that no good work was done again."""
    for agent in books.stage.twins:
        yield f"{agent} was begun while it was at work"
    good = Counter(one.agent for one in books.stage.sandbox.played if one.exit_code == 0)
    answers = books.stage.answers
    for row in ledger["assignment"]:
        name, wanted = row["id"], int(row["state"] == State.DONE)
        if answers[name] != wanted or good[name] < wanted:
            yield f"{name} is {row['state']}, and did its work {answers[name]} times"
    open_ones = [row for row in ledger["attempt"] if row["ended"] is None]
    for row in open_ones:
        yield f"a life of {row['assignment']} has no end"
    lives = Counter(row["assignment"] for row in ledger["attempt"])
    for row in ledger["assignment"]:
        if row["attempts"] != lives[row["id"]]:
            yield f"{row['id']} counts {row['attempts']} lives, {lives[row['id']]} are written down"
        if row["restarts"] > row["attempts"]:
            yield f"{row['id']} counts {row['restarts']} restarts in {row['attempts']} lives"


def _runs(books: Books, ledger: Tables, runs: Tables) -> Iterator[str]:
    """Check that every run and each of its attempts is over, and that one run did the work."""
    done: Counter[str] = Counter()
    for row in runs["run"]:
        name = row["label"].split("/")[1]
        if row["finished"] is None:
            yield f"run {row['id']} of {name} is not over but {row['status']}"
        done[name] += row["status"] == "done"
    for row in runs["attempt"]:
        if row["ended"] is None or row["outcome"] is None:
            yield f"attempt {row['number']} of run {row['run']} has no end"
    for row in ledger["assignment"]:
        if row["state"] == State.DONE and not done[row["id"]]:
            yield f"{row['id']} is done, but no run of it is"
    made = len(runs["attempt"])
    played = len(books.stage.sandbox.played)
    if made < played:
        yield f"{played} attempts were made, {made} are written down"


def _sessions(ledger: Tables, sessions: Tables) -> Iterator[str]:
    """Check that no assignment that is done still has a session."""
    done = {row["id"] for row in ledger["assignment"] if row["state"] == State.DONE}
    for row in sessions["session"]:
        name = row["agent"].removeprefix("w/")
        if name in done:
            yield f"{name} is done, and still has a session"


def _spent(books: Books) -> Iterator[str]:
    """Check that each token was charged once, to its agent and to its project."""
    ledger = books.workplace.budgets.ledger
    tokens = books.stage.tokens
    whole = ledger.balance("w", Kind.TOKENS).spent
    if whole != sum(tokens.values()):
        yield f"the project was charged {whole} tokens, its agents told of {sum(tokens.values())}"
    for name, spent in tokens.items():
        charged = ledger.balance(f"w/{name}", Kind.TOKENS).spent
        if charged != spent:
            yield f"{name} was charged {charged} tokens, and told of {spent}"


def _left(books: Books) -> Iterator[str]:
    """Check that nothing runs, waits or is watched any more."""
    if alive := books.stage.sandbox.alive:
        yield f"still at work: {[one.agent for one in alive]}"
    mine = asyncio.current_task()
    for task in asyncio.all_tasks():
        if task is not mine:
            yield f"a task is left: {task!r}"
    timer = cast("Any", asyncio.get_running_loop()).next_timer()
    if timer != math.inf:
        yield f"a timer is left, for {timer}"
    if books.workplace.feed.cards():
        yield f"still on the feed: {[card.agent for card in books.workplace.feed.cards()]}"
