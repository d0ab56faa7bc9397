"""Replays through the whole graph, on small made-up records; what is not in a record comes out as an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from recorded import FEVER, WEBSHOP, write

from taograph.evals.environments import fever_environment, webshop_environment
from taograph.evals.records import Episode, RecordedStep, fever_calls, load_fever, load_webshop, webshop_calls
from taograph.evals.replays import replay_fever, replay_webshop
from taograph.models.replay import NotRecordedError


@pytest.fixture
def claims(tmp_path: Path) -> list[Episode]:
    return load_fever(write(tmp_path / "fever.json.gz", FEVER))


@pytest.fixture
def purchases(tmp_path: Path) -> list[Episode]:
    return load_webshop(write(tmp_path / "webshop.json.gz", WEBSHOP))


def changed(episode: Episode, place: int, **fields: str) -> Episode:
    steps = list(episode.steps)
    steps[place] = replace(steps[place], **fields)  # type: ignore[arg-type]
    return replace(episode, steps=tuple(steps))


# Replays


def test_strict_original_scores_as_the_published_code_did(claims: list[Episode]) -> None:
    done: list[tuple[int, int]] = []
    replay = replay_fever(claims, strict_original=True, told=lambda *at: done.append(at))
    assert [(one.index, one.score, one.answer, one.stop) for one in replay.outcomes] == [
        (7, 1.0, "SUPPORTS", "final"),
        (8, 0.0, "", "step_limit"),
        (3991, 0.0, "NOT ENOUGH INFO", "final"),
    ]
    assert [one.model_calls for one in replay.outcomes] == [2, 7, 2]
    assert (replay.solved, replay.score) == (1, pytest.approx(1 / 3))
    assert done == [(1, 3), (2, 3), (3, 3)]


def test_the_tolerant_reading_forgives_a_blank(claims: list[Episode]) -> None:
    replay = replay_fever(claims, strict_original=False)
    assert [(one.score, one.answer, one.stop) for one in replay.outcomes] == [
        (1.0, "SUPPORTS", "final"),
        (1.0, "REFUTES", "final"),
        (0.0, "NOT ENOUGH INFO", "final"),
    ]


@pytest.mark.parametrize("strict", [True, False])
def test_purchases_score_as_recorded(purchases: list[Episode], strict: bool) -> None:
    replay = replay_webshop(purchases, strict_original=strict)
    assert [(one.score, one.stop, one.model_calls) for one in replay.outcomes] == [
        (1.0, "final", 6),
        (0.0, "step_limit", 14),
    ]
    assert (replay.score, replay.success_rate) == (0.5, 0.5)


def test_a_model_call_that_is_not_recorded_comes_out_of_the_run(
    claims: list[Episode], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = changed(claims[0], 0, observation="Something else.")
    monkeypatch.setattr("taograph.evals.replays.fever_calls", lambda _, head: fever_calls([claims[0]], head))
    with pytest.raises(NotRecordedError, match="This model call is not in the record") as caught:
        replay_fever([broken], strict_original=True)
    assert "Something else." in caught.value.asked


def test_an_action_that_is_not_recorded_comes_out_of_the_run(
    claims: list[Episode], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = changed(claims[0], 0, action="Search[Uruk]")
    monkeypatch.setattr("taograph.evals.replays.fever_calls", lambda _, head: fever_calls([claims[0]], head))
    with pytest.raises(NotRecordedError, match=r"the action 'search\[Ur\]' is not in the record of episode 7"):
        replay_fever([broken], strict_original=True)


def test_the_very_last_action_is_checked_too(purchases: list[Episode], monkeypatch: pytest.MonkeyPatch) -> None:
    broken = changed(purchases[1], 13, action="search[green mug]")
    monkeypatch.setattr("taograph.evals.replays.webshop_calls", lambda _, head: webshop_calls([purchases[1]], head))
    with pytest.raises(NotRecordedError, match=r"'search\[blue mug\]' is not in the record of episode 1"):
        replay_webshop([broken], strict_original=True)


# Records


def test_what_is_put_back_into_the_claims(claims: list[Episode]) -> None:
    assert [step.action for step in claims[1].steps[:2]] == ["Search[Ur]", " Finish[REFUTES]"]
    assert claims[2].steps[0].action == "Login"
    assert claims[2].steps[1].first_reply == " I cannot tell.\nAction 2"


def test_the_prompts_of_a_claim(claims: list[Episode]) -> None:
    assert list(fever_calls(claims[2:], "Check.\n\n").items()) == [
        ("Check.\n\nClaim: Ur is old.\nThought 1:", " I go in.\nAction 1: Login"),
        (
            "Check.\n\nClaim: Ur is old.\nThought 1: I go in.\nAction 1: Login\nObservation 1: Invalid action: login\n"
            "Thought 2:",
            " I cannot tell.\nAction 2",
        ),
        (
            "Check.\n\nClaim: Ur is old.\nThought 1: I go in.\nAction 1: Login\nObservation 1: Invalid action: login\n"
            "Thought 2: I cannot tell.\nAction 2:",
            " Finish[NOT ENOUGH INFO]",
        ),
    ]


def test_the_prompts_of_a_purchase(purchases: list[Episode]) -> None:
    first, second, *_ = webshop_calls(purchases[:1], "Buy.\n\n").items()
    assert first == ("Buy.\n\nShop \nInstruction: \na red mug \n[Search]\n\nAction:", " search[red mug]")
    assert second[0].startswith(f"{first[0]} search[red mug]\nObservation: [M1] ")
    longest = max(webshop_calls(purchases, "Buy.\n\n"), key=len)
    assert len(longest) == 6400
    assert longest.startswith("Buy.\n\nx")


def test_two_replies_to_one_prompt_are_an_error(claims: list[Episode]) -> None:
    with pytest.raises(ValueError, match="two replies to one prompt"):
        fever_calls([claims[0], changed(claims[0], 0, thought="I look elsewhere.")], "")


def test_another_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "other.json.gz", [{"idx": 1}])
    with pytest.raises(ValueError, match=r"other\.json\.gz is not the record.*claim"):
        load_fever(path)
    with pytest.raises(ValueError, match="is not the record"):
        load_webshop(write(tmp_path / "other.json.gz", {"idx": 1}))
    started = [{**WEBSHOP[0], "steps": WEBSHOP[0]["steps"][1:]}]
    with pytest.raises(ValueError, match="where it should be reset"):
        load_webshop(write(tmp_path / "other.json.gz", started))


# Environments


def test_an_environment_returns_what_was_recorded_at_each_place(claims: list[Episode]) -> None:
    environment = fever_environment()
    search, lookup, other = environment.tools
    environment.begin(claims[1])
    assert search.invoke({"text": "Ur"}) == "Ur was a city in Sumer."
    assert other.invoke({"text": " Finish[REFUTES]"}) == "Invalid action: Finish[REFUTES]"
    assert environment.left == 5
    for tool, text in ((lookup, "Ur"), (search, "Ur"), (other, "Finish[SUPPORTS]")):
        environment.begin(claims[1])
        search.invoke({"text": "Ur"})
        with pytest.raises(NotRecordedError):
            tool.invoke({"text": text})
        assert environment.problem is not None


def test_an_environment_has_nothing_behind_its_last_step() -> None:
    environment = fever_environment()
    environment.begin(Episode(3, "c", (RecordedStep("", "Search[x]", "y"),), 0.0))
    environment.tools[0].invoke({"text": "x"})
    with pytest.raises(NotRecordedError, match="episode 3: its steps are over"):
        environment.tools[0].invoke({"text": "x"})


def test_buying_ends_an_episode_and_nothing_else_does(purchases: list[Episode]) -> None:
    environment = webshop_environment()
    tools = {tool.name: tool for tool in environment.tools}
    for episode, ends in zip(purchases, ([5], []), strict=True):
        environment.begin(episode)
        ended = []
        for place, step in enumerate(episode.steps):
            name, _, rest = step.action.partition("[")
            known = name in tools
            text = (rest[:-1] if rest.endswith("]") else rest) if known else step.action
            assert tools[name if known else "any_action"].invoke({"text": text}) == step.observation
            if tools["click"].return_direct:
                ended.append(place)
        assert ended == ends


def test_a_thought_that_was_cut_is_recognized_and_a_shorter_one_is_not(purchases: list[Episode]) -> None:
    for text, right in (("M1 has the options 'red', 'blue',", True), ("M1 has the options 'red', 'blue'", True),
                        ("M1 has the options", False), ("M1 has the options 'red', 'blue', ", False)):  # fmt: skip
        environment = webshop_environment()
        tools = {tool.name: tool for tool in environment.tools}
        environment.begin(purchases[0])
        tools["search"].invoke({"text": "red mug"})
        if right:
            assert tools["think"].invoke({"text": text}) == "OK."
        else:
            with pytest.raises(NotRecordedError):
                tools["think"].invoke({"text": text})
