"""Answers that are given as options: ``tao resume THREAD --approve | --reject WHY | --edit JSON | --answer TEXT``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import typer

from taograph.cli.ask import read_arguments
from taograph.cli.text import one_line
from taograph.cli.waiting import Waiting, in_words

_ALL = "all"
_UNFINISHED = ("repeat", "done", "unknown")


@dataclass(frozen=True, slots=True)
class Given:
    """What was said on the command line.

    Attributes:
        approve: Run the call as it is.
        reject: Do not run it; why.
        edit: Run it with these arguments, in JSON.
        answer: The answer to a question, or what to do with a call that was cut off.
        calls: Which of several: ids with commas between them, or "all".
        stop: With a rejection: end the run.
        by: Who says it.
    """

    approve: bool = False
    reject: str | None = None
    edit: str | None = None
    answer: str | None = None
    calls: str | None = None
    stop: bool = False
    by: str = ""

    def __bool__(self) -> bool:
        return bool(self._said())

    def _said(self) -> list[str]:
        said = {
            "--approve": self.approve,
            "--reject": self.reject is not None,
            "--edit": self.edit is not None,
            "--answer": self.answer is not None,
        }
        return [option for option, there in said.items() if there]

    def check(self) -> None:
        """Refuse what contradicts itself, before anything is opened.

        Raises:
            typer.BadParameter: The message names the option and says the fix.
        """
        said = self._said()
        if len(said) > 1:
            raise typer.BadParameter(f"give one of {', '.join(said)}, not several", param_hint=said[1])
        for option, there, needs in (("--call", self.calls, ""), ("--stop", self.stop, "--reject")):
            if there and (not said or (needs and needs not in said)):
                fix = needs or "--approve, --reject, --edit or --answer"
                raise typer.BadParameter(f"it says nothing without {fix}", param_hint=option)
        if self.edit is not None:
            self._arguments()

    def to_answers(self, waiting: Sequence[Waiting]) -> dict[str, Any]:
        """Answers by interrupt, for what is meant of what waits.

        Args:
            waiting: What the run waits for.

        Raises:
            typer.BadParameter: It fits nothing that waits, or more than one thing.
        """
        option = self._said()[0]
        wanted = "approval" if option in ("--approve", "--reject", "--edit") else ""
        fitting = [each for each in waiting if (each.kind == "approval") == bool(wanted)]
        if not fitting:
            raise typer.BadParameter(
                f"the run waits for {in_words(waiting)}: "
                + ("answer with --answer" if wanted else "answer with --approve, --reject or --edit"),
                param_hint=option,
            )
        meant = self._meant(fitting, waiting)
        if len(meant) > 1 and self.edit is not None:
            raise typer.BadParameter("one call at a time can be edited: name it with --call ID", param_hint="--edit")
        return {each.interrupt: self._answer(each) for each in meant}

    def _meant(self, fitting: Sequence[Waiting], waiting: Sequence[Waiting]) -> list[Waiting]:
        ids = ", ".join(one_line(each.id, 60) for each in fitting)
        if self.calls is None:
            if len(fitting) == 1:
                return [*fitting]
            raise typer.BadParameter(
                f"{len(fitting)} wait: name one or more of {ids}, with commas between them, or all",
                param_hint="--call",
            )
        if self.calls.strip().lower() == _ALL:
            return [*fitting]
        meant: list[Waiting] = []
        for name in filter(None, map(str.strip, self.calls.split(","))):
            found = [each for each in waiting if each.id == name] or [
                each for each in waiting if each.id.startswith(name) or each.interrupt.startswith(name)
            ]
            if len(found) != 1 or found[0] not in fitting:
                many = "more than one begins so" if len(found) > 1 else "none that can be answered so is called that"
                raise typer.BadParameter(f"{name!r}: {many}; there are {ids}", param_hint="--call")
            meant += [each for each in found if each not in meant]
        if not meant:
            raise typer.BadParameter(f"it is empty: name one of {ids}, or all", param_hint="--call")
        return meant

    def _answer(self, each: Waiting) -> Any:
        if each.kind == "approval":
            decision = "edit" if self.edit is not None else "approve" if self.approve else "reject"
            answer: dict[str, Any] = {"decision": decision, "by": self.by, "hash": each.value.get("hash")}
            if decision == "edit":
                answer["args"] = self._arguments()
            elif decision == "reject":
                answer |= {"reason": self.reject or "", "stop": self.stop}
            return answer
        text = self.answer or ""
        if each.kind == "question":
            return text
        if each.kind == "unfinished_call":
            word, _, result = text.partition(":")
            if (decision := word.strip().lower()) not in _UNFINISHED or (result and decision != "done"):
                raise typer.BadParameter(
                    f'{text!r}: for {each.tool} write repeat (it did not take effect), "done: what it returned" '
                    "(it did), or unknown (the model is told so)",
                    param_hint="--answer",
                )
            return {"decision": decision, "result": result.strip()}
        try:
            return json.loads(text)
        except ValueError:
            return text

    def _arguments(self) -> Mapping[str, Any]:
        args, complaint = read_arguments(self.edit or "")
        if args is None:
            raise typer.BadParameter(str(complaint), param_hint="--edit")
        return args
