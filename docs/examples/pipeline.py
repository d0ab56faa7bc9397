"""A larger pipeline of three strategies, each a node, over a state of its own.

    .venv/bin/python docs/examples/pipeline.py
    .venv/bin/python docs/examples/pipeline.py --model local

A shop answers a customer who asks what comes back for a return. ``gather`` plans its calls at once and makes them
(rewoo); ``check`` lets samples vote on whether the finding answers the question (self_consistency); only where too few
say yes does ``repair`` take the loop, step by step (react). The state is the shop's: nothing in it belongs to a
strategy, and each node says what it asks and what it keeps of the result.
"""

from __future__ import annotations

import operator
from typing import Annotated

from example import Options, says, show
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from taograph import Limits, create_react_graph, tool
from taograph.graphs.rewoo import create_rewoo_graph
from taograph.graphs.self_consistency import create_self_consistency_graph
from taograph.models import call
from taograph.tools.calculator import calculator

QUESTION = "I return order 7. What do I get back?"
ORDERS = {"7": "order 7: 3 lamps at 19.90 each, paid 59.70, delivered 12 days ago"}
RULES = "Returns within 14 days: the price, less 4.50 for the label. Later: a voucher of half the price."
ENOUGH = 0.6


@tool(effects="none")
def find_order(number: str) -> str:
    """Find an order.

    Args:
        number: The number of the order, such as 7.
    """
    return ORDERS.get(number, f"there is no order {number}")


@tool(effects="none")
def read_rules(topic: str) -> str:
    """Read the shop's rules.

    Args:
        topic: What about, such as returns.
    """
    return RULES


class Return(TypedDict, total=False):
    """The shop's state."""

    question: str
    finding: str
    agreed: float
    dollars: Annotated[float, operator.add]
    letter: str


def main() -> None:
    """Build the pipeline, run it, and show its events and its final state."""
    options = Options(__doc__, QUESTION)
    asked = options.parse_args()
    model = options.model(asked, SCRIPT)
    tools = [find_order, read_rules, calculator]
    gather_graph = create_rewoo_graph(model, tools, limits=Limits(seconds=120))
    vote_graph = create_self_consistency_graph(model, samples=5)
    loop = create_react_graph(model, tools, limits=Limits(steps=8))

    def gather(state: Return, config: RunnableConfig) -> Return:
        result = gather_graph.invoke({"messages": [("user", state["question"])]}, config)
        return {"finding": result["answer"], "dollars": result["spent"]["cost"]}

    def check(state: Return, config: RunnableConfig) -> Return:
        put = "A customer asks: {question}\nThe shop would say: {finding}\nDoes that say how much it is? yes or no"
        result = vote_graph.invoke({"messages": [("user", put.format(**state))]}, config)
        agreed = next((one["count"] for one in result["votes"]["table"] if one["answer"].lower().startswith("yes")), 0)
        return {"agreed": agreed / max(result["votes"]["of"], 1), "dollars": result["spent"]["cost"]}

    def repair(state: Return, config: RunnableConfig) -> Return:
        result = loop.invoke({"messages": [("user", state["question"])]}, config)
        return {"finding": result["answer"], "dollars": result["spent"]["cost"]}

    def enough(state: Return) -> str:
        return "write" if state["agreed"] >= ENOUGH else "repair"

    def write(state: Return) -> Return:
        return {"letter": f"Thank you for your question. {state['finding']}"}

    graph = (
        StateGraph(Return)
        .add_node("gather", gather)
        .add_node("check", check)
        .add_node("repair", repair)
        .add_node("write", write)
        .add_edge(START, "gather")
        .add_edge("gather", "check")
        .add_conditional_edges("check", enough, ["write", "repair"])
        .add_edge("repair", "write")
        .add_edge("write", END)
        .compile(checkpointer=InMemorySaver())
    )
    config: RunnableConfig = {"configurable": {"thread_id": "return 7"}}
    show(graph, {"question": asked.question}, config, by=model)
    state = graph.get_state(config).values
    print(f"Agreed: {state['agreed']:.0%}\nLetter: {state['letter']}\nCost: ${state['dollars']:.2f}")


PLAN = [
    {"plan": "Find out what was paid and when it came.", "id": "#E1", "tool": "find_order", "args": {"number": "7"}},
    {"plan": "Find out what comes back.", "id": "#E2", "tool": "read_rules", "args": {"topic": "return of #E1"}},
]
SCRIPT = [
    AIMessage("", tool_calls=[call("make_plan", {"steps": PLAN})]),
    "Thought: 12 days is within 14.\nFinal Answer: You get the price back, less 4.50 for the label.",
    *["Thought: It gives no sum.\nFinal Answer: no"] * 3,
    says("I need what was paid.", "find_order", number="7"),
    says("59.70 was paid 12 days ago; I need the rules.", "read_rules", topic="returns"),
    says("The price less 4.50.", "calculator", expression="59.70 - 4.50"),
    lambda messages: f"You get {str(messages[-1].text).split('=')[-1].strip()} back.",
]


if __name__ == "__main__":
    main()
