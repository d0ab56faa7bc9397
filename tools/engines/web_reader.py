"""Text from what a server sent. Run as a program, in a process of its own: see :mod:`web_text`.

Pages are written by strangers, and there are small ones that a parser works on for minutes or that fill the
memory. A process can be stopped at any moment and held to its share; a thread cannot.
"""

from __future__ import annotations

import codecs
import json
import re
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from email.message import Message
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import unquote, urlsplit

from taograph.tools.engines.document_readers import Unreadable, clean, read_file

MOST_CHARS = 2_000_000
_MEMORY = 2_000_000_000
_SAMPLE = 50_000
_ARTICLE = 1_500_000
_START = 200_000
"""Characters of a page in which it says what it is called."""
_DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
)  # fmt: skip
# Encodings that pages are written in. Python knows others under names a page may give, some of which take
# minutes for a megabyte (punycode) or are no encodings of text at all.
_ENCODINGS = re.compile(
    r"utf-(?:8|8-sig|16|16-le|16-be|32|32-le|32-be)|ascii|iso8859-\d+|cp(?:125\d|437|85\d|866|874|932|949|950)"
    r"|koi8-[rtu]|gb2312|gbk|gb18030|big5|big5hkscs|shift_jis|euc_jp|euc_kr|iso2022_jp|mac-\w+|tis-620|ptcp154"
)


@dataclass(frozen=True, slots=True)
class PageText:
    """What a page says.

    Attributes:
        title: Its title; empty where it has none.
        date: When it was published or changed, as YYYY-MM-DD; empty where it does not say.
        text: Its main text, as Markdown where it has structure.
        cut: Whether the text is longer than :data:`MOST_CHARS` and was cut there.
    """

    title: str
    date: str
    text: str
    cut: bool = False


def read(body: bytes, content_type: str, url: str) -> PageText:
    """Text from the body of a response.

    Args:
        body: The body, unpacked.
        content_type: The ``Content-Type`` it came with; may be empty.
        url: Where it came from.

    Raises:
        Unreadable: There is no text in it; the reason is meant for the model.
    """
    header = Message()
    header["content-type"] = content_type
    kind = _kind(header.get_content_type() if content_type else "", body)
    if kind in (".pdf", ".docx"):
        page = _document(body, kind, url)
    else:
        charset = header.get_param("charset")
        text = decode(body, charset if isinstance(charset, str) else "", markup=kind == ".html")
        page = _html(text, url) if kind == ".html" else PageText("", "", clean(text))
    if not page.text:
        raise Unreadable("there is no text in it")
    return PageText(page.title, page.date, page.text[:MOST_CHARS], len(page.text) > MOST_CHARS)


def _kind(content_type: str, body: bytes) -> str:
    """What a body is to be read as, by its own first bytes where they tell more than what the server said."""
    start = body[:1024].lstrip()
    if start.startswith(b"%PDF-"):
        return ".pdf"
    if content_type == _DOCX:
        return ".docx"
    if content_type in ("text/html", "application/xhtml+xml"):
        return ".html"
    unclear = content_type in ("", "application/octet-stream", "application/pdf", "text/plain")
    if unclear and re.match(rb"(?:\xef\xbb\xbf)?\s*(?:<!doctype html|<html)", start, re.IGNORECASE):
        return ".html" if content_type != "text/plain" else ".txt"
    return ".txt"


def decode(body: bytes, charset: str, *, markup: bool) -> str:
    """Text from bytes: by byte order mark, else as the server or the page says, else as it looks.

    Args:
        body: The bytes.
        charset: What the server said.
        markup: Whether the page may say it itself.

    Raises:
        Unreadable: They are no text.
    """
    for mark, encoding in _MARKS:
        if body.startswith(mark):
            return _text(body[len(mark) :].decode(encoding, errors="replace"))
    said = [charset]
    if markup:
        named = re.search(rb"<meta[^>]{0,500}?charset\s*=\s*[\"']?\s*([\w.:-]+)", body[:4096], re.IGNORECASE)
        said.append(named[1].decode("ascii", errors="ignore") if named else "")
    named = re.match(rb"\s*<\?xml[^>]{0,200}?encoding\s*=\s*[\"']([\w.:-]+)", body[:300])
    said.append(named[1].decode("ascii", errors="ignore") if named else "")
    for name in said:
        encoding = _known(name)
        if encoding:
            return _text(body.decode(encoding, errors="replace"))
    with suppress(UnicodeDecodeError):
        return _text(body.decode("utf-8"))
    return _text(body.decode(_guess(body), errors="replace"))


def _known(name: str) -> str:
    """Python's name of an encoding that a page may be in; empty where it is none."""
    try:
        found = codecs.lookup(name.strip("\"' ")).name if name else ""
    except LookupError:
        return ""
    # What calls itself Latin-1 or ASCII is in Windows-1252, says the Encoding standard.
    return {"ascii": "cp1252", "iso8859-1": "cp1252"}.get(found, found) if _ENCODINGS.fullmatch(found) else ""


def _guess(body: bytes) -> str:
    """The encoding of text that is not said to be in any, and not in UTF-8.

    Among letters of which few are accented the libraries guess badly, and Windows-1252 is nearly always right.
    """
    sample = re.sub(rb"<[^>]{0,2000}>", b"", body[: _SAMPLE * 4])[:_SAMPLE]
    letters = re.findall(rb"[A-Za-z\x80-\xff]", sample)
    if sum(letter >= b"\x80" for letter in letters) < len(letters) / 4:
        return "cp1252"
    try:
        from charset_normalizer import from_bytes
    except ImportError:
        return "cp1252"
    best = from_bytes(sample).best()
    return (_known(best.encoding) if best else "") or "cp1252"


def _text(text: str) -> str:
    sample = text[:_SAMPLE]
    odd = sum(sample.count(chr(code)) for code in range(32) if chr(code) not in "\t\n\f\r\x1b") + sample.count("\ufffd")
    if odd > len(sample) / 50:
        raise Unreadable("it is no text")
    return text


def _html(text: str, url: str) -> PageText:
    import trafilatura

    # lxml takes no text that says how its bytes are encoded.
    text = re.sub(r"^\s*<\?xml[^>]*\?>", "", text)
    if not re.search(r"<html\b", text[:_SAMPLE], re.IGNORECASE):
        text = f"<html>{text}</html>"  # which may be left out, but the parser then takes the first element for all
    found: str | None = None
    if len(text) <= _ARTICLE:
        found = trafilatura.extract(
            text, url=url, output_format="markdown", include_formatting=True, include_comments=False, favor_recall=True
        )
    # Too little prose for an article, or so much that finding it takes too long: then all is the text.
    if not found:
        body = re.sub(r"<title\b.*?</title\s*>", "", text, count=1, flags=re.DOTALL | re.IGNORECASE)
        found = trafilatura.html2txt(f"<html><body>{body}</body></html>")
    start = text[:_START]
    named = trafilatura.extract_metadata(start, default_url=url, extensive=False)
    # Only what the page says of itself: a date in its text is as likely that of something it tells of.
    dated = trafilatura.extract_metadata(re.split(r"<body\b", start, maxsplit=1, flags=re.I)[0], extensive=False)
    title, date = named.title if named else "", dated.date if dated else ""
    if not clean(found or ""):
        raise Unreadable("it shows its text only to a browser that runs its scripts, or has none")
    return PageText(clean(title or "").replace("\n", " ")[:200], date or "", clean(found))


def _document(body: bytes, suffix: str, url: str) -> PageText:
    name = re.sub(r"[^\w .-]+", " ", unquote(Path(urlsplit(url).path).stem)).strip(" .")[:80] or "document"
    with TemporaryDirectory() as folder:
        path = Path(folder, name + suffix)
        path.write_bytes(body)
        document = read_file(path)
    parts = (f"## {part.heading}\n\n{part.text}" if part.heading else part.text for part in document.sections)
    return PageText(document.title, "", "\n\n".join(parts))


def main() -> None:
    """Read the page that standard input names, and write what was read to standard output."""
    asked = json.load(sys.stdin)
    _hold_back(asked["seconds"])
    try:
        answer = asdict(read(Path(asked["path"]).read_bytes(), asked["content_type"], asked["url"]))
    except Unreadable as error:
        answer = {"unreadable": error.reason}
    except ImportError as error:
        answer = {"missing": (error.name or "a library").partition(".")[0]}
    except MemoryError:
        answer = {"unreadable": "it takes too much memory to read"}
    json.dump(answer, sys.stdout)


def _hold_back(seconds: float) -> None:
    """Limit what this process may take, where the system can."""
    try:
        import resource
    except ImportError:  # Windows
        return
    for limit, most in ((resource.RLIMIT_AS, _MEMORY), (resource.RLIMIT_CPU, int(seconds) + 1)):
        with suppress(OSError, ValueError):
            resource.setrlimit(limit, (most, most))


if __name__ == "__main__":
    main()
