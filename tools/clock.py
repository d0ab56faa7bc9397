"""The time now, anywhere."""

from __future__ import annotations

import difflib
from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from taograph.tools.policy import ToolError, ToolExample, tool


@lru_cache(maxsize=1)
def _zones() -> dict[str, str]:
    """Every zone by its name in lower case, and by its city alone where one zone only has that city."""
    names = sorted(available_timezones())
    cities: dict[str, list[str]] = {}
    for name in names:
        cities.setdefault(name.rpartition("/")[2].lower(), []).append(name)
    alone = {city: found[0] for city, found in cities.items() if len(found) == 1}
    return {**alone, **{name.lower(): name for name in names}}


def _zone(asked: str) -> str:
    wanted = asked.strip().lower().replace(" ", "_")
    zones = _zones()
    if wanted in zones:
        return zones[wanted]
    near = [zones[match] for match in difflib.get_close_matches(wanted, zones, n=3, cutoff=0.6)]
    inside = [name for key, name in zones.items() if len(wanted) > 3 and wanted in key]
    names = list(dict.fromkeys([*inside[:3], *near])) or ["UTC", "Europe/Paris", "America/New_York", "Asia/Tokyo"]
    raise ToolError(f"No time zone {asked!r}. Use an IANA name such as {', '.join(names[:4])}.")


@tool(
    effects="none",
    max_chars=None,
    timeout=10.0,
    examples=(
        ToolExample(
            question="What time is it in Reykjavik?",
            args={"timezone": "Atlantic/Reykjavik"},
            observation="2026-03-14T09:26:53+00:00, Saturday (Atlantic/Reykjavik)",
            answer="It is 09:26 on Saturday, 14 March 2026, in Reykjavik.",
        ),
    ),
)
def current_time(timezone: str = "UTC") -> str:
    """Get the date, time and weekday now. Example: current_time(timezone="Asia/Tokyo").

    Args:
        timezone: An IANA time zone, such as Europe/Paris. UTC when left out.
    """
    name = _zone(timezone or "UTC")
    now = datetime.now(ZoneInfo(name))
    return f"{now.isoformat(timespec='seconds')}, {now:%A} ({name})"
