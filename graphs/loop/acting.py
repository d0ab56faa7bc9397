"""The node ``act``: one tool call. A turn with several calls runs as many of these, each on its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from langchain_core.messages import ToolCall
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphBubbleUp

from taograph.calls import Steps
from taograph.graphs.loop.agent import Agent
from taograph.graphs.loop.clock import DEADLINES, Clock
from taograph.graphs.loop.internals import invocation_of, read_messages
from taograph.graphs.loop.repair import close_calls
from taograph.graphs.loop.session import Teller
from taograph.graphs.loop.state import NOTHING, ActInput, Bookkeeping
from taograph.tools.policy import ToolError
from taograph.tools.results import READ_RESULT, find_whole, read_page
from taograph.tools.running import ToolRun, check_arguments, run_call


def act(agent: Agent) -> Callable[[ActInput, RunnableConfig], Steps[Any]]:
    """The core of the node for a loop."""

    def core(task: ActInput, config: RunnableConfig) -> Steps[Any]:
        call, began = task["call"], time.monotonic()
        # The time since the turn ended is active, too: a call that waited for its place used it up.
        waited = DEADLINES.waited(task["run"], task["step"], within=invocation_of(config))
        started = time.time() - waited
        teller = Teller(config, task["run"], task["step"])
        teller.tell("action", id=call["id"], tool=call["name"], args=call["args"])
        try:
            done = yield from _run(agent, task, config)
        except GraphBubbleUp:
            DEADLINES.forget(task["run"], task["step"])
            raise
        seconds = time.monotonic() - began
        teller.tell(
            "observation",
            id=call["id"],
            tool=call["name"],
            text=str(done.message.text),
            status=done.message.status,
            seconds=round(seconds, 3),
            size=done.size,
            handle=done.handle,
        )
        update: dict[str, Any] = {
            "spent": {**NOTHING, "tool_calls": int(done.ran)},
            "clock": Clock(seconds=0.0, start=started, end=started + waited + seconds),
        }
        if done.command is not None:
            return [done.command, update]
        return {"messages": [done.message], **update}

    return core


def act_input(call: ToolCall, run: Bookkeeping) -> ActInput:
    """What the task of a call is sent."""
    return ActInput(
        call=call,
        step=run["steps"],
        run=run["id"],
        refused=run["refused"].get(call["id"] or ""),
        seconds=run["left"],
    )


def _run(agent: Agent, task: ActInput, config: RunnableConfig) -> Steps[ToolRun]:
    call, refused = task["call"], task["refused"]
    if refused is not None:
        message = close_calls([call], refused)[0]
        return ToolRun(message, ran=False, size=len(refused))
    if call["name"] == READ_RESULT and READ_RESULT in agent.by_name:
        return _read_result(agent, call, config)

    def inject(asked: ToolCall) -> ToolCall:
        return agent.injector.inject(asked, {"messages": read_messages(config)}, config)

    left = DEADLINES.left(task["run"], task["step"], task["seconds"], within=invocation_of(config))
    needed = agent.injector.needed_by(call["name"])
    return (yield from run_call(call, agent.by_name, config=config, seconds=left, inject=inject if needed else None))


def _read_result(agent: Agent, call: ToolCall, config: RunnableConfig) -> ToolRun:
    """``read_result`` reads the messages of the run, which no tool can reach."""
    complaint = check_arguments(agent.by_name[READ_RESULT], call["args"])
    try:
        if complaint:
            raise ToolError(complaint)
        handle = str(call["args"]["handle"])
        text = read_page(find_whole(read_messages(config), handle), handle, int(call["args"].get("start", 0)))
    except ToolError as error:
        message = close_calls([call], str(error))[0]
        return ToolRun(message, ran=complaint is None, size=len(str(error)))
    message = close_calls([call], text)[0].model_copy(update={"status": "success"})
    return ToolRun(message, ran=True, size=len(text))
