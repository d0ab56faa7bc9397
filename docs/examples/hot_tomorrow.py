"""Will it be hot tomorrow? One call of the weather tool, and a judgement on what it returns.

    .venv/bin/python docs/examples/hot_tomorrow.py
    .venv/bin/python docs/examples/hot_tomorrow.py --model local
    .venv/bin/python docs/examples/hot_tomorrow.py --live --model local "Will it be hot tomorrow in Lisbon?"

Without --live the weather is made up (of one fixed day, for Athens and Oslo) and comes from a local service in the
shape of Open-Meteo's. With --live it is Open-Meteo's own, free and without a key for non-commercial use, or that
of the addresses in TAOGRAPH_GEOCODING_URL and TAOGRAPH_FORECAST_URL.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from example import Options, says, seen, serve, show

from taograph import Limits, create_react_graph
from taograph.tools.weather import weather, weather_tool

QUESTION = "Will it be hot tomorrow in Athens?"
PLACES = {38.0: "Athens", 59.9: "Oslo"}  # by their latitudes
HIGHS = {38.0: [34.0, 37.6], 59.9: [19.0, 17.2]}


def judge(messages: Any) -> str:
    """The scripted answer: hot is 30 °C or more."""
    day, high = seen(messages, r"Tomorrow, (\w+) .*?high (-?\d+) °C")
    return f"{'Yes' if int(high) >= 30 else 'No'}: tomorrow, {day}, the high in Athens is {high} °C."


SCRIPT = [says("I need tomorrow's forecast.", "weather", place="Athens", days=1), judge]


def made_up(path: str, asked: dict[str, str]) -> dict[str, Any]:
    """What the service would answer, with made-up weather."""
    if path == "/search":
        found = [(at, place) for at, place in PLACES.items() if place.lower() in asked["name"].lower()]
        return {"results": [{"name": place, "latitude": at, "longitude": 0.0} for at, place in found]}
    highs = HIGHS[float(asked["latitude"])]
    if asked.get("temperature_unit") == "fahrenheit":
        highs = [32 + high * 9 / 5 for high in highs]
    days = slice(int(asked["forecast_days"]))
    daily: dict[str, list[Any]] = {name: [None, None][days] for name in asked["daily"].split(",")}
    daily |= {
        "time": ["2026-07-04", "2026-07-05"][days],
        "temperature_2m_max": highs[days],
        "weather_code": [1, 0][days],
    }
    return {"timezone": "UTC", "current": {"time": "2026-07-04T09:15", "weather_code": 0}, "daily": daily}


def main() -> None:
    """Answer the question."""
    options = Options(__doc__, QUESTION)
    options.add_argument("--live", action="store_true", help="ask for the real weather")
    asked = options.parse_args()
    model = options.model(asked, SCRIPT)
    with ExitStack() as stack:
        tool = weather
        if not asked.live:
            print("The weather: made up, not Open-Meteo's")
            host = stack.enter_context(serve(made_up))
            tool = weather_tool(geocoding_url=f"http://{host}/search", forecast_url=f"http://{host}/forecast")
        graph = create_react_graph(model, [tool], limits=Limits(steps=5), require=["weather"])
        show(graph, {"messages": [("user", asked.question)]}, by=model)


if __name__ == "__main__":
    main()
