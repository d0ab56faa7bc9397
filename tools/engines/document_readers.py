"""Text, with its title and headings, from the kinds of file that people keep.

One function per kind; ``READERS`` is the list, so a new kind is one function and one line. The libraries are
imported when a file needs them, and a missing one is said of that file, with the fix.
"""

from __future__ import annotations

import codecs
import logging
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

MAX_FILE_BYTES = 50_000_000
MAX_UNZIPPED_BYTES = 300_000_000
MAX_PDF_SECONDS = 120.0
_INSTALL = "pip install taograph[docs]"


class Unreadable(Exception):  # noqa: N818 - reads as what it says of a file
    """Raised for a file that no text can be had from.

    Attributes:
        reason: What is wrong, and the fix where there is one, in words for the person whose file it is.
        passing: Whether it may be read another time though the file stays as it is: a library was missing,
            or a permission.
    """

    def __init__(self, reason: str, *, passing: bool = False) -> None:
        """Say why."""
        super().__init__(reason)
        self.reason = reason
        self.passing = passing


@dataclass(frozen=True, slots=True)
class Section:
    """A stretch of text under one heading.

    Attributes:
        heading: The headings above it, outermost first, parted by ``" › "``; empty where there are none.
        text: The text itself.
        keywords: Other words to find it by, not shown.
    """

    heading: str
    text: str
    keywords: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """What was read.

    Attributes:
        title: What the document calls itself.
        sections: Its text in order.
        keywords: Other names of the document, not shown.
    """

    title: str
    sections: list[Section] = field(default_factory=list)
    keywords: str = ""


def read_file(path: Path) -> Document:
    """Read a file by its suffix.

    Raises:
        Unreadable: Whatever is wrong with the file.
    """
    try:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise Unreadable(f"larger than {MAX_FILE_BYTES // 1_000_000} MB: split it")
        if size == 0:
            raise Unreadable("empty")
        read = READERS[path.suffix.lower()](path)
    except Unreadable:
        raise
    except ImportError as error:
        name = error.name.partition(".")[0] if error.name else "a library"
        raise Unreadable(f"{path.suffix.lower()} files need {name}: {_INSTALL}", passing=True) from error
    except PermissionError as error:
        raise Unreadable("no permission to read it", passing=True) from error
    except OSError as error:
        raise Unreadable(f"can't be read: {error.strerror or type(error).__name__}", passing=True) from error
    except Exception as error:  # a broken file may raise anything in a parser
        raise Unreadable(f"damaged, or not a {path.suffix.lower()} file ({type(error).__name__})") from error
    document = Document(
        clean(read.title).replace("\n", " ")[:200] or _name(path),
        [Section(clean(part.heading)[:200], text) for part in read.sections if (text := clean(part.text))],
    )
    if not document.sections:
        raise Unreadable("no text in it")
    return document


def clean(text: str) -> str:
    """The text without control characters, trailing spaces and runs of empty lines."""
    text = unicodedata.normalize("NFC", text.replace("\r\n", "\n").replace("\r", "\n").replace("\f", "\n"))
    text = re.sub(r"[\x00-\x08\x0b-\x1f\x7f\ufeff\ud800-\udfff]", "", text).replace("\u00a0", " ")
    lines = [line.rstrip() for line in text.split("\n")]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip("\n")


def decode(data: bytes) -> str:
    """Text from bytes: by its byte order mark, as UTF-8, or as Windows-1252.

    Raises:
        Unreadable: The bytes are no text.
    """
    marks = (codecs.BOM_UTF32_LE, "utf-32"), (codecs.BOM_UTF32_BE, "utf-32"), (codecs.BOM_UTF8, "utf-8-sig")
    for mark, encoding in (*marks, (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16")):
        if data.startswith(mark):
            return data.decode(encoding, errors="replace")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("cp1252", errors="replace")
    odd = sum(text.count(chr(code)) for code in range(32) if chr(code) not in "\t\n\f\r\x1b")
    if odd > len(text) / 100 or text.count("\ufffd") > len(text) / 20:
        raise Unreadable("not text: the characters in it make no sense")
    return text


def _name(path: Path) -> str:
    return re.sub(r"[-_\s]+", " ", path.stem).strip() or path.name


def _plain(path: Path) -> Document:
    return Document(_name(path), [Section("", decode(path.read_bytes()))])


def _markdown(path: Path) -> Document:
    return markdown(decode(path.read_bytes()), title=_name(path))


def markdown(text: str, *, title: str) -> Document:
    """A document from Markdown: a section for each heading, the first top heading as the title.

    Args:
        text: The Markdown.
        title: What to call it where it names itself nowhere.
    """
    top = ""
    front = re.match(r"---[ \t]*\n(.*?)\n---[ \t]*\n", text, re.DOTALL)
    if front:
        text = text[front.end() :]
        named = re.search(r"^title:(.*)$", front[1], re.MULTILINE)
        top = named[1].strip().strip("\"'") if named else ""
    sections: list[Section] = []
    path: list[tuple[int, str]] = []
    lines: list[str] = []
    fence = ""

    def end() -> None:
        sections.append(Section(" › ".join(name for _, name in path), "\n".join(lines)))
        lines.clear()

    for line in text.splitlines():
        mark = re.match(r"\s{0,3}(```+|~~~+)", line)
        if mark and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        heading = None if fence else re.match(r"(#{1,6})[ \t]+(\S.*)", line)
        if heading is None:
            lines.append(line)
            continue
        end()
        level, name = len(heading[1]), _heading(heading[2])
        if level == 1 and not top:
            top = name
            path = []
        else:
            path = [*((above, text) for above, text in path if above < level), (level, name)]
    end()
    return Document(top or title, sections)


def _heading(text: str) -> str:
    """A heading without emphasis and without closing marks, which stand after a space: "C#" ends in none."""
    text = text.rstrip()
    bare = text.rstrip("#")
    return re.sub(r"[*`]", "", bare if bare != bare.rstrip() else text).strip("_ \t")


def _html(path: Path) -> Document:
    import trafilatura

    page = _decode_html(path.read_bytes())
    with _quiet("trafilatura", "htmldate"):
        text = trafilatura.extract(
            page, output_format="markdown", include_formatting=True, include_comments=False, favor_recall=True
        )
        # Too little prose for an article: then everything on the page is the text.
        text = text or trafilatura.html2txt(f"<html><body>{page}</body></html>")
        named = trafilatura.extract_metadata(page)
    document = markdown(text or "", title="")
    return Document((named.title if named else "") or document.title or _name(path), document.sections)


def _decode_html(data: bytes) -> str:
    named = re.search(rb"<meta[^>]{0,200}?charset=[\"']?\s*([\w.:-]+)", data[:4096], re.IGNORECASE)
    if named:
        with suppress(LookupError, UnicodeError):
            return data.decode(named[1].decode("ascii"))
    return decode(data)


def _pdf(path: Path) -> Document:
    from pypdf import PasswordType, PdfReader

    with _quiet("pypdf"), path.open("rb") as file:
        reader = PdfReader(file)
        if reader.is_encrypted and reader.decrypt("") is PasswordType.NOT_DECRYPTED:
            raise Unreadable("protected by a password: save a copy without one")
        began = monotonic()
        sections = []
        for number, page in enumerate(reader.pages, start=1):
            sections.append(Section(f"PDF page {number}", page.extract_text()))
            if monotonic() - began > MAX_PDF_SECONDS:
                raise Unreadable(f"took longer than {MAX_PDF_SECONDS:.0f} s to read")
    if not any(section.text.strip() for section in sections):
        raise Unreadable("no text in it, only images: run it through text recognition (OCR) first")
    return Document(_name(path), sections)


def _docx(path: Path) -> Document:
    import docx
    from docx.table import Table

    with zipfile.ZipFile(path) as archive:
        if sum(entry.file_size for entry in archive.infolist()) > MAX_UNZIPPED_BYTES:
            raise Unreadable(f"unpacks to more than {MAX_UNZIPPED_BYTES // 1_000_000} MB")
    opened = docx.Document(str(path))
    lines: list[str] = []
    for block in opened.iter_inner_content():
        if isinstance(block, Table):
            rows = ([cell.text.strip().replace("\n", " ") for cell in row.cells] for row in block.rows)
            lines += [" | ".join(dict.fromkeys(cells)) for cells in rows] + [""]
            continue
        style = str(block.style.name or "") if block.style else ""
        level = re.fullmatch(r"Heading ([1-6])", style)
        marks = "#" * int(level[1]) + " " if level else "# " if style == "Title" else ""
        text = block.text.strip()
        lines += [marks + text.replace("\n", " ") if marks and text else text, ""]
    return markdown("\n".join(lines), title=(opened.core_properties.title or "").strip() or _name(path))


@contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Keep a library's remarks about a file from the terminal: what matters of them is in the report."""
    loggers = [logging.getLogger(name) for name in names]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


READERS: Mapping[str, Callable[[Path], Document]] = {
    ".md": _markdown,
    ".txt": _plain,
    ".html": _html,
    ".htm": _html,
    ".pdf": _pdf,
    ".docx": _docx,
}
