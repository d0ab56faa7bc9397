"""Azure's endpoints; apart, since who asks no Azure need not load what is theirs."""

from __future__ import annotations

from typing import Self

from langchain_openai.chat_models.azure import AzureChatOpenAI
from pydantic import PrivateAttr, model_validator

from taograph.models.encoding import EncodesOnce
from taograph.models.endpoint import with_ready_clients
from taograph.models.wire import WireForms


class AzureEndpoint(EncodesOnce, AzureChatOpenAI):
    """``AzureChatOpenAI`` that encodes each message once."""

    _wire: WireForms = PrivateAttr(default_factory=WireForms)

    @model_validator(mode="after")
    def _take_ready_clients(self) -> Self:
        return with_ready_clients(self)

    @classmethod
    def is_lc_serializable(cls) -> bool:
        """Not: LangChain would look for the class among its own."""
        return False
