"""The clock, through the tool."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from taograph.tools.clock import current_time
from taograph.tools.policy import ToolError, policy_of

SHAPE = re.compile(r"(\S+), (\w+day) \((\S+)\)")


def read(text: str) -> tuple[datetime, str, str]:
    found = SHAPE.fullmatch(text)
    assert found, text
    return datetime.fromisoformat(found[1]), found[2], found[3]


@pytest.mark.parametrize(
    ("asked", "zone"),
    [
        ({}, "UTC"),
        ({"timezone": ""}, "UTC"),
        ({"timezone": "Asia/Tokyo"}, "Asia/Tokyo"),
        ({"timezone": "europe/paris"}, "Europe/Paris"),
        ({"timezone": "America/New York"}, "America/New_York"),
        ({"timezone": "Paris"}, "Europe/Paris"),
        ({"timezone": "Asia/Kathmandu"}, "Asia/Kathmandu"),
    ],
)
def test_it_tells_the_time_now_in_a_zone(asked: dict[str, str], zone: str) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    moment, weekday, name = read(current_time.invoke(asked))
    assert name == zone
    assert before <= moment <= datetime.now(UTC)
    assert moment.utcoffset() == datetime.now(ZoneInfo(zone)).utcoffset()
    assert weekday == moment.strftime("%A")


@pytest.mark.parametrize(
    ("asked", "offers"),
    [
        ("Europe/Pariss", "Europe/Paris"),
        ("Mars/Olympus", "Europe/Paris|UTC|[A-Z]"),
        ("Berlin time", "Europe/Berlin"),
        ("../../etc/passwd", "[A-Z]"),
        ("x" * 5000, "UTC"),
    ],
)
def test_an_unknown_zone_is_answered_with_real_ones(asked: str, offers: str) -> None:
    with pytest.raises(ToolError, match=rf"(?s)No time zone.*IANA name such as .*({offers})"):
        current_time.invoke({"timezone": asked})


def test_its_example_has_the_shape_it_gives() -> None:
    (example,) = policy_of(current_time).examples
    moment, weekday, name = read(example.observation)
    assert name == example.args["timezone"]
    assert weekday == moment.strftime("%A")
    assert moment.utcoffset() == moment.replace(tzinfo=ZoneInfo(name)).utcoffset()
