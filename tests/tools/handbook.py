"""The folder of documents that the worked examples of the document tools were made from."""

from pathlib import Path

from langchain_core.tools import BaseTool

FILES = {
    "depot/handbook.md": """\
# Depot handbook

## Opening hours

The counter is open from 7:30 to 18:00 on weekdays and from 9:00 to 12:30 on Saturdays.

## Storing parcels

A parcel that nobody collects is kept for 21 days, then it goes back to the sender.
Parcels above 40 kg are kept in hall C.

## Damaged parcels

Photograph the damage before opening the parcel and fill in form D4.
""",
    "staff/travel-expenses.md": """\
# Travel expenses

Hand in receipts within six weeks of the journey.

## Mileage

A private car is paid at 0.34 per kilometre, a private bicycle at 0.12.
""",
}


def fill(folder: Path) -> Path:
    for name, text in FILES.items():
        write(folder, name, text)
    return folder


def write(folder: Path, name: str, text: str | bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def search(tools: list[BaseTool], query: str, **more: object) -> str:
    answer = tools[0].invoke({"query": query, **more})
    assert isinstance(answer, str)
    return answer
