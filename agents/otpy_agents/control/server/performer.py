"""Performs the effects of a project's loop: files, agents, commands, stores (CTL-08)."""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any, Final, assert_never, final

from anyio.to_thread import run_sync
from attrs import asdict

from otpy_agents.control.halts import Halt, HaltReason
from otpy_agents.control.interrogation import MOST_QUESTIONS, find_mentions
from otpy_agents.control.loop.protocol import (
    AgentEnded,
    AgentReplied,
    AskAgent,
    ConfirmDispatch,
    ControlEffect,
    ControlEvent,
    DispatchTask,
    EndLoop,
    FindFolder,
    FolderFound,
    HaltBroken,
    HaltSeen,
    HelpGiven,
    LoadState,
    NotDispatched,
    OperatorAnswered,
    QueueAnswered,
    ReserveTask,
    SaveState,
    SeekHelp,
    SettleTask,
    StateBroken,
    StateLoaded,
    StopDispatch,
    ValidateWork,
    WorkValidated,
)
from otpy_agents.control.project_folder import list_files
from otpy_agents.control.prompts import (
    clarification_prompt,
    first_prompt,
    fix_prompt,
    helper_prompt,
    question_prompt,
    take_snapshot,
)
from otpy_agents.control.proposals import MOST_COMMANDS, read_proposals, settled_by_commands
from otpy_agents.control.server.commands import SafeCommands
from otpy_agents.control.server.dispatcher import Dispatcher
from otpy_agents.control.server.neighbours import Trespass, watched
from otpy_agents.control.server.settings import ControlSettings
from otpy_agents.control.state import InHand, ProjectState, ProjectStatus, PromptKind
from otpy_agents.control.stores.behaviour import ControlStore, Record
from otpy_agents.control.task import ControlTask
from otpy_agents.control.validation import CommandOutcome, validate
from otpy_agents.errors import MissingStateField, StateError

__all__ = ["Performer"]

Say = Callable[[str, str], object]
"""Is given a tag of the application log, and a line (CTL-49)."""

PERFORMANCE: Final = "PERFORMANCE"
"""The tag of how long the state took to load and to persist (CTL-17)."""
TRANSITION: Final = "STATE_TRANSITION"
VERBOSE: Final = "VERBOSE"
ERROR: Final = "ERROR"
"""What the operator has to look at, however little he wants to read."""

_FILES_TOLD: Final = 200
"""Files that a helper is told of."""


@final
class Performer:
    """Carries out the effects of one loop.

    Args:
        key: Name of the project among all, for labels of its dispatches.
        store: Its state and queue.
        dispatcher: Makes dispatches.
        settings: What the operator decides.
        confirm: Asks the operator before a dispatch; returns whether he wants it.
        say: Is given a tag and a line for the application log.
    """

    def __init__(
        self,
        key: str,
        store: ControlStore,
        dispatcher: Dispatcher,
        settings: ControlSettings,
        confirm: Callable[[InHand], Awaitable[bool]],
        say: Say,
    ) -> None:
        self._key = key
        self._store = store
        self._dispatcher = dispatcher
        self._settings = settings
        self._confirm = confirm
        self._say = say
        self._commands = SafeCommands(settings.command_deadline, partial(say, VERBOSE))
        self._project = "default"
        self._iteration = 0

    async def perform(self, effect: ControlEffect) -> ControlEvent | None:
        """Carry out an effect, and return the event that answers it; None if none does.

        Cancellation:
            What it started is ended.
        """
        match effect:
            case LoadState():
                return await self._load()
            case SaveState():
                return await self._save(effect)
            case HaltBroken():
                record = Record("halt", {"task_id": None, "reason": effect.reason})
                await self._store.halt(effect.reason, effect.details, record)
            case ReserveTask():
                return QueueAnswered(await self._store.reserve())
            case SettleTask():
                await self._store.settle(effect.task_id)
            case FindFolder():
                return FolderFound(await run_sync(self._find_folder, effect))
            case ConfirmDispatch():
                return OperatorAnswered(await self._confirm(effect.hand))
            case DispatchTask():
                return await self._dispatch(effect)
            case ValidateWork():
                return await self._validate(effect)
            case SeekHelp():
                return await self._seek_help(effect)
            case AskAgent():
                return await self._ask(effect)
            case StopDispatch() | EndLoop():
                pass  # a dispatch was cancelled, and with that stopped
            case _:
                assert_never(effect)
        return None

    # --- the state --------------------------------------------------------------------------------

    async def _load(self) -> ControlEvent:
        began = time.perf_counter()
        try:
            state = await self._store.load()
        except MissingStateField as error:
            return StateBroken(error, error.key)
        except StateError as error:
            return StateBroken(error)
        self._say(PERFORMANCE, f"state loaded in {1000 * (time.perf_counter() - began):.1f} ms")
        self._project, self._iteration = state.project, state.iteration
        return StateLoaded(state)

    async def _save(self, effect: SaveState) -> ControlEvent | None:
        began = time.perf_counter()
        stands = await self._store.change(effect.before, effect.after, *effect.records)
        self._say(PERFORMANCE, f"state persisted in {1000 * (time.perf_counter() - began):.1f} ms")
        self._iteration = stands.iteration
        if effect.before.status is not effect.after.status:
            self._say(TRANSITION, f"{effect.before.status} -> {stands.status}")
        for record in effect.records:
            said = record.fields.get("details") or record.fields.get("reason") or ""
            task = record.fields.get("task_id") or ""
            self._say(TRANSITION, f"{record.name} {task} {said}".strip())
        halted = stands.status is ProjectStatus.HALTED
        return HaltSeen(stands) if halted and effect.after.status is not stands.status else None

    # --- the folder -------------------------------------------------------------------------------

    def _folder(self, task: ControlTask) -> Path:
        """Return where a task is done: its own folder, or else the project's (CTL-13)."""
        return self._settings.folder(self._project) / (task.working_directory or "")

    def _find_folder(self, effect: FindFolder) -> str:
        project = self._settings.folder(effect.project)
        folder = project / (effect.task.working_directory or "")
        try:
            project.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            return f"{project}: got {(error.strerror or 'an error').lower()}, wanted a folder"
        if not folder.is_dir():
            return f"{folder}: got no folder, wanted one to work in"
        if not folder.resolve().is_relative_to(project.resolve()):
            return f"{folder}: got a folder outside of the project, wanted one in {project}"
        return ""

    # --- agents -----------------------------------------------------------------------------------

    async def _dispatch(self, effect: DispatchTask) -> AgentEnded | NotDispatched:
        hand, folder = effect.hand, self._folder(effect.hand.task)
        prompt = self._prompt(effect, folder)
        await self._tell_prompt(hand.task, hand.kind, prompt, folder)
        number = f"attempt {hand.attempt} of {hand.task.max_retries + 1}"
        self._say(VERBOSE, f"{hand.task.task_id}: {hand.task.tool} begins, {number}")
        async with self._watched(hand.task):
            answer = await self._dispatcher.dispatch(hand.task, prompt, folder, self._label(hand))
        words = answer.outcome.final_words if isinstance(answer, AgentEnded) else answer.why
        await self._tell_prompt(hand.task, "RESPONSE", words, folder)
        return answer

    def _prompt(self, effect: DispatchTask, folder: Path) -> str:
        hand, types = effect.hand, self._settings.types
        snapshot = take_snapshot(hand.task, effect.state, folder, types=types)
        if hand.kind is PromptKind.FIX and effect.report is not None:
            return fix_prompt(
                hand.task, effect.report, strict=hand.strict, snapshot=snapshot, types=types
            )
        if hand.kind is PromptKind.CLARIFICATION:
            return clarification_prompt(
                hand.task, _halt_of(hand.doubt), snapshot=snapshot, types=types
            )
        return first_prompt(hand.task, snapshot, types=types)

    def _label(self, hand: InHand) -> str:
        return f"{self._key}/{hand.task.task_id}/{hand.taken_at}/{hand.dispatches}"

    async def _tell_prompt(self, task: ControlTask, kind: str, content: str, folder: Path) -> None:
        fields = {
            "task_id": task.task_id,
            "iteration": self._iteration,
            "type": str(kind),
            "content": content,
            "agent_mode": task.agent_mode,
            "working_directory": str(folder),
        }
        await self._store.tell(Record("prompt", fields))

    def _watched(self, task: ControlTask) -> AbstractAsyncContextManager[None]:
        """Report an agent's changes in other projects for the length of a block (CTL-60)."""

        async def tell(found: Trespass) -> None:
            told = {"task_id": task.task_id, **asdict(found)}
            await self._store.tell(Record("outside_write", told))
            self._say(ERROR, f"{task.task_id}: its agent changed {found}")

        return watched(self._settings.root, self._settings.folder(self._project), tell)

    async def _ask(self, effect: AskAgent) -> AgentReplied:
        """Look for the words of a criterion in the project, then ask about it (CTL-45)."""
        task, folder = effect.hand.task, self._folder(effect.hand.task)
        found = await run_sync(find_mentions, folder, effect.criterion)
        prompt = question_prompt(
            task, effect.criterion, found, number=effect.number, limit=MOST_QUESTIONS
        )
        about = {"task_id": task.task_id, "criterion": effect.criterion, "number": effect.number}
        await self._store.tell(Record("interrogation_prompt", {**about, "prompt": prompt}))
        self._say(VERBOSE, f"{task.task_id}: question {effect.number} about: {effect.criterion}")
        label = f"{self._label(effect.hand)}/{sum(effect.hand.asked.values())}"
        async with self._watched(task):
            answer = await self._dispatcher.ask(task, prompt, folder, label)
        words = answer.outcome.final_words if isinstance(answer, AgentEnded) else ""
        await self._store.tell(Record("interrogation_response", {**about, "response": words}))
        return AgentReplied(words)

    async def _seek_help(self, effect: SeekHelp) -> HelpGiven:
        """Let a helper propose commands, and run them (CTL-39)."""
        task, report, folder = effect.hand.task, effect.report, self._folder(effect.hand.task)
        files, whole = await run_sync(list_files, folder, _FILES_TOLD)
        prompt = helper_prompt(task, report, files, whole=whole, limit=MOST_COMMANDS)
        about = {"task_id": task.task_id, "criteria": list(report.uncertain_criteria)}
        await self._store.tell(Record("helper_prompt", {**about, "prompt": prompt}))
        self._say(VERBOSE, f"{task.task_id}: {effect.helper} is asked for commands")
        label = f"{self._label(effect.hand)}/help"
        async with self._watched(task):
            answer = await self._dispatcher.help(task, effect.helper, prompt, folder, label)
        words = answer.outcome.final_words if isinstance(answer, AgentEnded) else answer.why
        proposed = await run_sync(read_proposals, words, report, folder)
        outcomes = {one: await self._run(task, one.argv) for one in proposed}
        ended = [
            {"criterion": one.criterion, "command": list(one.argv), **asdict(outcome)}
            for one, outcome in outcomes.items()
        ]
        told = {**about, "response": words, "commands": ended}
        await self._store.tell(Record("helper_response", told))
        return HelpGiven(settled_by_commands(report, outcomes))

    async def _run(self, task: ControlTask, argv: tuple[str, ...]) -> CommandOutcome:
        """Run a command of a validation."""
        self._say(VERBOSE, f"{task.task_id}: runs {shlex.join(argv)}")
        label, writes = f"{self._key}/{task.task_id}", task.writable_paths
        return await self._commands.run(argv, self._folder(task), label, writes=writes)

    async def _validate(self, effect: ValidateWork) -> WorkValidated:
        folder, run = self._folder(effect.task), partial(self._run, effect.task)
        report = await validate(effect.task, folder, result=effect.outcome, run_command=run)
        said = "all holds" if report.valid else f"does not hold: {json.dumps(_open(report))}"
        confidence = report.confidence
        self._say(VERBOSE, f"{effect.task.task_id}: {said} (confidence {confidence})")
        return WorkValidated(report)


def _open(report: Any) -> list[str]:
    return [*report.failed_criteria, *report.uncertain_criteria]


def _halt_of(doubt: str) -> Halt:
    """Return the doubt that a state has kept as text."""
    reason, _, excerpt = doubt.partition(": ")
    known = HaltReason(reason) if reason in tuple(HaltReason) else HaltReason.AMBIGUITY
    return Halt(known, "", excerpt)


async def or_halted(
    work: Awaitable[ControlEvent | None], halted: asyncio.Task[ProjectState]
) -> ControlEvent | None:
    """Return what answers an effect; if the project is halted meanwhile, end it and return that.

    Cancellation:
        What the effect started is ended.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait({task, halted}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        return HaltSeen(halted.result())
    finally:
        task.cancel()
        await asyncio.wait({task})
