"""Encryption at rest, of all that LangGraph's serializer leaves in clear too.

LangGraph encrypts what goes through its serializer: values of channels and what tasks write. It leaves in clear
the metadata of checkpoints, where it puts the caller's ``config["metadata"]`` and every other string and number
in ``configurable``, and, on PostgreSQL, short values (an answer is one), which stand in a column of JSON. Here
both are sealed: encrypted by the same serializer and written as text. What LangGraph itself filters metadata by
stays as it is, see ``_CLEAR``.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from typing import Any

from langgraph.checkpoint.serde.base import CipherProtocol, SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from taograph.redaction import HIDDEN, redact

KEY = "LANGGRAPH_AES_KEY"
_CLEAR = frozenset({"source", "step", "parents", "counters_since_delta_snapshot"})
_SEALED = "taograph_sealed"
_MARK = "\x02taograph sealed:"
_SECRET = re.compile(r"((api|access|secret|private|signing|auth)[-_]?key|token|secret|passw(or)?d|credentials?)$", re.I)


class Unreadable(ValueError):  # noqa: N818 - says what the stored data is
    """Stored data can't be decrypted with the key at hand; the message says what to do."""


class Cipher(CipherProtocol):
    """AES in EAX mode, as LangGraph's ``EncryptedSerializer.from_pycryptodome_aes`` writes it.

    Args:
        key: 16, 24 or 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        """Encrypt; a nonce of its own each time."""
        from Crypto.Cipher import AES

        cipher = AES.new(self._key, AES.MODE_EAX)
        ciphertext, tag = cipher.encrypt_and_digest(plaintext)
        return "aes", cipher.nonce + tag + ciphertext

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        """Decrypt what was encrypted with the same key.

        Raises:
            Unreadable: It was another key, or the data was changed.
        """
        from Crypto.Cipher import AES

        if ciphername != "aes":
            raise Unreadable(f"checkpoints: stored with the cipher {ciphername!r}, which is not known here")
        nonce, tag, rest = ciphertext[:16], ciphertext[16:32], ciphertext[32:]
        try:
            return AES.new(self._key, AES.MODE_EAX, nonce=nonce).decrypt_and_verify(rest, tag)
        except ValueError:
            raise Unreadable(
                f"checkpoints: stored with another {KEY} than this process has, or changed since; set the key it "
                "was stored with"
            ) from None


class Serializer(JsonPlusSerializer):
    """LangGraph's serializer, with a word on what was encrypted."""

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Read a value.

        Raises:
            Unreadable: It is encrypted, and this process has no key.
        """
        if "+" in data[0]:
            raise Unreadable(f"checkpoints: stored encrypted; set {KEY} to the key it was stored with")
        return super().loads_typed(data)


def make_serializer() -> SerializerProtocol:
    """The serializer that the environment asks for: encrypting where there is a key.

    Raises:
        ValueError: The key is none, or the package that encrypts is not installed.
    """
    text = os.environ.get(KEY)
    if text is None:
        return Serializer()
    key = text.encode()
    if len(key) not in (16, 24, 32):
        raise ValueError(f"checkpoints: {KEY} must be 16, 24 or 32 bytes long, it has {len(key)}; unset it for none")
    try:
        import Crypto.Cipher.AES  # noqa: F401
    except ImportError:
        raise ValueError(
            f"checkpoints: {KEY} is set, and what encrypts is not installed: pip install 'taograph[encryption]'"
        ) from None
    return EncryptedSerializer(Cipher(key), Serializer())


def encrypts(serde: SerializerProtocol) -> bool:
    """Whether a serializer encrypts."""
    return isinstance(serde, EncryptedSerializer)


def seal(serde: SerializerProtocol, value: Any) -> str:
    """A value as a text that says nothing; see :func:`unseal`."""
    kind, data = serde.dumps_typed(value)
    return f"{_MARK}{kind}:{base64.b64encode(data).decode()}"


def unseal(serde: SerializerProtocol, value: Any) -> Any:
    """What was sealed; anything else as it is."""
    if not isinstance(value, str) or not value.startswith(_MARK):
        return value
    kind, _, data = value.removeprefix(_MARK).partition(":")
    return serde.loads_typed((kind, base64.b64decode(data)))


def as_stored(serde: SerializerProtocol, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as it is stored: secrets hidden, and sealed where the serializer encrypts.

    Keys of APIs are passed in ``configurable`` all too often. Nobody looks for a checkpoint by one.
    """
    clear = {name: value for name, value in metadata.items() if name in _CLEAR}
    rest = {name: _hidden(name, value) for name, value in metadata.items() if name not in _CLEAR}
    if rest and encrypts(serde):
        return {**clear, _SEALED: seal(serde, rest)}
    return {**clear, **rest}


def as_given(serde: SerializerProtocol, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata as it was given, secrets apart."""
    if _SEALED not in metadata:
        return dict(metadata)
    clear = {name: value for name, value in metadata.items() if name != _SEALED}
    return {**unseal(serde, metadata[_SEALED]), **clear}


def split_filter(serde: SerializerProtocol, wanted: Mapping[str, Any] | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the database can filter metadata by, and what has to be looked at here."""
    everything = dict(wanted or {})
    if not encrypts(serde):
        return everything, {}
    sealed = {name: value for name, value in everything.items() if name not in _CLEAR}
    return {name: value for name, value in everything.items() if name in _CLEAR}, sealed


def fits(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether metadata has what is wanted."""
    return all(name in metadata and metadata[name] == value for name, value in wanted.items())


def _hidden(name: str, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if value and _SECRET.search(name):
        return HIDDEN
    return redact(_whole(value))


def is_plain_text(value: str) -> bool:
    """Whether a column of JSON gives a text back as it is: no NUL, no half of a surrogate pair, no mark of ours."""
    return "\x00" not in value and not value.startswith(_MARK) and value == _whole(value)


def _whole(value: str) -> str:
    return value.encode("utf-8", "replace").decode()
