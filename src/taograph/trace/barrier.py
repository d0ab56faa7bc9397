"""Holding a call back until everything before it is written: what is paid for is in the record."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler

from taograph.trace.places import model_of
from taograph.trace.recording import Recorder
from taograph.trace.writing import TraceError


class Barrier(BaseCallbackHandler):
    """Holds a call of a model or a tool back until everything before it is written.

    It waits in a thread under ``ainvoke``; so it is a handler of its own, beside the one that must not.

    Args:
        recorder: The handler.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._writer = recorder.writer
        self.raise_error = recorder.raise_error

    @property
    def ignore_chain(self) -> bool:
        """Nothing is paid there; but where the record must not miss anything, the end of a run waits for it, too."""
        return not self.raise_error

    @property
    def ignore_retry(self) -> bool:
        """Nothing is paid there."""
        return True

    @property
    def ignore_custom_event(self) -> bool:
        """Likewise."""
        return True

    def on_chat_model_start(self, *args: Any, run_id: UUID, **kwargs: Any) -> None:
        """A chat model is to be asked."""
        self._recorder.learn_price(model_of(kwargs))
        self._hold(run_id)

    def on_llm_start(self, *args: Any, run_id: UUID, **kwargs: Any) -> None:
        """A completion model is to be asked."""
        self._recorder.learn_price(model_of(kwargs))
        self._hold(run_id)

    def on_tool_start(self, *args: Any, run_id: UUID, **kwargs: Any) -> None:
        """A tool is to be called."""
        self._hold(run_id)

    def on_chain_end(self, *args: Any, run_id: UUID, **kwargs: Any) -> None:
        """A run ended: what it returns is on the record, or not returned."""
        if str(run_id) in self._recorder.ended:
            self._recorder.ended.discard(str(run_id))
            self._writer.flush(str(run_id))

    def _hold(self, run_id: UUID) -> None:
        try:
            self._writer.flush(self._recorder.trace_of(run_id))
        except TraceError:
            self._recorder.forget(run_id)  # it does not begin, so nobody says that it ends
            raise
