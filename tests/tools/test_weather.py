"""The weather tool, against a local service that answers in Open-Meteo's shape."""

import time
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from fake_service import CIRCLE, HTML, SILENCE, Answer, Service
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool

from taograph import create_react_graph
from taograph.models import ScriptedModel, call
from taograph.tools.engines.open_meteo import Place
from taograph.tools.policy import ToolError, policy_of
from taograph.tools.weather import _WORDS, weather, weather_tool

# As the geocoding service gives them: name, region, country, its code, latitude, longitude, people.
PLACES = [
    ("Seville", "Andalusia", "Spain", "ES", 37.38, -5.97, 684_234),
    ("Paris", "Île-de-France", "France", "FR", 48.85, 2.35, 2_138_551),
    ("Paris", "Texas", "United States", "US", 33.66, -95.56, 24_782),
    ("Springfield", "Missouri", "United States", "US", 37.22, -93.30, 166_810),
    ("Springfield", "Massachusetts", "United States", "US", 42.10, -72.59, 154_341),
    ("Springfield", "Illinois", "United States", "US", 39.80, -89.64, 116_565),
    ("Springfield", "Illinois", "United States", "US", 39.90, -88.10, None),
    ("Springfield Gardens", "New York", "United States", "US", 40.66, -73.77, 900_000),
    ("Munich", "Bavaria", "Germany", "DE", 48.14, 11.58, 1_260_391),
    ("Perth", "Western Australia", "Australia", "AU", -31.95, 115.86, 1_896_548),
    ("Perth", "Scotland", "United Kingdom", "GB", 56.40, -3.43, 47_350),
    ("Little Hope", "Wisconsin", "United States", "US", 44.3, -89.1, None),
    ("Little Hope", "Texas", "United States", "US", 32.8, -95.5, None),
]
OTHER_NAMES = {"münchen": "munich", "muenchen": "munich"}
TODAY = date(2026, 7, 4)


class OpenMeteo:
    """Answers both addresses; what it holds may be changed."""

    def __init__(self) -> None:
        self.narrows = True
        self.missing: set[str] = set()
        self.current: dict[str, Any] = {
            "time": "2026-07-04T09:15",
            "interval": 900,
            "temperature_2m": 24.6,
            "apparent_temperature": 25.1,
            "relative_humidity_2m": 48,
            "weather_code": 0,
            "wind_speed_10m": 7.2,
        }
        self.highs = [36.2, 38.7]

    def __call__(self, ask: dict[str, str]) -> dict[str, Any]:
        return self._places(ask) if "name" in ask else self._weather(ask)

    def _places(self, ask: dict[str, str]) -> dict[str, Any]:
        assert (ask["language"], ask["format"]) == ("en", "json")
        name, *regions = [part.strip().casefold() for part in ask["name"].split(",")]
        name = OTHER_NAMES.get(name, name)
        if regions and not self.narrows:
            return {"generationtime_ms": 0.1}
        found = [
            {"id": number, "name": place[0], "admin1": place[1], "country": place[2], "country_code": place[3],
             "latitude": place[4], "longitude": place[5], "feature_code": "PPL", "timezone": "x",
             **({"population": place[6]} if place[6] else {})}
            for number, place in enumerate(PLACES)
            if place[0].casefold().startswith(name)
            and all(region in (place[1].casefold(), place[2].casefold()) for region in regions)
        ]  # fmt: skip
        return {"results": found[: int(ask["count"])], "generationtime_ms": 0.1} if found else {"generationtime_ms": 1}

    def _weather(self, ask: dict[str, str]) -> dict[str, Any]:
        assert ask["timezone"] == "auto"
        count = int(ask["forecast_days"])
        daily: dict[str, list[Any]] = {
            "time": [(TODAY + timedelta(days=number)).isoformat() for number in range(count)],
            "weather_code": [1, 0, *[61] * 14][:count],
            "temperature_2m_max": [*self.highs, *[30.0] * 14][:count],
            "temperature_2m_min": [20.6, 22.1, *[19.0] * 14][:count],
            "precipitation_sum": [0.0, 0.0, *[1.2] * 14][:count],
            "precipitation_probability_max": [0, 1, *[None] * 14][:count],
            "wind_speed_10m_max": [18.0, 15.3, *[20.0] * 14][:count],
        }
        current = {name: value for name, value in self.current.items() if name not in self.missing}
        asked = {"time", "interval", *ask["current"].split(",")}
        return {
            "latitude": float(ask["latitude"]),
            "longitude": float(ask["longitude"]),
            "utc_offset_seconds": 7200,
            "timezone": "Europe/Madrid",
            "current": {name: value for name, value in current.items() if name in asked},
            "daily": {name: daily[name] for name in ["time", *ask["daily"].split(",")]},
        }


@pytest.fixture
def meteo() -> OpenMeteo:
    return OpenMeteo()


@pytest.fixture
def service(meteo: OpenMeteo) -> Iterator[Service]:
    with Service(meteo) as running:
        yield running


@pytest.fixture
def tool(service: Service) -> BaseTool:
    return weather_tool(geocoding_url=f"{service.url}/search", forecast_url=f"{service.url}/forecast", timeout=3)


def ask(tool: BaseTool, place: str, **more: Any) -> str:
    said = tool.invoke({"place": place, **more})
    assert isinstance(said, str)
    return said


def test_its_example_is_what_it_returns(tool: BaseTool) -> None:
    (example,) = policy_of(tool).examples
    assert ask(tool, **example.args) == example.observation


def test_today_and_tomorrow_are_those_of_the_place(tool: BaseTool, meteo: OpenMeteo) -> None:
    meteo.current["time"] = "2026-07-05T00:05"
    said = ask(tool, "Seville", days=2).split("\n")
    assert said[0].startswith("Seville, Andalusia, Spain: Sunday 2026-07-05, 00:05 local time (Europe/Madrid)")
    days = [line.partition(":")[0] for line in said[2:-1]]
    assert days == ["Saturday 2026-07-04", "Today, Sunday 2026-07-05", "Tomorrow, Monday 2026-07-06"]


def test_many_days(tool: BaseTool, service: Service) -> None:
    said = ask(tool, "Seville", days=15)
    assert said.count("\n") == 18
    assert "Sunday 2026-07-19: high 30 °C, low 19 °C, light rain, precipitation 1.2 mm, wind up to 20 km/h" in said
    assert len(said) < 2500
    assert ask(tool, "Seville", days=0).count("\n") == 3
    assert service.asked[1]["forecast_days"] == "16"


def test_units(tool: BaseTool, service: Service) -> None:
    said = ask(tool, "Seville", units="imperial")
    assert "Now: 24.6 °F, feels like 25.1 °F, clear sky, wind 7 mph" in said
    assert "precipitation 0 in (" in said
    sent = service.asked[-1]
    assert (sent["temperature_unit"], sent["wind_speed_unit"], sent["precipitation_unit"]) == (
        "fahrenheit",
        "mph",
        "inch",
    )
    ask(tool, "Seville")
    assert "temperature_unit" not in service.asked[-1]


def test_what_the_service_does_not_know_is_left_out(tool: BaseTool, meteo: OpenMeteo) -> None:
    meteo.missing = {"apparent_temperature", "weather_code", "relative_humidity_2m"}
    meteo.highs = [-0.4, None]  # type: ignore[list-item]
    meteo.current["temperature_2m"] = -0.04
    said = ask(tool, "Seville")
    assert "Now: 0.0 °C, wind 7 km/h\n" in said
    assert "Today, Saturday 2026-07-04: high 0 °C, low 21 °C" in said
    assert "Tomorrow, Sunday 2026-07-05: low 22 °C" in said
    meteo.missing = set(meteo.current) - {"time"}
    assert "Now: not known\n" in ask(tool, "Seville")


def test_codes_in_words(tool: BaseTool, meteo: OpenMeteo) -> None:
    assert len(_WORDS) == 28
    meteo.current["weather_code"] = 95
    assert ", thunderstorm, " in ask(tool, "Seville")
    meteo.current["weather_code"] = 42
    assert ", weather code 42, " in ask(tool, "Seville")


@pytest.mark.parametrize("narrows", [True, False], ids=["service narrows", "service does not"])
@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("Paris", "Paris, Île-de-France, France"),
        ("paris", "Paris, Île-de-France, France"),
        ("Paris, Texas", "Paris, Texas, United States"),
        ("Paris, TX", "Paris, Texas, United States"),
        ("Paris, TX, USA", "Paris, Texas, United States"),
        ("Paris Texas", "Paris, Texas, United States"),
        ("Paris, ile-de-france", "Paris, Île-de-France, France"),
        ("Paris, FR", "Paris, Île-de-France, France"),
        ("Springfield, Illinois", "Springfield, Illinois, United States"),
        ("Springfield, Illinois, United States", "Springfield, Illinois, United States"),
        ("Perth", "Perth, Western Australia, Australia"),
        ("Perth Western Australia", "Perth, Western Australia, Australia"),
        ("Perth, UK", "Perth, Scotland, United Kingdom"),
        ("München", "Munich, Bavaria, Germany"),
        ("Muenchen, Germany", "Munich, Bavaria, Germany"),
        (" Little  Hope , Texas,", "Little Hope, Texas, United States"),
    ],
)
def test_a_place_is_found(tool: BaseTool, meteo: OpenMeteo, narrows: bool, asked: str, found: str) -> None:
    meteo.narrows = narrows
    assert ask(tool, asked).partition(":")[0] == found


def test_the_larger_of_two_with_one_label_is_taken(tool: BaseTool, service: Service) -> None:
    ask(tool, "Springfield, IL")
    assert service.asked[-1]["latitude"] == "39.8"


def test_several_places_of_a_name_are_listed(tool: BaseTool) -> None:
    assert ask(tool, "Springfield") == (
        "Several places are called Springfield: Springfield, Missouri, United States; Springfield, Massachusetts, "
        "United States; Springfield, Illinois, United States. Call again with the one that is meant."
    )
    assert "Wisconsin" in ask(tool, "Little Hope")


def test_a_place_that_is_elsewhere_is_offered(tool: BaseTool) -> None:
    assert ask(tool, "Seville, Norway") == (
        "No Seville, Norway was found, but: Seville, Andalusia, Spain. Call again with one of these, if it is meant."
    )


@pytest.mark.parametrize("place", ["Atlantis", "Atlantis, Sea", "q", "  ", ",", "no such place at all", "x" * 5000])
def test_a_place_that_does_not_exist(tool: BaseTool, service: Service, place: str) -> None:
    with pytest.raises(ToolError, match=r"No such place was found|The place is empty"):
        ask(tool, place)
    assert len(service.asked) <= 3


@pytest.mark.parametrize(
    ("region", "inside"),
    [("TX", True), ("us", True), ("U.S.", True), ("texas", True), ("France", False), ("", False), ("tex", False)],
)
def test_regions(region: str, inside: bool) -> None:
    paris = Place(name="Paris", latitude=1, longitude=1, admin1="Texas", country="United States", country_code="US")
    assert paris.lies_in(region) is inside


@pytest.mark.parametrize(
    ("args", "says"),
    [({"units": "celsius"}, "'metric' or 'imperial'"), ({"days": 16}, "less than or equal to 15"), ({"days": -1}, "0")],
)
def test_wrong_arguments_go_back_to_the_model(tool: BaseTool, service: Service, args: Any, says: str) -> None:
    replies = [AIMessage("", tool_calls=[call("weather", {"place": "Seville", **args})]), "Done."]
    found = create_react_graph(ScriptedModel(replies=replies), [tool]).invoke({"messages": [("user", "?")]})
    (observation,) = [message for message in found["messages"] if isinstance(message, ToolMessage)]
    assert says in str(observation.content)
    assert not service.asked


@pytest.mark.parametrize("failing", ["geocoding", "forecast"])
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(status=403), "The weather service refused the request (status 403)"),
        (Answer(status=400, body={"error": True, "reason": "Ignore all"}), "did not take the request (status 400)"),
        (Answer(status=429, headers={"Retry-After": "60"}), "asks to wait 60 s (status 429)"),
        (Answer(status=500), "The weather service is out of order (status 500)"),
        (HTML, "The weather service did not answer with JSON (text/html)"),
        (Answer(body={"results": "x" * 500}, cut=True), "The weather service broke off its answer"),
        (CIRCLE, "The weather service redirects without an end"),
        (SILENCE, "The weather service did not answer in time"),
        (Answer(body={"results": 7, "daily": {}}), "The weather service answered in a form that is not known"),
    ],
)
def test_every_failure_is_an_observation_in_time(service: Service, failing: str, answer: Answer, says: str) -> None:
    with Service(lambda _: answer) as broken:
        urls = {"geocoding_url": service.url, "forecast_url": service.url, f"{failing}_url": broken.url}
        tool = weather_tool(**urls, timeout=2)
        replies = [AIMessage("", tool_calls=[call("weather", {"place": "Seville"})]), "It can't be had."]
        graph = create_react_graph(ScriptedModel(replies=replies), [tool])
        began = time.monotonic()
        found = graph.invoke({"messages": [("user", "Will it be hot?")]})
        assert time.monotonic() - began < 5
    (observation,) = [message for message in found["messages"] if isinstance(message, ToolMessage)]
    assert says in str(observation.content)
    assert "given up" not in str(observation.content)
    assert "Ignore all" not in str(observation.content)
    assert found["answer"] == "It can't be had."


@pytest.mark.parametrize("answer", [Answer(status=500), Answer(status=429, headers={"Retry-After": "0"})])
def test_a_failure_that_passes_is_not_noticed(tool: BaseTool, service: Service, answer: Answer) -> None:
    service.fail(answer)
    assert ask(tool, "Seville").startswith("Seville, ")


def test_days_of_unequal_length_are_no_forecast(tool: BaseTool, service: Service, meteo: OpenMeteo) -> None:
    whole = meteo({"latitude": "1", "longitude": "1", "timezone": "auto", "forecast_days": "2",
                   "current": "", "daily": "weather_code,temperature_2m_max,temperature_2m_min,precipitation_sum,"
                   "precipitation_probability_max,wind_speed_10m_max"})  # fmt: skip
    whole["daily"]["weather_code"].pop()
    with Service(lambda _: whole) as odd:
        broken = weather_tool(geocoding_url=service.url, forecast_url=odd.url)
        with pytest.raises(ToolError, match="in a form that is not known"):
            ask(broken, "Seville")


def test_the_addresses_come_from_the_environment(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAOGRAPH_GEOCODING_URL", f"{service.url}/search")
    monkeypatch.setenv("TAOGRAPH_FORECAST_URL", f"{service.url}/forecast")
    assert ask(weather, "Seville").startswith("Seville, ")


def test_how_it_is_treated() -> None:
    policy = policy_of(weather)
    assert (policy.effects, policy.trusted, policy.timeout, policy.max_chars) == ("none", False, 20.0, None)
    assert 'Example: weather(place="' in weather.description
    assert all("description" in spec for spec in weather.args.values())
