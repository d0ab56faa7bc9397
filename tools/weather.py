"""The weather, now and on the days to come, of a place that is called by its name."""

from __future__ import annotations

import os
from datetime import date
from typing import Annotated, Literal

from langchain_core.tools import BaseTool
from pydantic import Field

from taograph.tools.engines.open_meteo import (
    FORECAST_URL,
    GEOCODING_URL,
    MOST_DAYS,
    Days,
    Forecast,
    Now,
    OpenMeteo,
    Place,
    Unclear,
)
from taograph.tools.policy import ToolError, ToolExample, tool

__all__ = ["weather", "weather_tool"]

_CANDIDATES = 6
# The codes of WMO table 4677 that the service uses.
_WORDS = {
    0: "clear sky", 1: "mainly clear", 2: "partly cloudy", 3: "overcast", 45: "fog", 48: "rime fog",
    51: "light drizzle", 53: "drizzle", 55: "dense drizzle", 56: "light freezing drizzle", 57: "freezing drizzle",
    61: "light rain", 63: "rain", 65: "heavy rain", 66: "light freezing rain", 67: "heavy freezing rain",
    71: "light snow", 73: "snow", 75: "heavy snow", 77: "snow grains", 80: "light rain showers", 81: "rain showers",
    82: "violent rain showers", 85: "light snow showers", 86: "heavy snow showers", 95: "thunderstorm",
    96: "thunderstorm with light hail", 99: "thunderstorm with heavy hail",
}  # fmt: skip

# What the tool returns to an answer of the service's shape with made-up weather; a test holds it to that.
_EXAMPLE = ToolExample(
    question="Will it be hot in Seville tomorrow?",
    args={"place": "Seville"},
    observation=(
        "Seville, Andalusia, Spain: Saturday 2026-07-04, 09:15 local time (Europe/Madrid)\n"
        "Now: 24.6 °C, feels like 25.1 °C, clear sky, wind 7 km/h, humidity 48 %\n"
        "Today, Saturday 2026-07-04: high 36 °C, low 21 °C, mainly clear, precipitation 0 mm (chance 0 %), "
        "wind up to 18 km/h\n"
        "Tomorrow, Sunday 2026-07-05: high 39 °C, low 22 °C, clear sky, precipitation 0 mm (chance 1 %), "
        "wind up to 15 km/h\n"
        "Source: Open-Meteo.com"
    ),
    answer="Yes: Seville will be hot tomorrow, Sunday 5 July, with a high of 39 °C and a clear sky.",
)


def weather_tool(
    *, geocoding_url: str | None = None, forecast_url: str | None = None, timeout: float = 20.0
) -> BaseTool:
    """The tool ``weather``.

    Args:
        geocoding_url: Where places are looked up; ``TAOGRAPH_GEOCODING_URL``, else Open-Meteo's own, when absent.
        forecast_url: Where the weather is asked for; ``TAOGRAPH_FORECAST_URL``, else Open-Meteo's own, when absent.
        timeout: Seconds one call may take.
    """

    @tool(effects="none", timeout=timeout, max_chars=None, trusted=False, examples=(_EXAMPLE,))
    def weather(
        place: str,
        units: Literal["metric", "imperial"] = "metric",
        days: Annotated[int, Field(ge=0, le=MOST_DAYS)] = 1,
    ) -> str:
        """Get the weather now, today and on the days after, anywhere. Example: weather(place="Lisbon", days=1).

        Args:
            place: A town or city. Add region or country where others have its name: "Springfield, Illinois".
            units: "metric" (°C, km/h, mm) or "imperial" (°F, mph, inches).
            days: How many days after today to tell, 0 to 15. 1 tells today and tomorrow.
        """
        asked = " ".join(place.split())
        if len(asked.strip(", ")) < 2:
            raise ToolError("The place is empty. Write the name of a town or city.")
        service = OpenMeteo(
            geocoding_url or os.environ.get("TAOGRAPH_GEOCODING_URL") or GEOCODING_URL,
            forecast_url or os.environ.get("TAOGRAPH_FORECAST_URL") or FORECAST_URL,
            # A little less than the call may take: so the model reads what was wrong, not only that time ran out.
            timeout * 0.9,
        )
        found = service.locate(asked[:200])
        if isinstance(found, Unclear):
            return _which(asked, found)
        return _told(found, service.forecast(found, days=days, imperial=units == "imperial"), units)

    return weather


def _which(asked: str, unclear: Unclear) -> str:
    if not unclear.candidates:
        raise ToolError("No such place was found. Check the spelling, or name a larger town nearby.")
    names = "; ".join(place.label() for place in unclear.candidates[:_CANDIDATES])
    if unclear.elsewhere:
        return f"No {asked} was found, but: {names}. Call again with one of these, if it is meant."
    return f"Several places are called {asked}: {names}. Call again with the one that is meant."


def _told(place: Place, forecast: Forecast, units: str) -> str:
    degrees, speed, depth = ("°F", "mph", "in") if units == "imperial" else ("°C", "km/h", "mm")
    now, today = forecast.current, forecast.current.time.date()
    lines = [
        f"{place.label()}: {now.time:%A %Y-%m-%d, %H:%M} local time ({forecast.timezone})",
        f"Now: {_now(now, degrees, speed)}",
    ]
    for number, day in enumerate(forecast.daily.time):
        lines.append(f"{_name(day, today)}: {_day(forecast.daily, number, degrees, speed, depth)}")
    return "\n".join([*lines, "Source: Open-Meteo.com"])


def _name(day: date, today: date) -> str:
    said = {0: "Today, ", 1: "Tomorrow, "}.get((day - today).days, "")
    return f"{said}{day:%A %Y-%m-%d}"


def _now(now: Now, degrees: str, speed: str) -> str:
    return _joined(
        (now.temperature_2m, f"{{:z.1f}} {degrees}"),
        (now.apparent_temperature, f"feels like {{:z.1f}} {degrees}"),
        (_words(now.weather_code), "{}"),
        (now.wind_speed_10m, f"wind {{:z.0f}} {speed}"),
        (now.relative_humidity_2m, "humidity {:.0f} %"),
    )


def _day(days: Days, number: int, degrees: str, speed: str, depth: str) -> str:
    chance = days.precipitation_probability_max[number]
    likely = f" (chance {chance:.0f} %)" if chance is not None else ""
    return _joined(
        (days.temperature_2m_max[number], f"high {{:z.0f}} {degrees}"),
        (days.temperature_2m_min[number], f"low {{:z.0f}} {degrees}"),
        (_words(days.weather_code[number]), "{}"),
        (days.precipitation_sum[number], f"precipitation {{:g}} {depth}{likely}"),
        (days.wind_speed_10m_max[number], f"wind up to {{:z.0f}} {speed}"),
    )


def _joined(*parts: tuple[float | str | None, str]) -> str:
    """What is known, in words; the service leaves out what its models do not give."""
    said = [form.format(value) for value, form in parts if value is not None]
    return ", ".join(said) or "not known"


def _words(code: int | None) -> str | None:
    return _WORDS.get(code, f"weather code {code}") if code is not None else None


weather = weather_tool()
