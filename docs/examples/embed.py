"""Embedding: the loop as a node of a larger LangGraph graph, whose state is its own, with its events streamed.

    .venv/bin/python docs/examples/embed.py
    .venv/bin/python docs/examples/embed.py --model local

The larger graph writes a letter about an order. One of its nodes puts a question to the loop and takes the answer
and the stop reason into the order's state. A graph whose state has `messages` takes the loop as a node as it is:
`add_node("agent", create_react_graph(…))`.
"""

from __future__ import annotations

from example import Options, says, seen, show
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict

from taograph import Limits, create_react_graph
from taograph.tools.calculator import calculator

QUESTION = "What is 17% of 2340?"
SCRIPT = [
    says("I work it out.", "calculator", expression="17% of 2340"),
    lambda messages: "17% of 2340 is {}.".format(*seen(messages, r"([\d.]+)$")),
]


class Order(TypedDict, total=False):
    """The larger graph's state: nothing in it is the loop's."""

    customer: str
    question: str
    finding: str
    certain: bool
    letter: str


def main() -> None:
    """Build the larger graph, run it, and show its events and its final state."""
    options = Options(__doc__, QUESTION)
    asked = options.parse_args()
    model = options.model(asked, SCRIPT)
    loop = create_react_graph(model, [calculator], limits=Limits(steps=5), name="discount")

    def work_out(state: Order, config: RunnableConfig) -> Order:
        # The config carries the larger graph's stream, checkpoints and traces into the loop.
        result = loop.invoke({"messages": [("user", state["question"])]}, config)
        return {"finding": result["answer"], "certain": result["stop"]["reason"] == "final"}

    def write(state: Order) -> Order:
        note = "" if state["certain"] else " (to be checked by a person)"
        return {"letter": f"Dear {state['customer']}, about your discount: {state['finding']}{note}"}

    graph = (
        StateGraph(Order)
        .add_node("work_out", work_out)
        .add_node("write", write)
        .add_edge(START, "work_out")
        .add_edge("work_out", "write")
        .compile(checkpointer=InMemorySaver())
    )
    config: RunnableConfig = {"configurable": {"thread_id": "order 7"}}
    show(graph, {"customer": "Ms. Sample", "question": asked.question}, config, by=model)
    print("Letter:", graph.get_state(config).values["letter"])


if __name__ == "__main__":
    main()
