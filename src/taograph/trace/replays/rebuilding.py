"""The graph of a recorded run: made again from what the record says of it, or the caller's own."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langgraph.pregel import Pregel
from langgraph.types import Command

from taograph.graphs import STRATEGIES
from taograph.graphs.loop.internals import OwnLimitGraph
from taograph.graphs.loop.limits import Limits
from taograph.graphs.loop.structure import Structure, WrongForm, read_structure
from taograph.models.prices import price_by_name
from taograph.models.replay import NotRecordedError
from taograph.tools.policy import ToolExample, ToolPolicy, with_policy
from taograph.tools.results import READ_RESULT
from taograph.trace.messages import message_of
from taograph.trace.replays.changes import Change
from taograph.trace.replays.recorded import CannotReplayError, Phase

Given = Runnable[Any, Any] | Callable[..., Any] | None

_NOTHING = object()
# What a run's context may set of the limits; others are the graph's.
_IN_CONTEXT = ("steps", "tool_calls", "tokens", "cost")


class StandInModel(BaseChatModel):
    """Has the name and the traits of a recorded model, and says nothing of its own."""

    model_name: str
    worked_examples: bool = False
    free_of_charge: bool = False
    max_tokens: int | None = None

    @property
    def _llm_type(self) -> str:
        return "replay"

    def bind_tools(self, tools: Sequence[Any], *, tool_choice: Any = None, **kwargs: Any) -> Any:
        """Bind tools as function calling does."""
        chosen = {} if tool_choice is None else {"tool_choice": tool_choice}
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **chosen, **kwargs)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        raise NotRecordedError("a model is asked outside of the replay", "")


@dataclass(frozen=True)
class RecordedForm(Structure):
    """A required form whose answers are judged as they were: the record has the schema, and not who judged by it.

    Attributes:
        judged: What came of the answers, in order; what is wrong with one as a ``WrongForm``.
    """

    judged: Iterator[Any] = field(default_factory=lambda: iter(()))

    def read(self, message: AIMessage) -> Any:
        """As :meth:`Structure.read`."""
        found = next(self.judged, _NOTHING)
        if isinstance(found, WrongForm):
            raise found
        return super().read(message) if found is _NOTHING else found


def rebuilt(phases: Sequence[Phase], changes: Sequence[Change], notes: list[str]) -> Runnable[Any, Any]:
    """A graph like the one that was recorded.

    Args:
        phases: The calls of it.
        changes: What is otherwise.
        notes: Takes what is to be said of it.

    Raises:
        CannotReplayError: The record does not say what it is made of.
    """
    phase = phases[0]
    setup = phase.start.get("setup")
    name = phase.start.get("graph") or "graph"
    if not isinstance(setup, Mapping) or setup.get("strategy") not in STRATEGIES:
        raise CannotReplayError(
            f"the record does not say what {name!r} is made of, since it is not one of taograph's strategies: "
            "give the graph itself (graph=, or --graph module:object)"
        )
    if setup["missing"]:
        raise CannotReplayError(
            f"{', '.join(setup['missing'])} of {name!r} cannot be recorded (functions and graphs cannot): give the "
            "graph itself (graph=, or --graph module:object)"
        )
    limits = Limits(**setup["limits"])
    if (
        limits.cost is not None
        and price_by_name(setup["model"]["name"]) is None
        and not setup["model"]["free_of_charge"]
    ):
        notes.append(f"the price of {setup['model']['name']} is not known here, so limits.cost is left out")
        limits = replace(limits, cost=None)
    limits = replace(limits, **{change.name: change.value for change in changes if change.kind == "limit"})
    options: dict[str, Any] = {
        "limits": limits,
        "system_prompt": setup["system_prompt"],
        "protocol": setup["protocol"],
        "examples": messages_of(setup["examples"]),
        "require": setup["require"],
        "approve": setup["approve"],
        "name": name,
        **{key: _option(value) for key, value in setup["options"].items()},
    }
    if setup.get("response_format") is not None:
        form = setup["response_format"]
        # As it was shown to the model, to the order of its fields.
        own = read_structure(form["schema"])
        options["response_format"] = RecordedForm(form["name"], form["schema"], own.validate, _judged(phases))
    if setup.get("verify") is not None:
        options["verify"] = StandInModel(model_name=setup["verify"])
    return STRATEGIES[setup["strategy"]](_model(setup["model"]), _tools(setup), **options)  # type: ignore[no-any-return]


def given(graph: Given, phase: Phase) -> Runnable[Any, Any]:
    """The caller's own graph.

    Args:
        graph: A graph or another runnable; or a function that makes it, of nothing or of a model and tools.
        phase: The first call of it, for a model and tools with the recorded names.

    Raises:
        CannotReplayError: It is neither.
    """
    made: Any = graph
    if not isinstance(made, Runnable) and callable(made):
        needed = [
            p
            for p in inspect.signature(made).parameters.values()
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        setup = phase.start.get("setup")
        if not needed:
            made = made()
        elif len(needed) <= 2:
            model = _model(setup["model"]) if isinstance(setup, Mapping) else StandInModel(model_name=_asked(phase))
            tools = _tools(setup) if isinstance(setup, Mapping) else []
            made = made(*(model, tools)[: len(needed)])
    if not isinstance(made, Runnable):
        raise CannotReplayError(
            f"graph={graph!r}: give a graph, or a function that makes it, of nothing or of (model, tools)"
        )
    return made


def prepared(graph: Runnable[Any, Any], saver: Any) -> Runnable[Any, Any]:
    """A graph that is kept in memory, and has none of the callbacks that it was given."""
    if not isinstance(graph, Pregel):
        return graph
    config = {key: value for key, value in (graph.config or {}).items() if key != "callbacks"}
    return graph.copy({"checkpointer": saver, "config": config, "cache": None})


def context_for(graph: Runnable[Any, Any], phase: Phase, changes: Sequence[Change]) -> dict[str, Any] | None:
    """What a run's context sets, as it was, with what is otherwise.

    Raises:
        ValueError: A change is of something that a graph that was given does not let be set.
    """
    wanted = [change for change in changes if change.kind in ("limit", "context")]
    if not isinstance(graph, OwnLimitGraph):
        if wanted:
            raise ValueError(
                f"{wanted[0]}: of a graph that is not taograph's, only observations and replies can change"
            )
        return None
    # The name of a model would be looked up; the recorded one has a stand-in.
    context = {name: value for name, value in (phase.start.get("context") or {}).items() if name != "model"}
    for change in wanted:
        if change.kind == "context" or change.name in _IN_CONTEXT:
            context[change.name] = change.value
        is_other = change.kind == "limit" and getattr(graph.limits, change.name) != change.value
        if is_other and (change.name not in _IN_CONTEXT or change.value is None):
            raise ValueError(f"{change}: the graph that was given has its own; leave graph= out, or change it there")
        if change.kind == "limit" and change.value is None:
            context.pop(change.name, None)
    return context or None


def input_of(phase: Phase, answers: Mapping[str, str]) -> Any:
    """What a call of the graph was given.

    Args:
        phase: The call.
        answers: Ids of the questions of the replay by the recorded ones.
    """
    start = phase.start
    if "resume" in start:
        return Command(resume=_renamed(start["resume"], answers))
    if "given" not in start:
        return None
    inputs = start["given"]
    if isinstance(inputs, Mapping) and isinstance(inputs.get("messages"), list):
        return {**inputs, "messages": messages_of(inputs["messages"])}
    return inputs


def messages_of(made: Sequence[Any]) -> list[AnyMessage]:
    """Messages, from what :func:`~taograph.trace.messages.message_dict` made of them."""
    return [_message(one) if isinstance(one, Mapping) else one for one in made]


def _message(made: Mapping[str, Any]) -> AnyMessage:
    match made["type"]:
        case "ai":
            return message_of(dict(made))
        case "system":
            return SystemMessage(made["content"])
        case "tool":
            return ToolMessage(made["content"], tool_call_id=made["tool_call_id"], status=made["status"])
        case _:
            return HumanMessage(made["content"])


def _renamed(value: Any, answers: Mapping[str, str]) -> Any:
    """Answers under the ids of the replay's questions; a hash of unredacted arguments would fit no redacted ones."""
    if not isinstance(value, Mapping):
        return value
    if value and all(key in answers for key in value):
        return {answers[key]: _plain(answer) for key, answer in value.items()}
    return _plain(value)


def _plain(answer: Any) -> Any:
    return {k: v for k, v in answer.items() if k != "hash"} if isinstance(answer, Mapping) else answer


def _judged(phases: Sequence[Phase]) -> Iterator[Any]:
    replied = False
    for event in (e for phase in phases for e in phase.events if len(e.task) == 1):
        told = event.content
        if event.type in ("model_replied", "model_failed"):
            replied = event.type == "model_replied"
        elif event.type == "retry" and told["reason"] == "structured_output" and replied:
            yield WrongForm(str(told["detail"]))
        elif event.type == "answer" and told.get("structured") is not None:
            yield told["structured"]


def _option(value: Any) -> Any:
    if isinstance(value, Mapping) and set(value) == {"limits"}:
        return Limits(**value["limits"])
    if isinstance(value, Mapping) and set(value) == {"model"}:
        return StandInModel(model_name=value["model"])
    return value


def _model(told: Mapping[str, Any]) -> StandInModel:
    profile: Any = None if told["window"] is None else {"max_input_tokens": told["window"]}
    return StandInModel(
        model_name=told["name"],
        worked_examples=told["worked_examples"],
        free_of_charge=told["free_of_charge"],
        max_tokens=told["reply_tokens"],
        profile=profile,
    )


def _asked(phase: Phase) -> str:
    return next((str(e.content["model"]) for e in phase.events if e.type == "model_asked"), "") or "recorded"


def _tools(setup: Mapping[str, Any]) -> list[BaseTool]:
    return [_tool(tool) for tool in setup["tools"] if tool["name"] != READ_RESULT]  # that is the graph's own


def _tool(told: Mapping[str, Any]) -> BaseTool:
    def refuse(**_: Any) -> str:
        raise NotRecordedError(f"{told['name']} is called outside of the replay", told["name"])

    made = StructuredTool(
        name=told["name"],
        description=told["description"],
        args_schema=dict(told["args"]),
        func=refuse,
        return_direct=told["return_direct"],
    )
    examples = tuple(ToolExample(**example) for example in told.get("examples", ()))
    return with_policy(made, ToolPolicy(**told["policy"], examples=examples))
