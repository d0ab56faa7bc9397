"""How a model is asked for its steps: by native function calls, or in the text protocol.

With ``protocol="auto"`` it is native where the model calls functions. Text is chosen where the model itself says that
it does not (it has no ``bind_tools``, or its profile says so, or it is wrapped in ``TextReAct``), and where its
endpoint refuses tools, which shows at the first call: the loop then goes on in text, within the same turn.
"""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.language_models import BaseChatModel, BaseLLM

from taograph.models.resolving import safe_across_loops

Protocol = Literal["auto", "native", "text"]
Spoken = Literal["native", "text"]


def speaks_text(model: Any) -> bool:
    """Whether a model is wrapped for the text protocol already."""
    return getattr(model, "_llm_type", "") == "text-react"


def declared(model: BaseChatModel, protocol: Protocol) -> tuple[Spoken, str]:
    """How a model is to be asked, and why, in words for the trace."""
    if speaks_text(model):
        return "text", "the model is wrapped in TextReAct"
    if protocol != "auto":
        return protocol, f'protocol="{protocol}"'
    if type(model).bind_tools is BaseChatModel.bind_tools:
        return "text", "the model's class has no bind_tools"
    if (getattr(model, "profile", None) or {}).get("tool_calling") is False:
        return "text", "the model's profile says that it calls no functions"
    return "native", "the model's class has bind_tools"


def in_text(model: BaseChatModel | BaseLLM, *, thoughts: bool = True) -> BaseChatModel:
    """A model as the loop asks it in the text protocol: a broken step is returned, for the loop to count.

    Args:
        model: The model, wrapped already or not.
        thoughts: Whether it is asked for thoughts.
    """
    from taograph.models.text_react import TextReAct

    wrapped = model if isinstance(model, TextReAct) else TextReAct(model)
    inner = wrapped.model
    safe = safe_across_loops(inner) if isinstance(inner, BaseChatModel) else inner
    own = {} if thoughts else {"thoughts": False}
    return wrapped.model_copy(update={"on_malformed": "return", "model": safe, **own})
