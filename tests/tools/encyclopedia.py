"""A small encyclopedia, written for the tests: as a file, and as a wiki that answers as MediaWiki does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TITICACA = """\
Lake Titicaca is a large freshwater lake in the Andes. It lies on the border of Peru and Bolivia. Its surface is \
about 3,812 meters above sea level. More than 25 rivers flow into it. Only one river of note, the Desaguadero, \
flows out of it. Most of its water is lost to the sun and the wind.
At its deepest point the lake is about 280 meters deep. Reed boats are still built on its shores.
The lake has two basins. The smaller basin is the southern one."""
PAGES: dict[str, str] = {
    "Lake Titicaca": TITICACA,
    "Eiffel Tower": (
        "The Eiffel Tower is an iron tower in Paris. It was finished in 1889. It is about 330 meters high. It bears "
        "the name of Gustave Eiffel, whose company built it."
    ),
    "Marie Curie": (
        "Marie Curie was a physicist and chemist. She was born in Warsaw in 1867 and worked in Paris. With her husband "
        "Pierre she discovered polonium and radium. She was given two Nobel Prizes."
    ),
    "Lake Poopó": "Lake Poopó was a shallow salt lake in Bolivia. The Desaguadero fed it. It dried up in 2015.",
    "Mercury": "Mercury may refer to:\nMercury (planet), the planet nearest to the sun\nMercury (element), a metal",
    "Mercury (planet)": "Mercury is the planet nearest to the sun. It has no moon.",
    "Mercury (element)": "Mercury is a metal. It is liquid at room temperature.",
    "Tokyo": "東京は日本の首都。人口は多い。川が流れる。山は遠い。冬は乾く。夏は暑い。",
}
REDIRECTS = {"Titicaca": "Lake Titicaca"}


def write(path: Path) -> Path:
    """The encyclopedia as a file of JSON lines."""
    aliases = {to: [title for title, where in REDIRECTS.items() if where == to] for to in REDIRECTS.values()}
    lines = [
        json.dumps({"title": title, "text": text, "aliases": aliases.get(title, [])}) for title, text in PAGES.items()
    ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


class Wiki:
    """Answers like ``api.php``; ``pages`` and ``revision`` may be changed while it runs."""

    def __init__(self) -> None:
        self.pages = dict(PAGES)
        self.revision = 100
        self.extracts = True

    def __call__(self, ask: dict[str, str]) -> dict[str, Any]:
        assert (ask["action"], ask["format"], ask["formatversion"], ask["maxlag"]) == ("query", "json", "2", "5")
        query: dict[str, Any] = {}
        if "titles" in ask:
            assert "|" not in ask["titles"]
            query["pages"] = [self._page(ask["titles"])]
        if ask.get("gsrwhat") == "nearmatch":
            near = [title for title in self.pages if title.casefold() == ask["gsrsearch"].casefold()]
            if near:
                query["pages"] = [self._page(near[0])]
        if ask.get("list") == "search":
            words = [word for word in ask["srsearch"].casefold().replace("[", " ").split() if len(word) > 2]
            hits = [title for title in self.pages if any(word in title.casefold() for word in words)]
            query["search"] = [{"ns": 0, "title": title, "pageid": 1} for title in hits[: int(ask["srlimit"])]]
        return {"batchcomplete": True, "query": query}

    def _page(self, asked: str) -> dict[str, Any]:
        title = asked[:1].upper() + asked[1:].replace("_", " ")
        title = REDIRECTS.get(title, title)
        if title not in self.pages:
            return {"ns": 0, "title": title, "missing": True}
        first, *rest = self.pages[title].split("\n")
        found: dict[str, Any] = {"pageid": 1, "ns": 0, "title": title, "lastrevid": self.revision}
        if self.extracts:
            # As the extension gives it: headings and stray formulas between the paragraphs.
            found["extract"] = "\n\n\n== About the lake ==\n".join([first, "\n".join(["{x}", *rest])])
        if "may refer to:" in first:
            found["pageprops"] = {"disambiguation": ""}
        return found
