"""The three stores keep the same: what was written, in its order, under one chain, whoever writes."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import pytest
from trace_support import Raw, draft, events, types, whole, write

from taograph.trace import Sealer, Store, open_store
from taograph.trace.chain import GENESIS, hash_of, hash_of_content
from taograph.trace.stores.files import PENDING
from taograph.trace.verifying import verify

SEALER = Sealer(b"sixteen bytes ok")


def test_events_are_read_as_they_were_written(store: Store) -> None:
    drafts = whole("a", text="Zażółć 你好 \U0001f600 \0 \ud800", value={"n": [1, 2.5, None, True], "big": 2**60})
    write(store, drafts[:2], SEALER, delete_on="2026-10-28")
    store.append(drafts[2:], SEALER)
    found = events(store, "a")
    assert [e.seq for e in found] == [1, 2, 3, 4, 5]
    assert types(found) == ["run_started", "thought", "thought", "thought", "run_ended"]
    assert [e.prev for e in found] == [GENESIS, *(e.hash for e in found[:-1])]
    for entry, given in zip(found, drafts, strict=True):
        assert entry.content is not None
        assert entry.salt is not None
        assert entry.content["text"] == "Zażółć 你好 \U0001f600 \0 ?"
        assert entry.content["value"] == {"n": [1, 2.5, None, True], "big": str(2**60)}
        assert (entry.trace, entry.time, entry.content["step"]) == ("a", given.time, given.step)
        assert entry.hash == hash_of(entry.header)
        assert entry.content_hash == hash_of_content(entry.salt, entry.content)
        assert entry.signature == SEALER.sign(entry.hash)
    assert found[0].content is not None
    assert found[0].content["delete_on"] == "2026-10-28"


def test_what_is_known_of_traces(store: Store) -> None:
    write(store, whole("b", thread="t", user="u", run="r"), delete_on="2026-10-28")
    write(store, [draft("c", "run_started", minute=1, graph="other", thread="t"), draft("c", minute=2, run="late")])
    b, c = store.traces()
    assert (b.trace, b.thread, b.user, b.run, b.graph) == ("b", "t", "u", "r", "react")
    assert (b.started, b.last) == ("2026-05-01T12:00:00.000000+00:00", "2026-05-01T12:04:00.000000+00:00")
    assert (b.delete_on, b.count, b.head) == ("2026-10-28", 5, events(store, "b")[-1].hash)
    assert b.is_open is False
    assert b.is_erased is False
    assert (c.thread, c.user, c.run, c.graph, c.delete_on, c.count) == ("t", None, "", "other", None, 2)
    assert c.is_open is True
    assert [k.trace for k in store.traces(thread="t")] == ["b", "c"]
    assert [k.trace for k in store.traces(thread="t", user="u")] == ["b"]
    assert [k.trace for k in store.traces(run="r")] == ["b"]
    assert store.traces(user="nobody") == []
    assert sorted(store.ids()) == ["b", "c"]


def test_the_log_has_the_beginning_and_the_end_of_each(store: Store) -> None:
    write(store, whole("a", 3), SEALER)
    write(store, whole("b", 3, ends=False), SEALER)
    write(store, [draft("a", "tool_failed", minute=9)], SEALER)  # of a tool that was given up
    log = list(store.records())
    assert [(r.n, r.kind, r.trace, r.count) for r in log] == [
        (1, "opened", "a", 0),
        (2, "closed", "a", 3),
        (3, "opened", "b", 0),
        (4, "closed", "a", 4),
    ]
    assert [r.prev for r in log] == [GENESIS, *(r.hash for r in log[:-1])]
    assert all(r.hash == hash_of(r.header) and r.signature == SEALER.sign(r.hash) for r in log)
    assert [r.head for r in log] == [GENESIS, events(store, "a")[2].hash, GENESIS, events(store, "a")[3].hash]


def test_events_of_several_traces_in_one_go(store: Store) -> None:
    pairs = zip(whole("a"), whole("b"), strict=True)
    store.append([each for pair in pairs for each in pair], Sealer())
    assert verify(store).ok
    assert [k.count for k in store.traces()] == [5, 5]


def test_a_long_trace_is_read_in_pieces(store: Store) -> None:
    drafts = whole("long", 1203)
    for at in range(0, len(drafts), 200):
        store.append(drafts[at : at + 200], Sealer())
    assert [e.seq for e in store.entries("long")] == list(range(1, 1204))
    assert verify(store).ok


def test_opened_anew_it_goes_on(url: str) -> None:
    for part in (slice(0, 2), slice(2, 4), slice(4, 5)):
        store = open_store(url)
        write(store, whole("a")[part])
        store.close()
    again = open_store(url)
    assert types(events(again, "a"))[-1] == "run_ended"
    assert verify(again).ok
    again.close()


def test_what_cannot_be_written_leaves_nothing_behind(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, whole("a"))
    fine = Sealer()

    class Bad:
        def entry(self, *given: object) -> object:
            made = fine.entry(*given)  # type: ignore[arg-type]
            if made.seq == 3:
                raise ValueError("no event")
            return made

        record = fine.record

    with pytest.raises(ValueError, match="no event"):
        store.append(whole("b"), Bad())  # type: ignore[arg-type]
    assert store.ids() == ["a"]
    assert len(list(store.records())) == 2
    write(store, whole("b"))
    assert verify(store).ok


def test_threads_write_at_once(store: Store) -> None:
    begin = threading.Barrier(4)

    def run(name: str) -> None:
        begin.wait()
        write(store, whole(name, 12))

    workers = [threading.Thread(target=run, args=(f"trace {n}",)) for n in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    report = verify(store)
    assert report.ok, report.faults
    assert report.events == 48


WORKER = textwrap.dedent(
    """
    import sys
    sys.path.insert(0, sys.argv[3])
    from trace_support import whole, write
    from taograph.trace import Sealer, open_store
    print("here", flush=True)
    sys.stdin.readline()
    store = open_store(sys.argv[1])
    for number in range(5):
        write(store, whole(f"{sys.argv[2]} {number}"))
        write(store, whole("of both", ends=False))
    store.close()
    """
)


def test_processes_write_at_once(url: str) -> None:
    here = str(Path(__file__).parent)
    workers = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", WORKER, url, name, here],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in ("one", "two")
    ]
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "here\n"
    for worker in workers:
        worker.communicate("go\n", timeout=60)
        assert worker.returncode == 0
    store = open_store(url)
    report = verify(store)
    assert report.ok, report.faults
    assert report.events == 2 * 5 * 5 * 2
    assert len(events(store, "of both")) == 50
    store.close()


def test_reading_holds_no_writer_up_and_sees_one_moment(store: Store, url: str) -> None:
    write(store, whole("a", ends=False))
    reader = open_store(url, read_only=True)
    with reader.snapshot() as view:
        first = next(entries := view.entries("a"))
        write(store, [draft("a", minute=7), draft("b", "run_started", minute=8)])
        assert [first.seq, *(e.seq for e in entries)] == [1, 2, 3, 4, 5]
        assert [k.trace for k in view.traces()] == ["a"]
        assert len(list(view.records())) == 1
    assert len(events(reader, "a")) == 6
    assert len(reader.traces()) == 2
    reader.close()


def test_read_only_makes_nothing(url: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"^trace: "):
        open_store(url, read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["erased", "purged"])
def test_erasing(store: Store, raw: Raw, kind: str) -> None:
    write(store, whole("a", text="planted-1"), SEALER, delete_on="2026-10-28")
    write(store, whole("b", text="planted-2"), SEALER)
    before = events(store, "a")
    store.erase(["a", "no such"], kind, "2026-06-01T00:00:00+00:00", SEALER)  # type: ignore[arg-type]
    assert b"planted-1" not in raw.bytes()
    assert b"thread of a" not in raw.bytes()
    assert b"planted-2" in raw.bytes()
    last = list(store.records())[-1]
    assert (last.kind, last.trace, last.count, last.head) == (kind, "a", 5, before[-1].hash)
    if kind == "purged":
        assert store.ids() == ["b"]
        assert [k.trace for k in store.traces()] == ["b"]
    else:
        assert [(e.header, e.content, e.salt) for e in events(store, "a")] == [(e.header, None, None) for e in before]
        kept = store.traces()[0]
        assert (kept.trace, kept.thread, kept.user, kept.run, kept.graph, kept.delete_on) == (
            "a",
            None,
            None,
            "",
            "",
            None,
        )
        assert kept.is_erased is True
        store.erase(["a"], "erased", "2026-06-01T00:00:00+00:00", SEALER)
        assert list(store.records())[-1] == last, "erased once"
    assert verify(store, key=SEALER.key).ok


def test_what_comes_after_the_erasure_has_no_content(store: Store, raw: Raw, url: str) -> None:
    drafts = whole("a", text="planted")
    write(store, drafts[:3])
    store.erase(["a"], "erased", "2026-06-01T00:00:00+00:00", Sealer())
    again = open_store(url)
    write(again, drafts[3:])
    again.close()
    assert b"planted" not in raw.bytes()
    assert [e.content for e in events(store, "a")] == [None] * 5
    report = verify(store)
    assert report.ok, report.faults
    assert store.traces()[0].is_open is False


def test_what_is_signed_is_not_gone_on_with_unsigned(store: Store) -> None:
    """Or it would never verify again: what is not signed could be anybody's."""
    write(store, whole("a"), SEALER)
    said = "the record there is signed: give the key, key= or TAOGRAPH_TRACE_KEY"
    with pytest.raises(ValueError, match=said):
        store.append(whole("b"), Sealer())
    for kind in ("erased", "purged"):
        with pytest.raises(ValueError, match=said):
            store.erase(["a"], kind, "2026-06-01T00:00:00+00:00", Sealer())  # type: ignore[arg-type]
    assert store.ids() == ["a"]
    assert events(store, "a")[0].content is not None, "nothing was done"
    write(store, whole("b"), SEALER)
    assert verify(store, SEALER.key).ok


# What each kind has of its own


def test_files_are_their_owners_only(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/deep/traces.db", f"jsonl:{tmp_path}/lines"):
        store = open_store(url)
        write(store, whole("a"))
        modes = [stat.S_IMODE(path.stat().st_mode) for path in tmp_path.rglob("*") if path.is_file()]
        assert modes
        assert set(modes) == {0o600}
        store.close()


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("mysql://x", "trace: where it is kept is written sqlite:///path"),
        ("sqlite:", "no URL of a file"),
        ("sqlite://host/path", "four slashes"),
        ("sqlite:///a?b=c", "no URL of a file"),
        ("jsonl:", "write jsonl:folder"),
        ("postgresql://u:se/cret@@h/d", "can't be read"),
    ],
)
def test_urls_that_are_none(url: str, said: str) -> None:
    with pytest.raises(ValueError, match=said) as caught:
        open_store(url)
    assert "cret" not in str(caught.value)


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database at all, and long enough to be looked at\n" * 50)
    with pytest.raises(ValueError, match=r"text is no SQLite database; name another file"):
        open_store(f"sqlite:///{tmp_path}/text")
    for url in (f"sqlite:///{tmp_path}/text/x.db", f"jsonl:{tmp_path}/text/x"):
        with pytest.raises(OSError, match=r"can't be made: (Not a directory|File exists)"):
            open_store(url)
    with pytest.raises(OSError, match="can't be"):
        open_store(f"sqlite:///{tmp_path}")


def test_a_server_that_is_not_there() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(OSError, match="nothing listens there") as caught:
        open_store("postgresql://me:correct-horse@127.0.0.1:1/x")
    assert "correct-horse" not in str(caught.value)


def test_a_user_who_may_only_write_rows(postgres_url: str) -> None:
    import psycopg

    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE USER scribe PASSWORD 'plain-horse'")
        wanted = postgres_url.replace("postgres:correct-horse-42", "scribe:plain-horse")
        with pytest.raises(OSError, match="GRANT CREATE on the schema"):
            open_store(wanted)
        open_store(postgres_url).close()
        connection.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO scribe")
    store = open_store(wanted)
    write(store, whole("a"))
    assert verify(store).ok
    store.close()


ARCHIVE = textwrap.dedent(
    """
    import os, pwd, sys
    import taograph.trace.stores.sqlite
    from taograph.trace import open_store
    from taograph.trace.verifying import verify
    "".encode("utf-16be")  # what is loaded later, another user may not be able to read
    if os.geteuid() == 0:  # who may write anywhere
        os.setuid(pwd.getpwnam("nobody").pw_uid)
    store = open_store(sys.argv[1], read_only=True)
    report = verify(store)
    assert report.ok and report.events == 5, report
    store.close()
    """
)


@pytest.mark.skipif(os.name != "posix", reason="modes of files")
def test_an_archive_that_nobody_may_write_to_is_read() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder, url = Path(name), f"sqlite:///{name}/traces.db"
        store = open_store(url)
        write(store, whole("a"))
        store.close()
        (folder / "traces.db").chmod(0o444)
        folder.chmod(0o555)
        command = [sys.executable, "-W", "error", "-c", ARCHIVE, url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        left = sorted(path.name for path in folder.iterdir())
        folder.chmod(0o700)
    assert (done.returncode, done.stderr) == (0, "")
    assert left == ["traces.db"]


def test_a_line_that_was_cut_off_is_set_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    url = f"jsonl:{tmp_path}"
    write(open_store(url), whole("a", ends=False))
    lines = (tmp_path / "trace-a.jsonl").read_bytes()
    (tmp_path / "trace-a.jsonl").write_bytes(lines[:-20])
    log = (tmp_path / "log.jsonl").read_bytes()
    (tmp_path / "log.jsonl").write_bytes(log + b'{"n": 2, "kind": "cl')
    store = open_store(url)
    assert len(events(store, "a")) == 4, "what has no end is no event"
    write(store, [draft("a", "run_ended", minute=9)])
    assert types(events(store, "a")) == ["run_started", "thought", "thought", "thought", "run_ended"]
    assert verify(store).ok
    assert sorted(caplog.messages) == [
        f"a line of {tmp_path}/{name} was cut off as it was written; it is set aside in {name}.torn"
        for name in ("log.jsonl", "trace-a.jsonl")
    ]
    assert (tmp_path / "trace-a.jsonl.torn").read_bytes() == lines[:-20].splitlines()[-1] + b"\n"
    store.erase(["a"], "erased", "2026-06-01T00:00:00+00:00", Sealer())
    assert not (tmp_path / "trace-a.jsonl.torn").exists()


def test_nothing_is_left_lying_about(tmp_path: Path) -> None:
    store = open_store(f"jsonl:{tmp_path}")
    write(store, whole("a"), SEALER)
    write(store, whole("b"), SEALER)
    store.erase(["a"], "erased", "2026-06-01T00:00:00+00:00", SEALER)
    store.erase(["b"], "purged", "2026-06-01T00:00:00+00:00", SEALER)
    with pytest.raises(ValueError, match="is signed"):
        store.erase(["a"], "purged", "2026-06-01T00:00:00+00:00", Sealer())
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != ".lock") == ["log.jsonl", "trace-a.jsonl"]


@pytest.mark.parametrize("at", range(1, 12))
def test_what_a_process_did_not_live_to_finish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """The process ends at each of the things that it does with files, while it erases and while it appends."""
    url, done = f"jsonl:{tmp_path}", 0
    store = open_store(url)
    write(store, whole("a", text="planted"))

    class Dead(BaseException):
        pass

    def dies(name: str, original: object) -> object:
        def call(*given: object, **more: object) -> object:
            nonlocal done
            done += 1
            if done >= at:
                raise Dead(name)
            return original(*given, **more)  # type: ignore[operator]

        return call

    with monkeypatch.context() as patch:
        import taograph.trace.stores.files as files

        patch.setattr(files, "_put", dies("put", files._put))
        patch.setattr(files.os, "truncate", dies("truncate", os.truncate))
        for name in ("replace", "unlink"):
            patch.setattr(Path, name, dies(name, getattr(Path, name)))
        try:
            store.append(whole("b"), Sealer())
            store.erase(["a"], "erased", "2026-06-01T00:00:00+00:00", Sealer())
        except Dead:
            pass
    again = open_store(url)
    report = verify(again)
    assert report.ok, report.faults
    assert not (tmp_path / PENDING).exists()
    write(again, whole("c"))
    assert verify(again).ok


def test_lines_that_are_no_events(tmp_path: Path) -> None:
    url = f"jsonl:{tmp_path}"
    store = open_store(url)
    write(store, whole("a"))
    lines = (tmp_path / "trace-a.jsonl").read_text().splitlines()
    twice = lines[2].replace('"type": "thought"', '"type": "forged", "type": "thought"')
    (tmp_path / "trace-a.jsonl").write_text("\n".join([*lines[:2], twice, '["a list"]', "\xff\x00", lines[4]]) + "\n")
    found = events(store, "a")
    assert [e.seq for e in found] == [1, 2, 0, 0, 0, 5]
    assert json.loads(json.dumps(found[3].content)) == {"unreadable": '["a list"]'}
    (fault,) = verify(store).faults
    assert (fault.trace, fault.number) == ("a", 3)
