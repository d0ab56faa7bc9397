"""The Wikipedia tools, over a local file and over a wiki that the test starts: both must behave alike."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import encyclopedia
import pytest
from fake_service import CIRCLE, HTML, SILENCE, Answer, Service
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.tools import BaseTool
from langgraph.checkpoint.sqlite import SqliteSaver

from taograph import create_react_graph
from taograph.models import ScriptedModel, call
from taograph.tools.engines import wiki_live
from taograph.tools.engines.wiki_text import Page
from taograph.tools.policy import ToolError, policy_of
from taograph.tools.wikipedia import wikipedia_tools

Source = Literal["file", "wiki"]
Made = Callable[[], list[BaseTool]]
FIRST_FIVE = (
    "Lake Titicaca is a large freshwater lake in the Andes. It lies on the border of Peru and Bolivia. Its surface is "
    "about 3,812 meters above sea level. More than 25 rivers flow into it. Only one river of note, the Desaguadero, "
    "flows out of it."
)


@pytest.fixture
def wiki() -> encyclopedia.Wiki:
    return encyclopedia.Wiki()


@pytest.fixture
def service(wiki: encyclopedia.Wiki) -> Iterator[Service]:
    with Service(wiki) as running:
        yield running


@pytest.fixture(params=["file", "wiki"])
def made(
    request: pytest.FixtureRequest, tmp_path: Path, service: Service, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], list[BaseTool]]:
    """Makes the tools anew, over the same pages."""
    if request.param == "wiki":
        return lambda: wikipedia_tools(base_url=f"{service.url}/w/api.php", timeout=10)
    monkeypatch.setenv("TAOGRAPH_CACHE", str(tmp_path / "cache"))
    path = encyclopedia.write(tmp_path / "small.jsonl")
    return lambda: wikipedia_tools(corpus=path)


def search(entity: str) -> Any:
    return call("wikipedia_search", {"entity": entity})


def lookup(keyword: str) -> Any:
    return call("wikipedia_lookup", {"keyword": keyword})


def turns(*calls: Any) -> list[AIMessage]:
    """One reply for each call, or for each list of calls made at once; the last reply is the answer."""
    made = [AIMessage("", tool_calls=one if isinstance(one, list) else [one]) for one in calls]
    return [*made, AIMessage("The answer.")]


def observed(messages: list[BaseMessage]) -> list[str]:
    found = [message for message in messages if isinstance(message, ToolMessage)]
    for message in found:
        json.dumps(message.artifact)
    return [
        str(message.content).partition("instructions to follow.]\n")[2] or str(message.content) for message in found
    ]


def run(tools: list[BaseTool], *calls: Any) -> list[str]:
    graph = create_react_graph(ScriptedModel(replies=turns(*calls)), tools)
    return observed(graph.invoke({"messages": [("user", "?")]})["messages"])


def test_a_search_shows_five_sentences(made: Made) -> None:
    assert run(made(), search("Lake Titicaca")) == [FIRST_FIVE]


@pytest.mark.parametrize("name", ["lake titicaca", " Lake  Titicaca ", "Lake_Titicaca", "Titicaca"])
def test_other_ways_to_write_a_title(made: Made, name: str) -> None:
    assert run(made(), search(name)) == [FIRST_FIVE]


def test_a_title_that_is_not_there_is_answered_with_titles_like_it(made: Made) -> None:
    (text,) = run(made(), search("Lake of Titicaca [deep|dark]"))
    assert text == "Could not find Lake of Titicaca [deep|dark]. Similar: ['Lake Titicaca', 'Lake Poopó']."
    assert run(made(), search("Xyzzyqwv")) == ["Could not find Xyzzyqwv. Similar: []."]


def test_a_title_of_several_meanings_is_answered_with_what_may_be_meant(made: Made) -> None:
    (text,) = run(made(), search("Mercury"))
    assert text.startswith("Could not find [Mercury]. Similar: [")
    assert sorted(eval(text.partition("Similar: ")[2][:-1])) == ["Mercury (element)", "Mercury (planet)"]


def test_looking_up_sentence_by_sentence(made: Made) -> None:
    seen = run(
        made(),
        search("Lake Titicaca"),
        lookup("basin"),
        lookup("basin"),
        lookup("basin"),
        lookup("basin"),
        lookup("DEEP"),
        lookup("basin"),
    )
    assert seen[1:] == [
        "(Result 1 / 2) The lake has two basins.",
        "(Result 2 / 2) The smaller basin is the southern one.",
        "No more results.",
        "No more results.",
        "(Result 1 / 1) At its deepest point the lake is about 280 meters deep.",
        "(Result 1 / 2) The lake has two basins.",
    ]


def test_a_failed_search_leaves_the_page_open_and_a_new_one_begins_anew(made: Made) -> None:
    seen = run(
        made(),
        search("Lake Titicaca"),
        lookup("lake"),
        search("Xyzzyqwv"),
        search("Mercury"),
        lookup("lake"),
        search("Lake Poopó"),
        lookup("lake"),
        search("Lake Titicaca"),
        lookup("lake"),
    )
    assert seen[1] == "(Result 1 / 3) Lake Titicaca is a large freshwater lake in the Andes."
    assert seen[4] == "(Result 2 / 3) At its deepest point the lake is about 280 meters deep."
    assert seen[6] == "(Result 1 / 1) Lake Poopó was a shallow salt lake in Bolivia."
    assert seen[8] == seen[1]


def test_nothing_to_look_up_in(made: Made) -> None:
    assert run(made(), lookup("lake")) == [
        "No page is open. Call wikipedia_search first, with the name of the person, place or thing."
    ]
    with pytest.raises(ToolError, match="No page is open"):
        made()[1].invoke({"keyword": "lake"})


def test_calls_of_one_turn_follow_each_other(made: Made) -> None:
    seen = run(
        made(),
        [search("Lake Poopó"), search("Nowhere"), lookup("lake"), search("Lake Titicaca"), lookup("basin")],
        [lookup("basin"), lookup("basin"), lookup("deep"), lookup("basin")],
    )
    assert seen[2] == "(Result 1 / 1) Lake Poopó was a shallow salt lake in Bolivia."
    assert [text.partition(")")[0] for text in seen[4:]] == [
        "(Result 1 / 2",
        "(Result 2 / 2",
        "No more results.",
        "(Result 1 / 1",
        "(Result 1 / 2",
    ]


def test_runs_at_once_do_not_disturb_each_other(made: Made) -> None:
    tools, seen, meet = made(), {}, threading.Barrier(2, timeout=20)

    def go(name: str, page: str) -> None:
        replies = turns(search(page), lookup("lake"), lookup("lake"))

        def reply(number: int) -> Callable[[list[BaseMessage]], AIMessage]:
            def say(messages: list[BaseMessage]) -> AIMessage:
                meet.wait()  # each step of one run falls between two of the other
                return replies[number]

            return say

        graph = create_react_graph(ScriptedModel(replies=[reply(number) for number in range(4)]), tools)
        seen[name] = observed(graph.invoke({"messages": [("user", "?")]})["messages"])

    threads = [threading.Thread(target=go, args=each) for each in (("a", "Lake Titicaca"), ("b", "Lake Poopó"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [text.partition(")")[0] for text in seen["a"][1:]] == ["(Result 1 / 3", "(Result 2 / 3"]
    assert seen["b"][1:] == ["(Result 1 / 1) Lake Poopó was a shallow salt lake in Bolivia.", "No more results."]


def test_a_resumed_run_goes_on_where_it_was(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config: Any = {"configurable": {"thread_id": "t"}}
    database = str(tmp_path / "runs.sqlite")
    replies = turns(search("Lake Titicaca"), lookup("basin"), lookup("basin"))
    with SqliteSaver.from_conn_string(database) as saver:
        graph = create_react_graph(ScriptedModel(replies=replies[:2]), made(), checkpointer=saver)
        seen: list[str] = []
        for update in graph.stream({"messages": [("user", "?")]}, config, stream_mode="updates"):
            seen += observed((update.get("act") or {}).get("messages", []))
            if len(seen) == 2:
                break
    assert seen[1] == "(Result 1 / 2) The lake has two basins."
    # Nothing of the process is kept: a new cache, new tools, a new graph, a new connection.
    monkeypatch.setattr(wiki_live, "_PAGES", wiki_live._PageCache(1000))
    with SqliteSaver.from_conn_string(database) as saver:
        graph = create_react_graph(ScriptedModel(replies=replies[2:]), made(), checkpointer=saver)
        done = graph.invoke(None, config)
    assert observed(done["messages"])[2] == "(Result 2 / 2) The smaller basin is the southern one."


def test_a_page_is_open_in_the_source_it_came_from_only(tmp_path: Path, service: Service) -> None:
    from_wiki = wikipedia_tools(base_url=f"{service.url}/w/api.php")
    from_file = wikipedia_tools(corpus=encyclopedia.write(tmp_path / "other.jsonl"))
    found = run([from_wiki[0], from_file[1]], search("Lake Titicaca"), lookup("lake"))
    assert found[1] == "No page is open. Call wikipedia_search first, with the name of the person, place or thing."


def test_scripts_without_blanks_have_sentences_too(made: Made) -> None:
    seen = run(made(), search("Tokyo"), lookup("夏"))
    assert seen == ["東京は日本の首都。 人口は多い。 川が流れる。 山は遠い。 冬は乾く。", "(Result 1 / 1) 夏は暑い。"]


@pytest.mark.parametrize(("entity", "says"), [("  ", "The entity is empty"), ("why " * 60, "The entity is too long")])
def test_what_is_no_name_is_sent_back(made: Made, entity: str, says: str) -> None:
    with pytest.raises(ToolError, match=says):
        made()[0].invoke({"entity": entity})


def test_the_tools_say_how_they_are_used_and_what_they_are(made: Made) -> None:
    for tool, argument in zip(made(), ("entity", "keyword"), strict=True):
        assert f"Example: {tool.name}({argument}=" in tool.description
        schema: Any = tool.tool_call_schema.model_json_schema()  # type: ignore[union-attr]
        assert list(schema["properties"]) == schema["required"] == [argument]
        assert schema["properties"][argument]["description"]
        policy = policy_of(tool)
        assert (policy.effects, policy.trusted, policy.max_chars) == ("none", False, None)
        assert policy.timeout
        assert policy.examples


def test_their_examples_are_what_they_return(made: Made) -> None:
    tools = made()
    searches, (look,) = (policy_of(tool).examples for tool in tools)
    for example in searches[1:]:
        assert run(tools, search(example.args["entity"])) == [example.observation]
    seen = run(tools, search(searches[0].args["entity"]), lookup(look.args["keyword"]))
    assert seen == [searches[0].observation, look.observation]


def test_a_page_without_full_stops_is_cut(live: list[BaseTool], wiki: encyclopedia.Wiki) -> None:
    wiki.pages["List"] = "one thing after another " * 500
    for text in run(live, search("List"), lookup("thing")):
        assert len(text) < 3100
        assert text.endswith("characters is left out]")


# The wiki, as a service that may fail.


@pytest.fixture
def live(service: Service) -> list[BaseTool]:
    return wikipedia_tools(base_url=f"{service.url}/w/api.php", timeout=3)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer(status=403), "The wiki refused the request (status 403)"),
        (Answer(status=429, headers={"Retry-After": "120"}), "asks to wait 120 s (status 429)"),
        (Answer(status=500), "The wiki is out of order (status 500)"),
        (HTML, "The wiki did not answer with JSON (text/html)"),
        (Answer(body={"query": "x" * 500}, cut=True), "The wiki broke off its answer"),
        (CIRCLE, "The wiki redirects without an end"),
        (SILENCE, "The wiki did not answer in time"),
        (Answer(body=[1, 2]), "The wiki answered in a form that is not known"),
        (Answer(body={"error": {"code": "badvalue", "info": "secret"}}), "did not take the request (badvalue)"),
        (Answer(body={"error": {"code": "maxlag"}}, headers={"Retry-After": "60"}), "The wiki is busy (maxlag)"),
    ],
)
def test_every_failure_is_an_observation_in_time(
    live: list[BaseTool], service: Service, answer: Answer, says: str
) -> None:
    service.fail(answer, times=None)
    began = time.monotonic()
    (text,) = run(live, search("Lake Titicaca"))
    assert says in text
    assert "given up" not in text
    assert time.monotonic() - began < 6
    assert len(service.asked) <= 4


@pytest.mark.parametrize(
    "answer",
    [
        Answer(status=500),
        Answer(status=429, headers={"Retry-After": "0"}),
        Answer(body={"error": {"code": "maxlag", "info": "…"}}, headers={"Retry-After": "0"}),
        Answer(body={"error": {"code": "ratelimited", "info": "…"}}),
    ],
)
def test_a_failure_that_passes_is_not_noticed(live: list[BaseTool], service: Service, answer: Answer) -> None:
    service.fail(answer)
    assert run(live, search("Lake Titicaca")) == [FIRST_FIVE]
    assert len(service.asked) == 2


def test_a_failed_look_up_can_be_made_again(
    live: list[BaseTool], service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiki_live, "_PAGES", wiki_live._PageCache(0))  # so that each look-up has to fetch the page

    def fail(messages: list[BaseMessage]) -> AIMessage:
        service.fail(Answer(status=403))
        return turns(lookup("basin"))[0]

    replies = [*turns(search("Lake Titicaca"), lookup("basin"))[:2], fail, *turns(lookup("basin"))]
    graph = create_react_graph(ScriptedModel(replies=replies), live)
    seen = observed(graph.invoke({"messages": [("user", "?")]})["messages"])
    assert "refused the request" in seen[2]
    assert seen[3] == "(Result 2 / 2) The smaller basin is the southern one."


def test_a_page_is_fetched_once_for_its_look_ups(live: list[BaseTool], service: Service) -> None:
    run(live, search("Lake Titicaca"), lookup("basin"), lookup("basin"))
    assert len(service.asked) == 1


def test_a_page_that_was_edited_meanwhile_is_read_as_it_is_now(
    live: list[BaseTool], wiki: encyclopedia.Wiki, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiki_live, "_PAGES", wiki_live._PageCache(0))

    def edit(messages: list[BaseMessage]) -> AIMessage:
        wiki.pages["Lake Titicaca"] += "\nA third basin is a rumor."
        wiki.revision += 1
        return turns(lookup("basin"))[0]

    def remove(messages: list[BaseMessage]) -> AIMessage:
        del wiki.pages["Lake Titicaca"]
        return turns(lookup("basin"))[0]

    replies = [*turns(search("Lake Titicaca"), lookup("basin"))[:2], edit, remove, "Done."]
    graph = create_react_graph(ScriptedModel(replies=replies), live)
    seen = observed(graph.invoke({"messages": [("user", "?")]})["messages"])
    assert seen[2] == "(Result 2 / 3) The smaller basin is the southern one."
    assert seen[3] == "The page 'Lake Titicaca' is no longer there. Open another one with wikipedia_search."


def test_a_wiki_without_plain_text_is_told(live: list[BaseTool], wiki: encyclopedia.Wiki) -> None:
    wiki.extracts = False
    assert "gives no plain text of its pages" in run(live, search("Lake Titicaca"))[0]


def test_a_page_without_text_is_told(live: list[BaseTool], wiki: encyclopedia.Wiki) -> None:
    wiki.pages["Table"] = ""
    assert run(live, search("Table")) == ["The page 'Table' has no running text."]


def test_the_cache_is_bounded() -> None:
    cache = wiki_live._PageCache(100)
    pages = [Page(f"{number}", "1", "x" * 40) for number in range(5)]
    for page in [*pages, pages[-1]]:
        cache.put("w", page)
    assert [cache.get("w", str(number), "1") for number in range(5)] == [None, None, None, *pages[3:]]


def test_it_asks_the_wikipedia_of_the_language(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, Any]] = []

    def get_json(url: str, params: Any, **more: Any) -> Any:
        asked.append((url, more["service"]))
        return {"query": {"pages": [{"title": "Titicacasee", "lastrevid": 1, "extract": "Der See ist groß."}]}}

    monkeypatch.setattr(wiki_live, "get_json", get_json)
    assert wikipedia_tools(language="de")[0].invoke({"entity": "Titicacasee"}) == "Der See ist groß."
    assert wikipedia_tools()[0].invoke({"entity": "Titicacasee"}) == "Der See ist groß."
    assert asked == [
        ("https://de.wikipedia.org/w/api.php", "Wikipedia (de)"),
        ("https://en.wikipedia.org/w/api.php", "Wikipedia"),
    ]
    assert "Wikipedia (de)" in wikipedia_tools(language="de")[0].description


@pytest.mark.parametrize("language", ["", "English", "en-US", "en-us", "evil.example/", "d e", "en\n", "../en"])
def test_a_language_is_checked(language: str) -> None:
    with pytest.raises(ValueError, match="is no code of a Wikipedia: use one such as en"):
        wikipedia_tools(language=language)


@pytest.mark.parametrize("language", ["de", "simple", "zh-yue", "zh-min-nan", "be-tarask", "nds-nl", "roa-rup", "ceb"])
def test_codes_of_wikipedias(language: str) -> None:
    assert len(wikipedia_tools(language=language)) == 2


@pytest.mark.parametrize("base_url", ["ftp://example.org/api.php", "api.php", "https://h\n/api.php", "https://"])
def test_an_address_is_checked(base_url: str) -> None:
    with pytest.raises(ValueError, match="base_url"):
        wikipedia_tools(base_url=base_url)


def test_one_source_only(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not both"):
        wikipedia_tools(corpus=encyclopedia.write(tmp_path / "x.jsonl"), base_url="https://example.org/api.php")
