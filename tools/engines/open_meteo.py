"""Places by name, and the weather there, from Open-Meteo: free and without a key for non-commercial use.

https://open-meteo.com/en/docs and …/geocoding-api. The data are under CC BY 4.0, so the source is to be named.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, StringConstraints, ValidationError

from taograph.tools.engines.folding import folded
from taograph.tools.engines.http import ServiceError, get_json

GEOCODING_URL = "https://geocoding-api.open-meteo.com/v1/search"
FORECAST_URL = "https://api.open-meteo.com/v1/forecast"
MOST_DAYS = 15
"""Days after today that a forecast reaches."""

_SERVICE = "The weather service"
_CLEARLY = 5
"""A place with so many times the people of the next one of its name is meant where nothing else is said."""
_T = TypeVar("_T", bound=BaseModel)

# How people shorten regions and countries; the service writes them in full.
_SHORT = {
    "usa": "united states", "us": "united states", "u.s.": "united states", "america": "united states",
    "uk": "united kingdom", "u.k.": "united kingdom", "britain": "united kingdom", "uae": "united arab emirates",
    "d.c.": "district of columbia",
    "al": "alabama", "ak": "alaska", "az": "arizona", "ar": "arkansas", "ca": "california", "co": "colorado",
    "ct": "connecticut", "de": "delaware", "dc": "district of columbia", "fl": "florida", "ga": "georgia",
    "hi": "hawaii", "id": "idaho", "il": "illinois", "in": "indiana", "ia": "iowa", "ks": "kansas", "ky": "kentucky",
    "la": "louisiana", "me": "maine", "md": "maryland", "ma": "massachusetts", "mi": "michigan", "mn": "minnesota",
    "ms": "mississippi", "mo": "missouri", "mt": "montana", "ne": "nebraska", "nv": "nevada", "nh": "new hampshire",
    "nj": "new jersey", "nm": "new mexico", "ny": "new york", "nc": "north carolina", "nd": "north dakota",
    "oh": "ohio", "ok": "oklahoma", "or": "oregon", "pa": "pennsylvania", "ri": "rhode island",
    "sc": "south carolina", "sd": "south dakota", "tn": "tennessee", "tx": "texas", "ut": "utah", "vt": "vermont",
    "va": "virginia", "wa": "washington", "wv": "west virginia", "wi": "wisconsin", "wy": "wyoming",
}  # fmt: skip


_Name = Annotated[str, StringConstraints(max_length=200)]


class Place(BaseModel):
    """A place, as the service describes it."""

    name: _Name
    latitude: float
    longitude: float
    population: int | None = None
    country: _Name | None = None
    country_code: _Name | None = None
    admin1: _Name | None = None
    admin2: _Name | None = None
    admin3: _Name | None = None
    admin4: _Name | None = None

    def label(self) -> str:
        """Its name with region and country, as it can be asked for again."""
        parts = [self.name, self.admin1, self.country]
        return ", ".join(dict.fromkeys(part for part in parts if part))

    def lies_in(self, region: str) -> bool:
        """Whether it is in a region or country of that name, in full or shortened as usual."""
        fields = (self.admin1, self.admin2, self.admin3, self.admin4, self.country, self.country_code)
        own = {folded(field) for field in fields if field}
        asked = folded(region)
        return asked in own or _SHORT.get(asked) in own


class Now(BaseModel):
    """The weather at present; ``time`` is the place's own."""

    time: datetime
    temperature_2m: float | None = None
    apparent_temperature: float | None = None
    relative_humidity_2m: float | None = None
    weather_code: int | None = None
    wind_speed_10m: float | None = None


class Days(BaseModel):
    """The weather day by day, a list for each quantity."""

    time: list[date]
    weather_code: list[int | None]
    temperature_2m_max: list[float | None]
    temperature_2m_min: list[float | None]
    precipitation_sum: list[float | None]
    precipitation_probability_max: list[float | None]
    wind_speed_10m_max: list[float | None]


class Forecast(BaseModel):
    """Present and coming weather of a place, in its own time."""

    timezone: _Name
    current: Now
    daily: Days


class _Places(BaseModel):
    results: list[Place] = []


@dataclass(frozen=True, slots=True)
class Unclear:
    """A name that does not tell one place.

    Attributes:
        candidates: Places that may be meant, the largest first.
        elsewhere: Whether none of them is in the region that was named.
    """

    candidates: tuple[Place, ...]
    elsewhere: bool = False


class OpenMeteo:
    """The service. Safe to use from any thread."""

    def __init__(self, geocoding_url: str, forecast_url: str, seconds: float) -> None:
        """Name its addresses.

        Args:
            geocoding_url: Where places are looked up.
            forecast_url: Where the weather is asked for.
            seconds: For all that is asked through this object, from now on.
        """
        self._geocoding_url = geocoding_url
        self._forecast_url = forecast_url
        self._until = time.monotonic() + seconds

    def locate(self, text: str) -> Place | Unclear:
        """The place that is meant, or those that may be.

        Args:
            text: A name, perhaps with regions after commas or blanks.

        Raises:
            ServiceError: The service gave no usable answer.
        """
        seen: list[Place] = []
        for query, name, regions in _readings(text):
            results = self._ask(self._geocoding_url, _geocoding(query, bool(regions)), _Places).results
            inside = [place for place in results if all(place.lies_in(region) for region in regions)]
            if inside:
                return _choose(inside, name)
            seen += results
        return Unclear(tuple(_unlike(_largest(seen))), elsewhere=bool(seen))

    def forecast(self, place: Place, *, days: int, imperial: bool) -> Forecast:
        """The weather of a place, today and so many days after.

        Raises:
            ServiceError: The service gave no usable answer.
        """
        params: dict[str, str | int | float] = {
            "latitude": place.latitude,
            "longitude": place.longitude,
            "current": ",".join(name for name in Now.model_fields if name != "time"),
            "daily": ",".join(name for name in Days.model_fields if name != "time"),
            "timezone": "auto",
            "forecast_days": days + 1,
        }
        if imperial:
            params |= {"temperature_unit": "fahrenheit", "wind_speed_unit": "mph", "precipitation_unit": "inch"}
        found = self._ask(self._forecast_url, params, Forecast)
        lengths = {len(values) for values in dict(found.daily).values()}
        if len(lengths) != 1 or lengths == {0}:
            raise ServiceError(f"{_SERVICE} answered in a form that is not known.", status=200)
        return found

    def _ask(self, url: str, params: dict[str, str | int | float], shape: type[_T]) -> _T:
        raw: Any = get_json(url, params, service=_SERVICE, timeout=max(0.1, self._until - time.monotonic()))
        try:
            return shape.model_validate(raw)
        except ValidationError as error:
            raise ServiceError(f"{_SERVICE} answered in a form that is not known.", status=200) from error


def _geocoding(query: str, narrowed: bool) -> dict[str, str | int | float]:
    # Many places have one name: what is narrowed down here must be among the results at all.
    return {"name": query, "count": 100 if narrowed else 10, "language": "en", "format": "json"}


def _readings(text: str) -> Iterator[tuple[str, str, list[str]]]:
    """What to ask for, the name in it and the regions in it: as it was written, then with the regions left out."""
    name, *regions = [part.strip() for part in text.split(",") if part.strip()]
    yield text, name, regions
    if regions:
        yield name, name, regions
        return
    words = name.split()
    for split in range(len(words) - 1, max(0, len(words) - 3), -1):  # "Paris Texas", "Perth Western Australia"
        yield " ".join(words[:split]), " ".join(words[:split]), [" ".join(words[split:])]


def _choose(places: list[Place], name: str) -> Place | Unclear:
    same = [place for place in places if folded(place.name) == folded(name)]
    first, *others = _unlike(_largest(same or places))
    if not others or (first.population or 0) >= _CLEARLY * max(1, others[0].population or 0):
        return first
    return Unclear((first, *others))


def _largest(places: Iterable[Place]) -> list[Place]:
    return sorted(places, key=lambda place: -(place.population or 0))


def _unlike(places: Iterable[Place]) -> list[Place]:
    """The places without those that could not be told apart by their labels."""
    kept: dict[str, Place] = {}
    for place in places:
        kept.setdefault(place.label(), place)
    return list(kept.values())
