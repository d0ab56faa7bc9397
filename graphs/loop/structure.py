"""An answer in a required form: a Pydantic model, a TypedDict, a dataclass or a JSON Schema."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints, is_typeddict

from langchain_core.messages import AIMessage
from pydantic import BaseModel, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from taograph.graphs.protocols.acceptable import safe_name, storable
from taograph.graphs.protocols.native import text_of
from taograph.tools.schemas import complaints, fault_of

# Models put raw line breaks into strings; strict=False reads them.
_DECODER = json.JSONDecoder(strict=False)
# A text may hold many braces that begin nothing.
_MOST_TRIED = 50


class WrongForm(ValueError):  # noqa: N818 - reads as what it says
    """A reply that does not fit the required form; the text says what is wrong, for the model."""


@dataclass(frozen=True)
class Structure:
    """A required form.

    Attributes:
        name: What the form is called; the tool that takes it has the same name.
        schema: Its JSON Schema.
        validate: A value in the form, as plain values, from one that should be.
    """

    name: str
    schema: Mapping[str, Any]
    validate: Callable[[Any], Any]

    @property
    def tool(self) -> dict[str, Any]:
        """The form as a tool that a model can call with the answer."""
        description = str(self.schema.get("description") or "Give the final answer.")
        parameters = {k: v for k, v in self.schema.items() if k not in ("title", "description")}
        return {
            "type": "function",
            "function": {"name": self.name, "description": description, "parameters": parameters},
        }

    def read(self, message: AIMessage) -> Any:
        """The value a reply gives: the arguments of its call of the form, or JSON in its text.

        Raises:
            WrongForm: It gives none, or one that does not fit.
        """
        calls = [call for call in message.tool_calls if call["name"] == self.name]
        if calls:
            return self.validate(calls[0]["args"])
        if message.invalid_tool_calls:
            raise WrongForm("the arguments are not a JSON object")
        wrong = WrongForm("there is no JSON object in the reply")
        for found in _objects(text_of(message)):
            is_call = set(found) == {"name", "arguments"} and found["name"] == self.name  # written as text
            try:
                return self.validate(found["arguments"] if is_call else found)
            except WrongForm as error:
                wrong = error
        raise wrong


def read_structure(form: Any) -> Structure:
    """The form that ``response_format`` asks for.

    Args:
        form: A Pydantic model class, a TypedDict, a dataclass, or a JSON Schema with a title; or what was read of one.

    Raises:
        ValueError: It is none of these, or not a valid schema.
    """
    if isinstance(form, Structure):
        return form
    if isinstance(form, Mapping):
        return _from_json_schema(form)
    if hasattr(form, "schema") and not isinstance(form, type):  # ToolStrategy, ProviderStrategy of create_agent
        return read_structure(form.schema)
    if not isinstance(form, type) and get_origin(form) is None:
        raise ValueError(f"response_format={form!r}: give a Pydantic model, a TypedDict, a dataclass or a JSON Schema")
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(_readable(form))
        schema = adapter.json_schema()
    except Exception as error:
        raise ValueError(
            f"response_format={form!r}: give a Pydantic model, a TypedDict, a dataclass or a JSON Schema ({error})"
        ) from error
    if schema.get("type") != "object":
        raise ValueError(f"response_format={form!r} is not an object with fields: wrap it in a Pydantic model")

    def validate(value: Any) -> Any:
        try:
            return _storable(adapter.dump_python(adapter.validate_python(value), mode="json"))
        except ValidationError as error:
            found = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors(include_url=False)]
            raise WrongForm("; ".join(f"{where}: {what}" if where else what for where, what in found[:8])) from None
        except WrongForm:
            raise
        except Exception as error:  # a validator of the caller's own
            raise WrongForm(f"a value was not accepted ({type(error).__name__})") from error

    if isinstance(form, type) and issubclass(form, BaseModel) and form.__doc__:
        schema = {**schema, "description": schema.get("description") or form.__doc__}
    return Structure(safe_name(str(getattr(form, "__name__", "Answer"))), schema, validate)


def _readable(form: Any) -> Any:
    """A form that Pydantic reads: it wants the ``TypedDict`` of typing_extensions where Python is older than 3.12."""
    return form if sys.version_info >= (3, 12) else _rebuilt(form)


def _rebuilt(form: Any) -> Any:
    """A type with every ``typing.TypedDict`` in it made anew; one that holds itself stays refused."""
    if is_typeddict(form):
        try:
            hints = get_type_hints(form, include_extras=True)
            fields = {name: _field(hint, name in form.__required_keys__) for name, hint in hints.items()}
        except (NameError, RecursionError):
            return form
        make: Any = TypedDict  # for the type checker, the fields would have to be written out
        made = make(form.__name__, fields)
        made.__doc__, made.__module__ = form.__doc__, form.__module__
        return made
    origin, held = get_origin(form), get_args(form)
    parts = tuple(_rebuilt(part) if origin is not Literal else part for part in held)
    if all(new is old for new, old in zip(parts, held, strict=True)):
        return form
    return Union[parts] if origin is UnionType else origin[parts]  # noqa: UP007 - made at run time


def _field(hint: Any, required: bool) -> Any:
    if get_origin(hint) in (Required, NotRequired):
        required, hint = get_origin(hint) is Required, get_args(hint)[0]
    made = _rebuilt(hint)
    return made if required else NotRequired[made]


def _from_json_schema(form: Mapping[str, Any]) -> Structure:
    if "json_schema" in form:  # the form OpenAI's API takes
        inner = form["json_schema"]
        if not isinstance(inner, Mapping) or not isinstance(inner.get("schema"), Mapping):
            raise ValueError('response_format: write {"json_schema": {"name": …, "schema": {…}}}')
        return _from_json_schema({"title": inner.get("name", "Answer"), **inner["schema"]})
    if form.get("type", "object") != "object":
        raise ValueError(f"response_format has type {form['type']!r}: the answer must be an object with fields")
    fault = fault_of(form)
    if fault:
        raise ValueError(f"response_format cannot be used: {fault}")

    def validate(value: Any) -> Any:
        found = complaints(form, value)
        if found:
            raise WrongForm("; ".join(found))
        return _storable(value)

    return Structure(safe_name(str(form.get("title") or "Answer")), {"type": "object", **form}, validate)


def _objects(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in a text, each only as a whole."""
    start, tried = text.find("{"), 0
    while start >= 0 and tried < _MOST_TRIED:
        tried += 1
        try:
            value, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            yield value
        start = text.find("{", end)


def _storable(value: Any) -> Any:
    try:
        if storable(value) is value:
            return value
    except RecursionError:
        raise WrongForm("it is nested too deeply") from None
    raise WrongForm("a whole number has more than 64 bits, which cannot be kept")
