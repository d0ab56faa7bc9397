"""What taograph has to know about a tool: its effects, timeout, size, trust, and worked examples.

Any LangChain tool works as it is; :func:`tool` and :func:`with_policy` say more about one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, overload

from langchain_core.tools import BaseTool, ToolException
from langchain_core.tools import tool as langchain_tool

T = TypeVar("T")
Effects = Literal["none", "idempotent", "once"]
OnUnknown = Literal["ask", "tell"]
_KEY = "taograph_policy"


class ToolError(ToolException):
    """A failure whose text is meant for the model: say what to change.

    Raise it in a tool. Every other exception reaches the model as its type only, because the text of
    an unexpected exception may hold a secret.
    """


@dataclass(frozen=True, slots=True)
class ToolExample:
    """One worked use of a tool, shown to small models as real turns (question, call, result, answer).

    Attributes:
        question: What a person asked.
        args: The arguments of the call.
        observation: What the tool returned for them.
        answer: The answer given from it.
    """

    question: str
    args: Mapping[str, Any]
    observation: str
    answer: str


@dataclass(frozen=True, slots=True)
class ToolPolicy:
    """How calls of one tool are treated.

    Attributes:
        effects: ``"none"``: reading only; ``"idempotent"``: doing it twice is doing it once;
            ``"once"``: it must not be repeated (the default: the safe reading of an unknown tool).
        timeout: Seconds one call may take once it has begun; None for no limit but the run's own.
        max_chars: Characters of an observation the model is shown at once. The rest is kept and can be
            read with ``read_result``. None where the tool bounds its own output.
        on_unknown: What becomes of a call with effects ``"once"`` that a crash interrupted, so that nobody knows
            whether it took effect: ``"ask"`` a person, or ``"tell"`` the model that its outcome is unknown.
        approve: Whether a person must approve each call.
        trusted: False frames the observation as data from outside, never as instructions.
        examples: Worked uses, for models that need them.
        redact: Takes out of a result what must not reach the model, such as ``Redactor().text`` of
            :mod:`taograph.trace.redaction`, before it is shown, stored or traced. Pictures and artifacts stay as they
            are. Where it fails, the result is withheld.
    """

    effects: Effects = "once"
    timeout: float | None = 60.0
    max_chars: int | None = 8000
    approve: bool = False
    trusted: bool = True
    examples: tuple[ToolExample, ...] = field(default=())
    on_unknown: OnUnknown = "ask"
    redact: Callable[[str], str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.effects not in ("none", "idempotent", "once"):
            raise ValueError(f'effects={self.effects!r}: use "none", "idempotent" or "once"')
        if self.on_unknown not in ("ask", "tell"):
            raise ValueError(f'on_unknown={self.on_unknown!r}: use "ask" or "tell"')
        if self.redact is not None and not callable(self.redact):
            raise TypeError(f"redact={self.redact!r}: give a function of a text, such as Redactor().text, or None")
        if self.timeout is not None and not self.timeout > 0:
            raise ValueError(f"timeout={self.timeout!r}: give seconds above 0, or None for no limit")
        if self.max_chars is not None and self.max_chars < 200:
            raise ValueError(f"max_chars={self.max_chars!r}: give at least 200 characters, or None")


DEFAULT_POLICY = ToolPolicy()


def policy_of(tool: BaseTool) -> ToolPolicy:
    """The policy a tool carries, or the default one."""
    found = (tool.metadata or {}).get(_KEY)
    return found if isinstance(found, ToolPolicy) else DEFAULT_POLICY


def with_policy(tool: BaseTool, policy: ToolPolicy) -> BaseTool:
    """A copy of a tool that is not ours, with a policy.

    Args:
        tool: Any LangChain tool.
        policy: How its calls are treated.
    """
    return tool.model_copy(update={"metadata": {**(tool.metadata or {}), _KEY: policy}})


def with_redaction(tools: Sequence[BaseTool | Callable[..., Any]], redact: Callable[[str], str]) -> list[BaseTool]:
    """Tools whose results go through a function before a model sees them.

    Args:
        tools: Any tools.
        redact: As in :class:`ToolPolicy`.
    """
    made = [as_tool(one) for one in tools]
    return [with_policy(one, replace(policy_of(one), redact=redact)) for one in made]


def as_tool(source: BaseTool | Callable[..., Any]) -> BaseTool:
    """A LangChain tool from a tool or a function.

    Arguments and their descriptions come from the signature and a Google-style docstring.

    Raises:
        ValueError: No description, or an argument schema that cannot be made; the message says the fix.
        TypeError: Neither a tool nor a callable.
    """
    if isinstance(source, BaseTool):
        made = source
    elif callable(source):
        name = getattr(source, "__name__", type(source).__name__)
        if not (inspect.getdoc(source) or "").strip():
            raise ValueError(
                f"tool {name!r} has no description, so no model can know when to call it: give the function a docstring"
            )
        made = _schema_or_fault(
            name, lambda: langchain_tool(parse_docstring=True, error_on_invalid_docstring=False)(source)
        )
    else:
        raise TypeError(f"{source!r} is not a tool: give a function, a LangChain tool or an MCP tool")
    if not (made.description or "").strip():
        raise ValueError(
            f"tool {made.name!r} has no description, so no model can know when to call it: "
            "set description=, or give the function a docstring"
        )
    _schema_or_fault(made.name, lambda: made.args)
    return made


def _schema_or_fault(name: str, make: Callable[[], T]) -> T:
    try:
        return make()
    except Exception as error:
        raise ValueError(
            f"tool {name!r}: no argument schema can be made from its signature ({error}). "
            "Annotate every argument with a JSON-able type"
        ) from error


@overload
def tool(function: Callable[..., Any], /) -> BaseTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    effects: Effects = "once",
    timeout: float | None = 60.0,
    max_chars: int | None = 8000,
    approve: bool = False,
    trusted: bool = True,
    examples: tuple[ToolExample, ...] = (),
    on_unknown: OnUnknown = "ask",
    redact: Callable[[str], str] | None = None,
) -> Callable[[Callable[..., Any]], BaseTool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str | None = None,
    **policy: Any,
) -> BaseTool | Callable[[Callable[..., Any]], BaseTool]:
    """Make a tool of a function, sync or async, with its policy.

    Args:
        function: The function, when used as a bare decorator.
        name: The name the model calls it by; the function's own when absent.
        **policy: The fields of :class:`ToolPolicy`.

    Raises:
        ValueError: As :func:`as_tool` and :class:`ToolPolicy`.
    """

    def make(function: Callable[..., Any]) -> BaseTool:
        made = with_policy(as_tool(function), ToolPolicy(**policy))
        return made.model_copy(update={"name": name}) if name else made

    return make(function) if function is not None else make
