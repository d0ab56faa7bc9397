"""The node ``act``: one tool call. A turn with several calls runs as many of these, each on its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from langchain_core.messages import HumanMessage, ToolCall, convert_to_messages
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp
from langgraph.types import Command

from taograph.calls import Cancelled, Steps
from taograph.graphs.loop.agent import Agent
from taograph.graphs.loop.approving import decided, noted, rejected
from taograph.graphs.loop.clock import DEADLINES, Clock
from taograph.graphs.loop.effects import once
from taograph.graphs.loop.internals import invocation_of, read_messages, storable
from taograph.graphs.loop.interrupts import forget_plain_answer, has_plain_answer
from taograph.graphs.loop.repair import close_calls
from taograph.graphs.loop.state import NOTHING, ActInput, Bookkeeping
from taograph.graphs.loop.telling import Teller
from taograph.graphs.loop.trajectory import mark
from taograph.tools.outcome import ToolRun, failed, succeeded
from taograph.tools.policy import ToolError, policy_of
from taograph.tools.results import find_long, frame, read_page, read_result_tool
from taograph.tools.running import STAND_IN, check_arguments, run_call


def act(agent: Agent) -> Callable[[ActInput, RunnableConfig], Steps[Any]]:
    """The core of the node for a loop."""

    def core(task: ActInput, config: RunnableConfig) -> Steps[Any]:
        call, began = task["call"], time.monotonic()
        # The time since the turn ended is active, too: a call that waited for its place used it up.
        waited = DEADLINES.waited(task["run"], task["step"], within=invocation_of(config))
        started = time.time() - waited
        teller = Teller(config, task["run"], task["step"])
        answered = has_plain_answer(config)
        try:
            done = yield from told(teller, call, carried_out(agent, task, config, teller))
        except Exception as error:
            if isinstance(error, GraphBubbleUp):
                DEADLINES.forget(task["run"])
            if answered:
                yield from forget_plain_answer(config)
            raise
        seconds = time.monotonic() - began
        update: dict[str, Any] = {
            "messages": [] if done.told else [storable(done.message, config)],
            "spent": {**NOTHING, "tool_calls": int(done.ran)},
            "clock": Clock(seconds=0.0, start=started, end=started + waited + seconds),
        }
        return [update, *map(own, done.commands)] if done.commands else update

    return core


def told(teller: Teller, call: ToolCall, running: Steps[ToolRun]) -> Steps[ToolRun]:
    """A call that is run, with the events of it."""
    began = time.monotonic()
    teller.tell("action", id=call["id"], tool=call["name"], args=call["args"])
    done = yield from running
    teller.tell(
        "observation",
        id=call["id"],
        tool=call["name"],
        text=str(done.message.text),
        status=done.message.status,
        seconds=round(time.monotonic() - began, 3),
        size=done.size,
        handle=done.handle,
    )
    return done


def own(command: Command[Any]) -> Command[Any]:
    """A tool's command, its messages marked: what a tool says in the user's name is no turn of the user."""
    update = command.update
    if command.graph is not None or not isinstance(update, dict) or not update.get("messages"):
        return command
    messages = [
        mark(message, "tool") if isinstance(message, HumanMessage) else message
        for message in convert_to_messages(update["messages"])
    ]
    return replace(command, update={**update, "messages": messages})


def act_input(call: ToolCall, run: Bookkeeping) -> ActInput:
    """What the task of a call is sent."""
    return ActInput(
        call=call,
        step=run["steps"],
        run=run["id"],
        refused=run["refused"].get(call["id"] or ""),
        seconds=run["left"],
    )


def carried_out(agent: Agent, task: ActInput, config: RunnableConfig, teller: Teller) -> Steps[ToolRun]:
    """What comes of a call: the word of a person where it needs one, the ledger, and its tool.

    Args:
        agent: What the run is made of.
        task: The call.
        config: Of the node.
        teller: Of the node.

    Raises:
        GraphBubbleUp: It waits for a person, or hands over to another graph.
    """
    call, refused = task["call"], task["refused"]
    if refused is not None:
        message = close_calls([call], refused)[0]
        return ToolRun(message, ran=False, size=len(refused))
    if agent.by_name.get(call["name"]) is read_result_tool():
        stand_in = STAND_IN.get()
        return _read_result(agent, call, config) if stand_in is None else stand_in(call, config)

    def inject(asked: ToolCall) -> ToolCall:
        return agent.injector.inject(asked, {"messages": read_messages(config)}, config)

    def run() -> Steps[ToolRun]:
        left = DEADLINES.left(task["run"], task["step"], task["seconds"], within=invocation_of(config))
        injects = inject if agent.injector.needed_by(call["name"]) else None
        return (yield from run_call(call, agent.by_name, config=config, seconds=left, inject=injects))

    tool = agent.by_name.get(call["name"])
    if tool is None or check_arguments(tool, call["args"]) is not None:
        return (yield from run())
    edited = False
    try:
        verdict = yield from decided(agent.approvals, call, tool, run=task["run"], thread=teller.thread, config=config)
    except Cancelled:
        return failed(call, f"{call['name']} was not run: the run was cancelled before a person had allowed it.")
    if verdict is not None:
        said = {"decision": verdict.decision, "reason": verdict.reason, "by": verdict.by, "args": verdict.args}
        teller.tell(
            "approved" if verdict.decision != "reject" else "rejected", id=call["id"], tool=call["name"], **said
        )
        if verdict.decision == "reject":
            return rejected(call, verdict)
        edited, call = verdict.decision == "edit", {**call, "args": verdict.args}
    done = yield from once(call, policy_of(tool), task["run"], config, run)
    return noted(done, call) if edited else done


def _read_result(agent: Agent, call: ToolCall, config: RunnableConfig) -> ToolRun:
    """``read_result`` reads the messages of the run, which no tool can reach."""
    complaint = check_arguments(read_result_tool(), call["args"])
    if complaint:
        return failed(call, complaint)
    handle = str(call["args"]["handle"])
    found = find_long(read_messages(config), handle)
    try:
        text = read_page(found, handle, int(call["args"].get("start", 0)))
    except ToolError as error:
        return failed(call, str(error), ran=True)
    source = None if found is None else agent.by_name.get(found.name or "")
    if source is not None and not policy_of(source).trusted:
        text = frame(text, source.name)
    return succeeded(call, text, policy_of(read_result_tool()))
