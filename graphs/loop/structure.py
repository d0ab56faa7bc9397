"""An answer in a required form: a Pydantic model, a TypedDict, a dataclass or a JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema
from langchain_core.messages import AIMessage
from pydantic import BaseModel, TypeAdapter, ValidationError

from taograph.graphs.protocols.native import text_of


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
        text = text_of(message)
        start = text.find("{")
        if start < 0:
            raise WrongForm("there is no JSON object in the reply")
        try:
            value, _ = json.JSONDecoder().raw_decode(text[start:])
        except (ValueError, RecursionError) as error:
            raise WrongForm(f"the JSON cannot be read: {error}") from None
        if set(value) == {"name", "arguments"} and value["name"] == self.name:  # a call, written as text
            value = value["arguments"]
        return self.validate(value)


def read_structure(form: Any) -> Structure:
    """The form that ``response_format`` asks for.

    Args:
        form: A Pydantic model class, a TypedDict, a dataclass, or a JSON Schema with a title.

    Raises:
        ValueError: It is none of these, or not a valid schema.
    """
    if isinstance(form, Mapping):
        return _from_json_schema(form)
    if hasattr(form, "schema") and not isinstance(form, type):  # ToolStrategy, ProviderStrategy of create_agent
        return read_structure(form.schema)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(form)
        schema = adapter.json_schema()
    except Exception as error:
        raise ValueError(
            f"response_format={form!r}: give a Pydantic model, a TypedDict, a dataclass or a JSON Schema ({error})"
        ) from error
    if schema.get("type") != "object":
        raise ValueError(f"response_format={form!r} is not an object with fields: wrap it in a Pydantic model")

    def validate(value: Any) -> Any:
        try:
            return adapter.dump_python(adapter.validate_python(value), mode="json")
        except ValidationError as error:
            found = [(".".join(map(str, one["loc"])), one["msg"]) for one in error.errors(include_url=False)]
            raise WrongForm("; ".join(f"{where}: {what}" if where else what for where, what in found[:8])) from None

    if isinstance(form, type) and issubclass(form, BaseModel) and form.__doc__:
        schema = {**schema, "description": schema.get("description") or form.__doc__}
    return Structure(str(getattr(form, "__name__", "Answer")), schema, validate)


def _from_json_schema(form: Mapping[str, Any]) -> Structure:
    if "json_schema" in form:  # the form OpenAI's API takes
        inner = form["json_schema"]
        return _from_json_schema({"title": inner.get("name", "Answer"), **inner.get("schema", {})})
    try:
        jsonschema.Draft202012Validator.check_schema(form)
    except jsonschema.SchemaError as error:
        raise ValueError(f"response_format is not a valid JSON Schema: {error.message}") from error
    if form.get("type", "object") != "object":
        raise ValueError(f"response_format has type {form['type']!r}: the answer must be an object with fields")
    validator = jsonschema.Draft202012Validator(form)

    def validate(value: Any) -> Any:
        found = [
            f"{'.'.join(map(str, e.absolute_path))}: {e.message}" if e.absolute_path else e.message
            for e in validator.iter_errors(value)
        ]
        if found:
            raise WrongForm("; ".join(found[:8]))
        return value

    name = "".join(c if c.isalnum() or c in "_-" else "_" for c in str(form.get("title") or "Answer"))[:64]
    return Structure(name, {"type": "object", **form}, validate)
