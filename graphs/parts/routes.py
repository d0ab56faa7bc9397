"""The router's decisions, as pure functions: where a question begins, whether an answer will do, what comes next.

Rules are asked in order; the first that speaks decides. To add one, write a function of :class:`Asked` that returns a
:class:`Route` or None, and give it with the others: ``create_router_graph(…, rules=(mine, *DEFAULT_RULES))``.

Numbers, addresses and names of tools look alike in every language, and so do the few whole phrases of
:data:`COURTESIES`. The rules that look at words know English only; what they do not know, the model decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """What the rules look at.

    Attributes:
        text: The question.
        tools: Name → description of each tool.
        require: Names of tools that must be called before an answer is accepted.
    """

    text: str
    tools: Mapping[str, str]
    require: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """A decision.

    Attributes:
        strategy: The strategy to begin with: "direct", "react", or any other that the router has.
        why: The reason, in words.
        plain: Whether ``direct`` is asked the question as it is, and not how sure it is of the answer.
    """

    strategy: str
    why: str
    plain: bool = False


Rule = Callable[[Asked], Route | None]

_COURTESIES = """
hi, hello, hey, hi there, hello there, good morning, good afternoon, good evening, good night, thanks, thank you,
thank you very much, thanks a lot, many thanks, bye, goodbye, see you, ok thanks, great thanks
hallo, guten morgen, guten tag, guten abend, danke, vielen dank, danke schön, tschüss
bonjour, bonsoir, salut, merci, merci beaucoup, au revoir
hola, buenos días, buenas tardes, buenas noches, gracias, muchas gracias, adiós
ciao, buongiorno, buonasera, grazie, grazie mille, arrivederci
olá, bom dia, boa tarde, boa noite, obrigado, obrigada
你好, 您好, 谢谢, 再见, こんにちは, ありがとう, 안녕하세요, 감사합니다
"""
COURTESIES = frozenset(phrase.strip() for phrase in re.split(r"[,\n]", _COURTESIES) if phrase.strip())
"""Greetings and thanks, in a few languages. A plain "ok" is none: it may be a consent."""

_URL = re.compile(r"https?://|\bwww\.\w", re.IGNORECASE)
_OWN = re.compile(
    r"\b(?:my|our)\s+(?:\w+\s+)?(?:documents?|files?|folders?|notes?|e-?mails?|inbox|calendar|wiki|knowledge base|"
    r"database|tickets?|orders?|invoices?|contracts?|repository|repo|code ?base|account|logs?)\b",
    re.IGNORECASE,
)
_FRESH = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|right now|currently|at the moment|as of now|this (?:week|month|year)|"
    r"(?:the )?latest|most recent|up[- ]to[- ]date|breaking|weather|forecast|news|stock price|share price|"
    r"exchange rate|what time is it|what day is it|what(?:'s| is) the (?:date|time))\b",
    re.IGNORECASE,
)
_GIVEN = re.compile(
    r"^\W*(?:please\s+)?(?:translate|rephrase|reword|paraphrase|summari[sz]e|shorten|proofread|rewrite)\b"
    r"(?=[\s\S]{0,200}(?::|\bfollowing\b|\bbelow\b|[\"“«]))",
    re.IGNORECASE,
)
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_DATE = re.compile(r"\b\d{1,4}([-/.])\d{1,2}\1\d{1,4}\b")
# A minus only with blanks around it: what is written without them is a range, a part number or a telephone number.
_SUM = re.compile(rf"(?<![\d.,]){_NUMBER}\s?%?(?:\s*(?:[+*/×÷^]|\*\*)\s*\(?\s*-?{_NUMBER}|\s+[-−]\s+\(?\s*{_NUMBER})+")
_CALCULATES = re.compile(r"calculat|arithmetic|\bmath|python|\bcode\b|comput", re.IGNORECASE)
_SMALL = 100


def no_tools(asked: Asked) -> Route | None:
    """Without tools there is nothing that a loop could do."""
    return None if asked.tools else Route("direct", "there are no tools")


def required_tools(asked: Asked) -> Route | None:
    """A tool has to be called."""
    return Route("react", f"{', '.join(asked.require)} must be called") if asked.require else None


def courtesy(asked: Asked) -> Route | None:
    """All that is said is a greeting or thanks."""
    said = " ".join(re.sub(r"[^\w\s'-]", " ", asked.text.lower()).split())
    return Route("direct", "a greeting or thanks", plain=True) if said in COURTESIES else None


def address(asked: Asked) -> Route | None:
    """It names a page of the web."""
    return Route("react", "it names a web address") if _URL.search(asked.text) else None


def given_text(asked: Asked) -> Route | None:
    """A text is to be translated, shortened or put in other words, and it is there."""
    found = _GIVEN.search(asked.text)
    return Route("direct", "the text to work on is in the question", plain=True) if found else None


def named_tool(asked: Asked) -> Route | None:
    """It names a tool, as it is called or in words."""
    for name in asked.tools:
        words = r"[\W_]+".join(re.escape(part) for part in re.split(r"[_\W]+", name) if part)
        if len(name) > 2 and words and re.search(rf"\b{words}\b", asked.text, re.IGNORECASE):
            return Route("react", f"it names the tool {name}")
    return None


def own_data(asked: Asked) -> Route | None:
    """It is about something that only the user has."""
    found = _OWN.search(asked.text)
    return Route("react", f'it is about "{found[0].lower()}"') if found else None


def fresh_data(asked: Asked) -> Route | None:
    """The answer changes from day to day."""
    found = _FRESH.search(asked.text)
    return Route("react", f'it asks for what is new: "{found[0].lower()}"') if found else None


def arithmetic(asked: Asked) -> Route | None:
    """It has a sum with larger numbers, and a tool can do it."""
    if not any(_CALCULATES.search(f"{name} {about}") for name, about in asked.tools.items()):
        return None
    for found in _SUM.finditer(_DATE.sub(" ", asked.text)):
        numbers = re.findall(_NUMBER, found[0])
        if len(numbers) > 2 or any("." in one or int(one.replace(",", "")) >= _SMALL for one in numbers):
            return Route("react", f"it has to be computed: {' '.join(found[0].split())}")
    return None


DEFAULT_RULES: tuple[Rule, ...] = (
    no_tools,
    required_tools,
    courtesy,
    address,
    given_text,
    named_tool,
    own_data,
    fresh_data,
    arithmetic,
)
"""The rules in the order in which they are asked."""


def decide(asked: Asked, rules: Sequence[Rule]) -> Route | None:
    """What the rules say; None where they do not decide."""
    return next((found for found in (rule(asked) for rule in rules) if found is not None), None)


# Whether an answer will do.

CONFIDENCE = (
    "Do not guess: where the answer needs a source, data that is not here, what is new, or a computation that you "
    "cannot do surely by yourself, say what is missing instead. Below the answer write one more line: "
    '"Confidence: high" if you are sure of it, "Confidence: low" if you are not.'
)
NO_WORDS = "I don't know."
_LINE = re.compile(r"^[ \t>*_#-]*confidence[ \t*_]*[:：][ \t*_]*(\w+)[^\n]*$", re.IGNORECASE | re.MULTILINE)
# Whoever does not know says so at once; further down it may be a quotation.
_HEAD = 400
_LOW = frozenset(("low", "none", "medium", "moderate", "unsure", "uncertain"))
_UNKNOWN = re.compile(
    r"\b(?:i (?:do not|don['’]t|cannot|can['’]t) (?:know|tell|say|determine|access|browse|look (?:it|that|this) up)\b|"
    r"i(?:'m| am|’m) (?:not (?:sure|certain|able)|unsure|uncertain|unable)\b|"
    r"i (?:do not|don['’]t) have (?:access|real-time|current|up-to-date|enough|any|the|that|this)\b|"
    r"as of my (?:last|knowledge|training)|(?:my )?knowledge cut-?off)",
    re.IGNORECASE,
)


def without_confidence(text: str) -> tuple[str, str]:
    """A text without its line of confidence, and the word that stood there; empty where there was none."""
    found = list(_LINE.finditer(text))
    return (_LINE.sub("", text).strip(), found[-1][1].lower()) if found else (text, "")


def doubt(answer: str, confidence: str) -> str | None:
    """Why an answer will not do; None where nothing speaks against it.

    Args:
        answer: The answer, without its line of confidence.
        confidence: The word of that line; empty where there was none.
    """
    if confidence in _LOW:
        return f"it says that its confidence is {confidence}"
    found = _UNKNOWN.search(answer[:_HEAD])
    return f'it says "{found[0]}"' if found else None


# What comes next.

DOUBT, OBJECTION = "doubt", "objection"

ESCALATIONS: Mapping[str, tuple[str, ...]] = {
    # The answer itself: not confident, or the check of the answer objects.
    DOUBT: ("react", "plan_execute", "reflexion"),
    OBJECTION: ("react", "reflexion", "plan_execute"),
    # It lost its way, or the way was too long: a plan.
    "step_limit": ("react", "plan_execute", "reflexion"),
    "tool_call_limit": ("react", "plan_execute"),
    "repeated_action": ("plan_execute", "reflexion"),
    # It did it wrong: find out what was wrong.
    "tool_errors": ("reflexion", "plan_execute"),
    "malformed_output": ("react", "reflexion", "plan_execute"),
    "empty_output": ("react", "reflexion", "plan_execute"),
}
"""What follows on a stop reason, in the order of preference. On those that are not here nothing does: a refusal, a
person's word, a model that is down, a cancellation, and what limits time and money."""


def following(
    cause: str, tried: Collection[str], there: Collection[str], table: Mapping[str, Sequence[str]]
) -> str | None:
    """The strategy that is tried next; None where there is none.

    Args:
        cause: A stop reason of the strategy before, or :data:`DOUBT` or :data:`OBJECTION`.
        tried: The strategies that were tried.
        there: Those that the router has.
        table: As :data:`ESCALATIONS`.
    """
    return next((name for name in table.get(cause, ()) if name in there and name not in tried), None)
