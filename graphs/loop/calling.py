"""Which model a run asks, and a call of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from langchain_core.language_models import LLM, BaseChatModel, BaseLLM
from langchain_core.messages import AnyMessage
from langchain_core.runnables import Runnable, RunnableConfig

from taograph.calls import MODEL_THREADS, Call, Cancelled, Steps
from taograph.graphs.loop.agent import Agent, Bound
from taograph.graphs.loop.context import read_context
from taograph.graphs.loop.internals import runtime_of
from taograph.graphs.loop.speaking import speaks_text


def bind(agent: Agent, config: RunnableConfig) -> Steps[Bound]:
    """The model of a run with the tools bound to it.

    Where the run or the environment names it, making it imports a client, looks at files and reads the table of
    prices: that is no work for an event loop.

    Raises:
        ValueError: There is no such model, or none at all.
    """
    chosen = read_context(runtime_of(config).context).get("model")

    def make() -> Bound:
        bound = agent.bound(chosen)
        _ = bound.price  # what it is read from stays in memory
        return bound

    if chosen is None and agent.model is not None:
        return agent.bound(None)
    try:
        return (yield Call(make, None, None, MODEL_THREADS))  # type: ignore[no-any-return]
    except Cancelled:  # the run ends, but it ends with what it has
        return agent.bound(chosen)


def model_call(
    model: Runnable[Any, Any],
    request: Sequence[AnyMessage],
    config: RunnableConfig,
    seconds: float | None,
    arrived: Callable[[Any], Awaitable[None]] | None = None,
) -> Call:
    """A call of a model, with so many seconds; ``arrived`` is as :class:`Call` has it."""
    messages = list(request)
    base: Any = getattr(model, "bound", model)
    base = base.model if speaks_text(base) else base  # what is wrapped is what is called
    options: dict[str, Any] = {}
    is_async = True
    kind: Any = type(base)
    # LangChain runs a sync model's async way in threads that are joined when the loop closes; ours are not.
    if isinstance(base, LLM):
        is_async = kind._acall is not LLM._acall or kind._agenerate is not LLM._agenerate
    elif isinstance(base, BaseLLM):
        is_async = kind._agenerate is not BaseLLM._agenerate
    elif isinstance(base, BaseChatModel):
        is_async = kind._agenerate is not BaseChatModel._agenerate or kind._astream is not BaseChatModel._astream
        if seconds is not None and "root_async_client" in kind.model_fields:  # ChatOpenAI, and what is made of it
            # A thread that was given up ends with its request, not ten minutes later.
            own = getattr(base, "request_timeout", None)
            options["timeout"] = min(seconds + 5.0, own) if isinstance(own, int | float) else seconds + 5.0
    return Call(
        func=lambda: model.invoke(messages, config, **options),
        afunc=(lambda: model.ainvoke(messages, config)) if is_async else None,
        timeout=seconds,
        pool=MODEL_THREADS,
        arrived=arrived,
    )
