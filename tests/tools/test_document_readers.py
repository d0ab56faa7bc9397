"""Reading each kind of file, and saying what is wrong with those that can't be read."""

import io
import sys
import time
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taograph.tools.engines import document_readers
from taograph.tools.engines.document_readers import READERS, Document, Section, Unreadable, read_file
from taograph.tools.engines.passages import PAGE_CHARS, PASSAGE_CHARS, passages, split

docx = pytest.importorskip("docx", reason="needs taograph[docs]")
pypdf = pytest.importorskip("pypdf", reason="needs taograph[docs]")


def pdf(*pages: str) -> bytes:
    """A PDF with a line of text on each page."""
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * at} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>",
            f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
        ]
    out = io.BytesIO(b"%PDF-1.4\n")
    out.seek(0, 2)
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(out.tell())
        out.write(f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1"))
    start = out.tell()
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode())
    out.write("".join(f"{offset:010} 00000 n \n" for offset in offsets).encode())
    out.write(f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode())
    return out.getvalue()


def read(folder: Path, name: str, data: bytes | str) -> Document:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_file(path)


def parts(document: Document) -> list[tuple[str, str]]:
    return [(section.heading, section.text) for section in document.sections]


def test_markdown(tmp_path: Path) -> None:
    text = (
        "intro\n# **Guide** #\nfirst\n\n\n\n## Setup\nsecond   \n### On Linux\nthird\n"
        "```sh\n# no heading\n```\n## `use` it\nfourth\n# Annex\nfifth"
    )
    document = read(tmp_path, "a-guide.md", text)
    assert document.title == "Guide"
    assert parts(document) == [
        ("", "intro"),
        ("", "first"),
        ("Setup", "second"),
        ("Setup › On Linux", "third\n```sh\n# no heading\n```"),
        ("use it", "fourth"),
        ("Annex", "fifth"),
    ]


def test_markdown_with_front_matter(tmp_path: Path) -> None:
    document = read(tmp_path, "x.md", '---\ntags: [a]\ntitle: "Price list"\n---\n# Fees\n5 euro\n')
    assert (document.title, parts(document)) == ("Price list", [("Fees", "5 euro")])


@pytest.mark.parametrize(
    "line",
    [
        "# " + "#" * 200_000 + "x",
        "# a" + " " * 200_000 + "x",
        "# " + "a #" * 100_000,
        "---\ntitle:" + " " * 200_000 + "x\n---",
    ],
)
def test_strange_markdown_takes_no_longer(tmp_path: Path, line: str) -> None:
    began = time.monotonic()
    assert "text" in read(tmp_path, "a.md", line + "\ntext").sections[-1].text
    assert time.monotonic() - began < 10


def test_headings_with_closing_marks(tmp_path: Path) -> None:
    document = read(tmp_path, "a.md", "# A ##\n1\n## C#\n2\n## #1\n3\n##x\n#\n")
    assert (document.title, parts(document)) == ("A", [("", "1"), ("C#", "2"), ("#1", "3\n##x\n#")])


def test_plain_text_is_named_by_its_file(tmp_path: Path) -> None:
    document = read(tmp_path, "shopping-list_2024.txt", "eggs\r\nmilk\x0b" + "\u00a0and bread" * 20)
    assert (document.title, parts(document)) == ("shopping list 2024", [("", "eggs\nmilk" + " and bread" * 20)])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("Käse 5 €".encode(), "Käse 5 €"),
        ("Käse 5 €".encode("utf-8-sig"), "Käse 5 €"),
        ("Käse 5 €".encode("utf-16"), "Käse 5 €"),
        (b"\xfe\xff" + "Käse 5 €".encode("utf-16-be"), "Käse 5 €"),
        ("Käse 5 €".encode("utf-32"), "Käse 5 €"),
        ("Käse 5 €".encode("cp1252"), "Käse 5 €"),
        ("Ka\u0308se".encode(), "Käse"),
    ],
)
def test_charsets(tmp_path: Path, data: bytes, text: str) -> None:
    assert parts(read(tmp_path, "a.txt", data)) == [("", text)]


def test_html(tmp_path: Path) -> None:
    pytest.importorskip("trafilatura", reason="needs taograph[docs]")
    page = (
        "<html><head><title>Returns</title></head><body><nav>Home Shop Cart</nav><article><h1>Returns</h1>"
        "<p>You can return goods within 30 days of delivery if they are unused and complete.</p>"
        "<h2>Damaged goods</h2><p>Write to us with a photograph; we send a replacement.</p>"
        "<table><tr><th>Country</th><th>Fee</th></tr><tr><td>France</td><td>4 euro</td></tr></table>"
        "</article><script>var x = 1;</script></body></html>"
    )
    for name in ("a.html", "b.HTM"):
        document = read(tmp_path, name, page)
        assert document.title == "Returns"
        assert [heading for heading, _ in parts(document)] == ["", "Damaged goods"]
        text = " ".join(text for _, text in parts(document))
        assert "30 days" in text
        assert "France | 4 euro" in text
        assert "var x" not in text
    small = read(tmp_path, "c.html", "<p>Only caf\xe9</p>".encode("latin-1"))
    assert (small.title, parts(small)) == ("c", [("", "Only café")])
    named = '<html><head><meta charset="koi8-r"></head><body><p>Привет всем</p></body></html>'
    assert parts(read(tmp_path, "d.html", named.encode("koi8-r"))) == [("", "Привет всем")]


def test_pdf(tmp_path: Path) -> None:
    document = read(tmp_path, "tide-table.pdf", pdf("High water at noon", "", "Low water at six"))
    assert document.title == "tide table"
    assert parts(document) == [("PDF page 1", "High water at noon"), ("PDF page 3", "Low water at six")]


def test_docx(tmp_path: Path) -> None:
    made = docx.Document()
    made.add_paragraph("Lease", style="Title")
    made.add_paragraph("Between two parties.")
    made.add_heading("Rent", level=2)
    made.add_paragraph("Due on the third.")
    table = made.add_table(rows=2, cols=2)
    for cell, text in zip((*table.rows[0].cells, *table.rows[1].cells), ("Room", "Price", "Attic", "310"), strict=True):
        cell.text = text
    made.save(str(tmp_path / "x.docx"))
    document = read_file(tmp_path / "x.docx")
    assert document.title == "Lease"
    assert parts(document) == [
        ("", "Between two parties."),
        ("Rent", "Due on the third.\n\nRoom | Price\nAttic | 310"),
    ]


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"", "^empty$"),
        ("a.md", b" \n\t\n", "no text in it"),
        ("a.txt", bytes(range(256)) * 8, "not text"),
        ("a.html", b"<html><body></body></html>", "no text in it"),
        ("a.pdf", b"%PDF-1.4 nothing more", r"damaged, or not a \.pdf file"),
        ("a.pdf", b"hello", r"damaged, or not a \.pdf file"),
        ("a.pdf", pdf("", ""), r"only images.*\(OCR\)"),
        ("a.docx", b"hello", r"damaged, or not a \.docx file"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, name: str, data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason) as caught:
        read(tmp_path, name, data)
    assert not caught.value.passing


def test_a_pdf_with_a_password(tmp_path: Path) -> None:
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("secret")))
    writer.encrypt("a password", algorithm="RC4-128")
    writer.write(str(tmp_path / "a.pdf"))
    with pytest.raises(Unreadable, match="protected by a password"):
        read_file(tmp_path / "a.pdf")


def test_a_large_file_and_a_packed_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_readers, "MAX_UNZIPPED_BYTES", 10_000_000)
    with zipfile.ZipFile(tmp_path / "a.docx", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"0" * 11_000_000)
    with pytest.raises(Unreadable, match="unpacks to more than 10 MB"):
        read_file(tmp_path / "a.docx")
    monkeypatch.setattr(document_readers, "MAX_FILE_BYTES", 1_000_000)
    with pytest.raises(Unreadable, match="larger than 1 MB"):
        read(tmp_path, "a.txt", b"x" * 1_000_001)


@pytest.mark.parametrize(("name", "module"), [("a.pdf", "pypdf"), ("a.docx", "docx"), ("a.html", "trafilatura")])
def test_a_missing_library_is_named_with_the_fix(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(Unreadable, match=rf"need {module}: pip install taograph\[docs\]") as caught:
        read(tmp_path, name, b"hello")
    assert caught.value.passing


def test_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    (tmp_path / "a.txt").write_text("hello", encoding="utf-8")
    with pytest.raises(Unreadable, match="no permission to read it") as caught:
        read_file(tmp_path / "a.txt")
    assert caught.value.passing


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=2000), suffix=st.sampled_from([".md", ".txt", ".pdf", ".docx"]))
def test_any_bytes_are_read_or_named(tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str) -> None:
    path = tmp_path_factory.mktemp("any") / f"a{suffix}"
    path.write_bytes(data)
    try:
        document = read_file(path)
    except Unreadable as error:
        document = Document("", [Section("", error.reason)])
    assert all(section.text.strip() for section in document.sections)
    assert "\x00" not in document.title


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="ab .,!\n。", max_size=900), st.integers(20, 200))
def test_pieces_are_small_and_lose_nothing(text: str, size: int) -> None:
    pieces = split(text, size)
    assert all(0 < len(piece) <= size for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_pieces_end_where_a_reader_would_pause() -> None:
    text = "One sentence here. Another sentence there.\n\nA new paragraph, which is longer than the others are."
    assert split(text, 60) == [
        "One sentence here. Another sentence there.",
        "A new paragraph, which is longer than the others are.",
    ]
    assert split(text, 30)[:2] == ["One sentence here.", "Another sentence there."]
    assert len(set(map(len, split("x" * 1410, 700)))) <= 2


def test_pages_are_bounded_and_hold_everything() -> None:
    sections = [Section(f"Part {number}", f"word{number} " * 130) for number in range(40)]
    made = passages(Document("Title", sections, "other names"))
    assert [piece.page for piece in made] == sorted(piece.page for piece in made)
    for page in range(1, made[-1].page + 1):
        on_it = [piece for piece in made if piece.page == page]
        assert sum(len(piece.text) + len(piece.heading) + 7 for piece in on_it) <= PAGE_CHARS + 7
    assert all(len(piece.text) <= PASSAGE_CHARS for piece in made)
    assert sum(piece.text.count("word7 ") + piece.text.endswith("word7") for piece in made) == 130
    assert {piece.part for piece in made} == {0, 1}


def test_every_kind_of_file_has_a_reader() -> None:
    assert set(READERS) == {".md", ".txt", ".html", ".htm", ".pdf", ".docx"}
