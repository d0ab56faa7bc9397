"""What a run keeps of its messages from turn to turn is what a look at all of them finds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.messages.tool import invalid_tool_call
from langgraph.runtime import RunControl, Runtime, get_runtime
from langgraph.types import Overwrite
from message_writes import Write, merges, overwrites, written
from support import Way, asks, both_ways, question, run

from taograph import Limits, create_react_graph, tool
from taograph.graphs.loop.channels import MessagesChannel, merged
from taograph.graphs.loop.history import History, keep_history, taken_history
from taograph.graphs.loop.internals import Control
from taograph.graphs.loop.repair import is_sound, repair
from taograph.graphs.loop.trajectory import asked, feedback, read_trajectory, user_turn
from taograph.graphs.loop.window import COMPOSED
from taograph.models import ScriptedModel, call

TOOLS = ["lookup", "odd name"]
_ids = st.sampled_from(["a", "b", "c", "d"])
_texts = st.sampled_from(["", "one", "two"])
_calls = st.builds(
    lambda name, args, id: {"name": name, "args": args, "id": id, "type": "tool_call"},
    st.sampled_from(["lookup", "odd name", "no tool", ""]),
    st.dictionaries(st.sampled_from("ab"), st.integers(0, 1), max_size=1),
    st.one_of(st.none(), _ids),
)
_replies = st.builds(
    lambda text, calls, broken, composed, cut: AIMessage(
        text,
        tool_calls=calls,
        invalid_tool_calls=[invalid_tool_call(name="lookup", args="{", id="e", error="broken")] * broken,
        additional_kwargs={COMPOSED: "why"} if composed else {},
        response_metadata={"truncated": True} if cut else {},
    ),
    _texts,
    st.lists(_calls, max_size=3),
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([False, False, True]),
    st.booleans(),
)
_results = st.builds(
    lambda text, id, status: ToolMessage(text, tool_call_id=id, name="lookup", status=status),
    _texts,
    _ids,
    st.sampled_from(["success", "error"]),
)
_messages: st.SearchStrategy[AnyMessage] = st.one_of(
    _texts.map(HumanMessage),
    st.just("Try once more.").map(lambda text: feedback(text, "hint")),
    _replies,
    _replies,
    _replies,
    _results,
    _results,
    _results,
    _texts.map(SystemMessage),
)
_some = st.lists(_messages, max_size=4)


class Turns(RuleBasedStateMachine):
    """Between two turns anything may become of the messages."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[AnyMessage] = []
        self.kept = History(TOOLS)

    def _place(self, data: st.DataObject) -> int | None:
        return data.draw(st.integers(0, len(self.messages) - 1)) if self.messages else None

    @rule(new=_some)
    def goes_on(self, new: list[AnyMessage]) -> None:
        self.messages = [*self.messages, *new]

    @rule(text=_texts, data=st.data())
    def acts_soundly(self, text: str, data: st.DataObject) -> None:
        id = f"call {len(self.messages)}"
        calls: Any = [{"name": "lookup", "args": {"a": data.draw(st.integers(0, 1))}, "id": id, "type": "tool_call"}]
        self.messages = [*self.messages, AIMessage(text, tool_calls=calls), ToolMessage("seen", tool_call_id=id)]

    @rule(data=st.data())
    def loses_its_end(self, data: st.DataObject) -> None:
        self.messages = self.messages[: data.draw(st.integers(0, len(self.messages)))]

    @rule(data=st.data(), new=_messages, instead=st.booleans())
    def is_edited(self, data: st.DataObject, new: AnyMessage, instead: bool) -> None:
        place = data.draw(st.integers(0, len(self.messages)))
        self.messages = [*self.messages[:place], new, *self.messages[place + instead :]]

    @rule(data=st.data())
    def is_edited_in_the_same_list(self, data: st.DataObject) -> None:
        if (place := self._place(data)) is not None:
            self.messages[place] = data.draw(_messages)

    @rule(data=st.data(), text=st.sampled_from(["", "three"]))
    def is_given_another_content(self, data: st.DataObject, text: str) -> None:
        if (place := self._place(data)) is not None:
            self.messages[place].content = text

    @rule(data=st.data())
    def loses_a_call(self, data: st.DataObject) -> None:
        place = self._place(data)
        message = None if place is None else self.messages[place]
        if isinstance(message, AIMessage) and message.tool_calls:
            message.tool_calls.pop()

    @rule()
    def is_read_back(self) -> None:
        self.messages = [message.model_copy() for message in self.messages]

    @rule()
    def is_made_acceptable(self) -> None:
        self.kept.read(self.messages)
        if not self.kept.sound:
            self.messages = repair(self.messages, TOOLS)

    @rule()
    def is_doubled(self) -> None:
        self.messages = [*self.messages, *self.messages][:40]

    @rule()
    def is_read_twice(self) -> None:
        self.kept.read(self.messages[:-1])

    @rule(last=st.integers(1, 9))
    def is_looked_at(self, last: int) -> None:
        self.kept.read(self.messages)
        self._same_steps(last)

    def _same_steps(self, last: int) -> None:
        found = read_trajectory(self.messages, last=last, thoughts=False)
        assert self.kept.trajectory(last).steps == found.steps
        assert [s.signature for s in self.kept.trajectory(last).steps] == [s.signature for s in found.steps]

    @invariant()
    def what_is_kept_is_what_is_found(self) -> None:
        self.kept.read(self.messages)
        turn = user_turn(self.messages)
        assert self.kept.turn == turn
        assert self.kept.question == ("" if turn is None else asked(self.messages[turn]))
        assert self.kept.trajectory(3).question == self.kept.question
        assert self.kept.sound == is_sound(self.messages, TOOLS)
        told = [m for m in self.messages if isinstance(m, AIMessage)]
        assert self.kept.call_ids == {c["id"] or "" for m in told for c in m.tool_calls}
        assert self.kept.composed == any(COMPOSED in m.additional_kwargs for m in self.messages)
        self._same_steps(3)


class Updates(RuleBasedStateMachine):
    """A channel is what its writes make of nothing, whoever has held its list meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.channel = MessagesChannel(snapshot_frequency=2).from_checkpoint(None)
        self.wanted: list[AnyMessage] = []

    @rule(writes=st.lists(st.one_of(merges, merges, overwrites), max_size=3))
    def is_written_to(self, writes: Sequence[Write]) -> None:
        values, again = [written(write) for write in writes], [written(write) for write in writes]
        over = [value for value in values if isinstance(value, Overwrite)]
        try:
            self.channel.update(values)
        except Exception as error:
            refused: Exception | None = error
        else:
            refused = None
        if over and (refused is None or len(over) == 1):
            given = next(value for value in again if isinstance(value, Overwrite))
            try:
                merged(self.wanted, again[: again.index(given)])
            except ValueError:
                assert isinstance(refused, ValueError)
            else:
                assert refused is None
                self.wanted = merged(given.value or (), ())
        elif over:
            assert refused is not None
        else:
            try:
                self.wanted = merged(self.wanted, again)
            except ValueError:
                assert isinstance(refused, ValueError)
            else:
                assert refused is None

    @rule()
    def is_copied(self) -> None:
        before, self.channel = self.channel, self.channel.copy()
        before.update([[HumanMessage("of the other one", id="a")]])

    @rule()
    def is_stored_and_read(self) -> None:
        self.channel = MessagesChannel(snapshot_frequency=2).from_checkpoint(list(self.channel.get()))

    @rule(data=st.data(), id=st.sampled_from(["a", "e", "f"]))
    def is_changed_by_who_was_given_it(self, data: st.DataObject, id: str) -> None:
        if self.wanted:
            place = data.draw(st.integers(0, len(self.wanted) - 1))
            self.channel.get()[place] = self.wanted[place] = HumanMessage("put in", id=id)

    @rule()
    def loses_the_last(self) -> None:
        if self.wanted:
            self.channel.get().pop()
            self.wanted = self.wanted[:-1]

    @invariant()
    def it_holds_what_was_written(self) -> None:
        assert [(m.type, m.id, m.content) for m in self.channel.get()] == [
            (m.type, m.id, m.content) for m in self.wanted
        ]


Turns.TestCase.settings = settings(max_examples=120, stateful_step_count=12, deadline=None)
Updates.TestCase.settings = settings(max_examples=120, stateful_step_count=10, deadline=None)
TestTurns = Turns.TestCase
TestUpdates = Updates.TestCase


def config(control: RunControl | None) -> Any:
    return {"configurable": {"__pregel_runtime": Runtime(control=control)}}


def test_what_is_kept_is_of_one_run_and_one_set_of_tools() -> None:
    """Another graph that goes on with a run of the same invocation has other tools."""
    control, kept = Control(), History(TOOLS)
    at = config(control)
    keep_history(at, "run", kept)
    for where, other, tools in (
        (at, "other", TOOLS),
        (at, None, TOOLS),
        (config(Control()), "run", TOOLS),
        (config(RunControl()), "run", TOOLS),
        (config(None), "run", TOOLS),
    ):
        assert taken_history(where, other, tools) is not kept
    assert taken_history(at, "run", [*reversed(TOOLS)]) is kept
    assert taken_history(at, "run", TOOLS) is not kept, "no other node has it meanwhile"
    keep_history(at, "run", kept)
    assert taken_history(at, "run", ["lookup"]) is not kept


@both_ways
@pytest.mark.parametrize("ends", ["final", "step_limit"])
def test_nothing_is_kept_of_a_run_that_has_ended(way: Way, ends: str) -> None:
    """A graph around it may run many in one invocation."""
    found: list[Control] = []

    @tool(effects="none")
    def look(name: str) -> str:
        """Look.

        Args:
            name: At what.
        """
        control = get_runtime().control
        assert isinstance(control, Control)
        found.append(control)
        assert len(control.kept) == 1, "from turn to turn it is"
        return name

    replies = [asks(call("look", {"name": "one"})), asks(call("look", {"name": "two"})), "done"]
    graph = create_react_graph(ScriptedModel(replies=replies), [look], limits=Limits(steps=2 if ends != "final" else 5))
    assert run(way, graph, question())["stop"]["reason"] == ends
    assert [len(control.kept) for control in found] == [0, 0]
