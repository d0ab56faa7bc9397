"""LangChain's standard tests for chat models, over a chat model and over a completion model."""

from __future__ import annotations

from langchain_core.language_models import BaseChatModel, FakeListLLM
from langchain_tests.unit_tests import ChatModelUnitTests

from taograph.models import ScriptedModel, TextReAct


class Standard(ChatModelUnitTests):
    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return TextReAct


class TestOverAChatModel(Standard):
    @property
    def chat_model_params(self) -> dict[str, object]:
        return {"model": ScriptedModel(replies=["Final Answer: yes"], repeat=True)}


class TestOverACompletionModel(Standard):
    @property
    def chat_model_params(self) -> dict[str, object]:
        return {"model": FakeListLLM(responses=["Final Answer: yes"])}
