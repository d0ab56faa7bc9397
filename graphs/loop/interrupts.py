"""Questions to a person and their answers: each answer counts once, and for nothing but the question that was asked.

LangGraph finds the answers of a task by their position among its interrupts. It stores an answer that was given by
id when the task has ended, so a crash in between loses it; and an answer that was given without an id it offers to
the next question, too, where a run is resumed without any. That is not enough for a person's word on an action:

- a question has an id of its own, made of its task, its call and its number, so an answer by id fits no other;
- an answer without an id counts only for the question that is stored as the last one of its task;
- whoever takes an answer has to write it down before anything is done with it.

What LangGraph keeps private about interrupts is in this module alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NoReturn, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph._internal._constants import (
    CONFIG_KEY_CHECKPOINT_MAP,
    CONFIG_KEY_DURABILITY,
    CONFIG_KEY_RESUME_MAP,
    CONFIG_KEY_RESUMING,
    CONFIG_KEY_SCRATCHPAD,
    INTERRUPT,
    NULL_TASK_ID,
    RESUME,
    TASKS,
)
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.errors import GraphInterrupt, _mark_invalid_resume
from langgraph.types import Interrupt, interrupt
from pydantic import BaseModel, ValidationError

from taograph.calls import TOOL_THREADS, Call, Pause, Steps
from taograph.graphs.loop.internals import place_of, runtime_of, saver_of

Form = TypeVar("Form", bound=BaseModel)
_LOOKS, _BETWEEN_LOOKS = 100, 0.02


@dataclass(frozen=True, slots=True)
class Question:
    """A question of ours.

    Attributes:
        id: What an answer names.
        value: What a person is shown.
    """

    id: str
    value: dict[str, Any]

    def is_stored(self, stored: Interrupt | None) -> bool:
        """Whether it is the question that its task has asked last."""
        return stored is not None and stored.id == self.id


def question(config: RunnableConfig, value: dict[str, Any], number: int = 0) -> Question:
    """A question that a task asks about a call.

    Args:
        config: Of the node.
        value: What a person is shown; its ``type``, ``call`` and ``hash`` say what it is about.
        number: Which time it is asked.
    """
    about = (task_of(config), *(str(value[name]) for name in ("type", "call", "hash")), str(number))
    return Question(sha256("\0".join(about).encode()).hexdigest()[:32], value)


def ask(asked: Question, form: type[BaseModel]) -> NoReturn:
    """Let the run wait for the answer.

    Raises:
        GraphInterrupt: Always.
    """
    raise GraphInterrupt((Interrupt(asked.value, id=asked.id, response_schema=form.model_json_schema()),))


def answer(config: RunnableConfig, asked: Question, stored: Interrupt | None, form: type[Form]) -> Form | None:
    """The answer that the run was resumed with, or None; it is not offered a second time.

    Args:
        config: Of the node.
        asked: The question.
        stored: What :func:`last_question` gives.
        form: What an answer looks like.

    Raises:
        pydantic.ValidationError: It cannot be used; LangGraph leaves the question as it stands.
    """
    given = _by_id(config).get(asked.id)
    if given is None and asked.is_stored(stored):
        given = _scratchpad(config).get_null_resume(True)
    if given is None:
        return None
    try:
        return form.model_validate(given)
    except ValidationError as error:
        _mark_invalid_resume(error)
        raise


def ask_by_position(config: RunnableConfig, asked: Question, stored: Interrupt | None, form: type[Form]) -> Form:
    """Ask as LangGraph does, where answers cannot be written down; still nothing but the answer to it counts.

    Raises:
        GraphInterrupt: There is no answer yet.
        pydantic.ValidationError: The answer cannot be used.
    """
    scratchpad = _scratchpad(config)
    if not scratchpad.resume and not _is_about(stored, asked.value):
        scratchpad.get_null_resume(True)
    found: Form = interrupt(asked.value, response_schema=form)
    return found


def last_question(config: RunnableConfig) -> Steps[Interrupt | None]:
    """The question that this task has asked last, as it is stored; None where it has asked none."""
    place, saver = place_of(config), saver_of(config)
    info = runtime_of(config).execution_info
    if place is None or saver is None or info is None or not is_resumed(config):
        return None
    found = yield _read(saver, *place, info.checkpoint_id)
    for task, channel, value in (found and found.pending_writes) or ():
        if task == info.task_id and channel == INTERRUPT:
            asked = value[0] if isinstance(value, list | tuple) else value
            return asked if isinstance(asked, Interrupt) else None
    return None


def is_about(stored: Interrupt | None, asked: Question) -> bool:
    """Whether the stored question asks the same of the same call, also under another id."""
    return _is_about(stored, asked.value)


def is_resumed(config: RunnableConfig) -> bool:
    """Whether the graph goes on from what is stored, so that a task may have been begun before."""
    return bool((config.get("configurable") or {}).get(CONFIG_KEY_RESUMING))


def task_of(config: RunnableConfig) -> str:
    """Id of the node's task: the same whenever it is run anew from the same checkpoint, and in no fork of it."""
    info = runtime_of(config).execution_info
    return "" if info is None else info.task_id


def is_stored_at_exit(config: RunnableConfig) -> bool:
    """Whether a run is stored when it ends, and not before."""
    return bool((config.get("configurable") or {}).get(CONFIG_KEY_DURABILITY) == "exit")


def unsure_places(config: RunnableConfig) -> dict[str, str]:
    """Ids, by namespace, of the checkpoints that a node runs from, in its graph and in those around it.

    None where each step waits until the one before is stored.
    """
    configurable = config.get("configurable") or {}
    if configurable.get(CONFIG_KEY_DURABILITY) == "sync":
        return {}
    return begun_from(config)


def begun_from(config: RunnableConfig) -> dict[str, str]:
    """Ids, by namespace, of the checkpoints that a node runs from, in its graph and in those around it."""
    return dict((config.get("configurable") or {}).get(CONFIG_KEY_CHECKPOINT_MAP) or {})


def sent_from(found: CheckpointTuple) -> int:
    """How many tasks were sent to run from a checkpoint."""
    return len(found.checkpoint["channel_values"].get(TASKS) or ())


def has_plain_answer(config: RunnableConfig) -> bool:
    """Whether the run was resumed with an answer without an id, now or before."""
    return is_resumed(config) and _scratchpad(config).get_null_resume() is not None


def forget_plain_answer(config: RunnableConfig) -> Steps[None]:
    """Take an answer without an id out of what is stored: it was used, or was meant for another question.

    LangGraph would offer it to the question that the task asks now. It is being stored while the tasks run, so it
    is waited for.
    """
    configurable = config.get("configurable") or {}
    saver, thread = saver_of(config), configurable.get("thread_id")
    if saver is None or thread is None or is_stored_at_exit(config):
        return
    places = dict(configurable.get(CONFIG_KEY_CHECKPOINT_MAP) or {})
    for _ in range(_LOOKS):
        for ns, checkpoint in places.items():
            found = yield _read(saver, str(thread), ns, checkpoint)
            if any(_is_plain(*write) for write in (found and found.pending_writes) or ()):
                at: RunnableConfig = {
                    "configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint}
                }
                nothing = [(RESUME, None)]
                yield _certain(
                    lambda: saver.put_writes(at, nothing, NULL_TASK_ID),  # noqa: B023 - called at once
                    lambda: saver.aput_writes(at, nothing, NULL_TASK_ID),  # noqa: B023
                )
                return
        yield Pause(_BETWEEN_LOOKS)


def _is_plain(task: str, channel: str, value: Any) -> bool:
    return task == NULL_TASK_ID and channel == RESUME and value is not None


def _is_about(stored: Interrupt | None, value: dict[str, Any]) -> bool:
    known = None if stored is None else stored.value
    return isinstance(known, dict) and all(known.get(name) == value[name] for name in ("type", "call", "hash"))


def _by_id(config: RunnableConfig) -> dict[str, Any]:
    return (config.get("configurable") or {}).get(CONFIG_KEY_RESUME_MAP) or {}


def _scratchpad(config: RunnableConfig) -> Any:
    return (config.get("configurable") or {})[CONFIG_KEY_SCRATCHPAD]


def _read(saver: BaseCheckpointSaver[Any], thread: str, ns: str, checkpoint: str) -> Call:
    at: RunnableConfig = {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint}}

    async def later() -> CheckpointTuple | None:
        return await saver.aget_tuple(at)

    return _certain(lambda: saver.get_tuple(at), later)


def _certain(func: Any, afunc: Any) -> Call:
    return Call(func, afunc, None, TOOL_THREADS, certain=True)
