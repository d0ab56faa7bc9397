"""Chat models that encode each message of a conversation once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun
from langchain_core.language_models import LanguageModelInput
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult

from taograph.models.wire import UNENCODABLE, EncodedMessages, WireForms, copied

# It is none itself: the fields of a model that goes before another would take the place of that one's own.
if TYPE_CHECKING:
    from langchain_openai.chat_models.base import BaseChatOpenAI as _Model
else:
    _Model = object


class EncodesOnce(_Model):
    """What ``ChatOpenAI`` and its like send, with each message converted and encoded once.

    It goes before the class that it is for: ``class ChatEndpoint(EncodesOnce, ChatOpenAI)``. What a message's wire
    form is, is that class's to say; here the forms are kept, see :class:`~taograph.models.wire.WireForms`, and sent as
    they are, see :class:`~taograph.models.completions.ReadyCompletions`. The class has the attribute below as a
    private one, and takes its clients with :func:`~taograph.models.completions.ready_clients`.
    """

    _wire: WireForms

    def _get_request_payload(
        self, input_: LanguageModelInput, *, stop: list[str] | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        # What of a list is no message yet becomes one below, one for one.
        messages: list[Any] = input_ if type(input_) is list else self._convert_input(input_).to_messages()
        pieces = self._wire.of(messages, self.model_name)
        new = [(at, messages[at], copied(messages[at])) for at, piece in enumerate(pieces) if not piece]
        payload: dict[str, Any] = super()._get_request_payload([message for _, message, _ in new], stop=stop, **kwargs)
        # Other requests make more of a message than its wire form.
        if "messages" in payload and "response_format" not in payload:
            try:
                for (at, message, copy), form in zip(new, payload["messages"], strict=True):
                    pieces[at] = self._wire.keep(message, self.model_name, copy, form)
            except UNENCODABLE:
                pass  # the package says what is wrong with it
            else:
                return {**payload, "messages": EncodedMessages(pieces)}
        return super()._get_request_payload(messages, stop=stop, **kwargs)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        payload = self._get_request_payload(messages, stop=stop, **kwargs)
        asked = self.model_copy()
        vars(asked)["_get_request_payload"] = lambda *_args, **_kwargs: payload  # made once, whoever overrides it
        if not isinstance(payload.get("messages"), EncodedMessages):
            return await super(EncodesOnce, asked)._agenerate(messages, stop, run_manager, **kwargs)
        # LangChain reads an awaited reply in a thread of the loop's executor, which takes longer than the reading,
        # and waits where those threads are all taken. What it does with a reply that is there already needs none.
        asked.client = answer = _Answer()
        try:
            answer.reply = await self.async_client.with_raw_response.create(**payload)
        except Exception as error:  # noqa: BLE001 - it is raised where LangChain looks for it
            answer.error = error
        return super(EncodesOnce, asked)._generate(messages, stop, None, **kwargs)


class _Answer:
    """A sync client whose one reply, or the error in its place, is there already."""

    reply: Any = None
    error: Exception | None = None

    @property
    def with_raw_response(self) -> _Answer:
        return self

    def create(self, **_asked: Any) -> Any:
        error, self.error = self.error, None
        if error is None:
            return self.reply
        try:
            raise error
        finally:
            del error  # or it would keep itself, and the request, alive
