"""One run at a time on a thread of a database: for every saver, in one process and in several."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from blockbuster import blockbuster_ctx
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from postgres_server import PostgresServer, Unavailable, running
from support import both_ways, python_process, question, run
from writer_support import SECONDS, Held, Worker, begun, on, runs_of

from taograph import checkpoints
from taograph.writers import ThreadBusyError, ThreadLostError
from taograph.writers.turns import TURNS
from taograph.writers.watching import WATCH


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    until = time.monotonic() + SECONDS
    while TURNS._lines or WATCH._held:  # a run that was refused gives up its place in a thread
        assert time.monotonic() < until, (TURNS._lines, WATCH._held)
        time.sleep(0.01)


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg_pool", reason="needs taograph[postgres]")
    pytest.importorskip("langgraph.checkpoint.postgres", reason="needs taograph[postgres]")
    try:
        with running() as started:
            yield started
    except Unavailable as reason:
        pytest.skip(f"no PostgreSQL server can be started here: {reason}")


def new_schema(server: PostgresServer) -> str:
    """The URL of an empty schema: as good as a database, and made in no time."""
    import psycopg

    name = f"writers_{uuid4().hex}"
    with psycopg.connect(server.url(), autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {name}".encode())
    return f"{server.url()}?options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/runs.db"
    return new_schema(request.getfixturevalue("server"))


@dataclass
class Shared:
    """A database that this process and two others use.

    Attributes:
        url: Its URL.
        held: A graph of this process.
        workers: The other processes.
    """

    url: str
    held: Held
    workers: tuple[Worker, Worker]


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path_factory.mktemp('shared')}/runs.db"
    else:
        url = new_schema(request.getfixturevalue("server"))
    with checkpoints.open(url) as saver, Worker(url) as one, Worker(url) as two:
        for worker in (one, two):
            worker.reads("ready")
        yield Shared(url, Held(saver), (one, two))


@pytest.fixture
def shared(database: Shared) -> Iterator[Shared]:
    yield database
    nothing_left(database.url)


@pytest.fixture
def thread() -> str:
    return uuid4().hex


@contextmanager
def stock(url: str) -> Iterator[Any]:
    """LangGraph's own saver for a database."""
    if url.startswith("sqlite"):
        with SqliteSaver.from_conn_string(url.removeprefix("sqlite:///")) as saver:
            yield saver
    else:
        from langgraph.checkpoint.postgres import PostgresSaver

        with PostgresSaver.from_conn_string(url) as made:
            made.setup()
            yield made


@asynccontextmanager
async def astock(url: str, *, pool: bool = False) -> AsyncIterator[Any]:
    """LangGraph's own async saver for a database."""
    if url.startswith("sqlite"):
        async with AsyncSqliteSaver.from_conn_string(url.removeprefix("sqlite:///")) as saver:
            yield saver
        return
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    if not pool:
        async with AsyncPostgresSaver.from_conn_string(url) as made:
            await made.setup()
            yield made
        return
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    async with AsyncConnectionPool(url, kwargs=options, min_size=1, max_size=2, open=False) as connections:
        made = AsyncPostgresSaver(connections)  # type: ignore[arg-type]
        await made.setup()
        yield made


def left_of(url: str) -> list[Any]:
    """What says of runs that they have threads, or wait for them."""
    if url.startswith("sqlite"):
        return [p.name for p in Path(url.removeprefix("sqlite:///") + "-writers").glob("*")]
    import psycopg

    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT thread_id, run, holds FROM taograph_writers").fetchall()
        locks = connection.execute(
            "SELECT 'lock' FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
            "WHERE l.locktype = 'advisory' AND d.datname = current_database()"
        ).fetchall()
    return [*rows, *locks]


def waiting_in(url: str) -> bool:
    """Whether a run waits for another process to be done."""
    return any(each.endswith(".wait") if isinstance(each, str) else each[-1] is False for each in left_of(url))


def nothing_left(url: str) -> None:
    until = time.monotonic() + SECONDS
    while left := left_of(url):
        assert time.monotonic() < until, left
        time.sleep(0.02)


# In one process


@pytest.mark.parametrize("opened", [checkpoints.open, stock])
def test_strategies(url: str, opened: Any) -> None:
    with opened(url) as saver, checkpoints.open(url) as another:
        held, other = Held(saver), Held(another)
        with held.holding() as first:
            assert left_of(url)
            with pytest.raises(ThreadBusyError, match="of this process"):
                other.graph.invoke(question("never"), on())
            queued = begun(lambda: other.graph.invoke(question("queued"), on(strategy="enqueue")))
            other.graph.invoke(question("elsewhere"), on("t2"))
        assert queued.result(SECONDS)["answer"] == "re: queued"
        assert first.result()["answer"] == "done"
        with held.holding() as first:
            other.graph.invoke(question("interrupts"), on(strategy="interrupt"))
        assert first.result()["stop"]["reason"] == "cancelled"
        with held.holding(text="hold on"):
            other.graph.invoke(question("instead"), on(strategy="rollback"))
        assert [m for m in held.messages() if m.startswith(("hold", "queued", "interrupts", "instead"))] == [
            *("hold", "queued", "hold", "interrupts", "instead")
        ]
        with held.holding(config=on("new")):
            other.graph.invoke(question("instead"), on("new", strategy="rollback"))
        assert held.messages("new") == ["instead", "re: instead"]
    nothing_left(url)


@pytest.mark.parametrize("kind", ["ours", "stock", "pool"])
async def test_strategies_on_an_event_loop(url: str, kind: str) -> None:
    opened = checkpoints.aopen(url) if kind == "ours" else astock(url, pool=kind == "pool")
    async with opened as saver:
        held = Held(saver)

        def ask(text: str, strategy: str | None = None, thread: str = "t1") -> asyncio.Task[Any]:
            return asyncio.create_task(held.graph.ainvoke(question(text), on(thread, strategy)))

        async def first(text: str = "hold") -> asyncio.Task[Any]:
            held.entered.clear()
            held.free.clear()
            task = ask(text)
            await asyncio.to_thread(held.entered.wait, SECONDS)
            return task

        holder = await first()
        with pytest.raises(ThreadBusyError):
            await ask("never")
        queued = ask("queued", "enqueue")
        await ask("elsewhere", thread="t2")
        held.free.set()
        assert (await holder)["answer"] == "done"
        assert (await queued)["answer"] == "re: queued"
        holder = await first()
        await ask("interrupts", "interrupt")
        assert (await holder)["stop"]["reason"] == "cancelled"
        holder = await first("hold on")
        result = await ask("instead", "rollback")
        await holder
        texts = [m.text for m in result["messages"] if m.type == "human"]
        assert texts == ["hold", "queued", "hold", "interrupts", "instead"]
        holder = await first()
        holder.cancel()
        with pytest.raises(asyncio.CancelledError):
            await holder
        held.free.set()
        assert (await ask("and on"))["answer"] == "re: and on"
    await asyncio.to_thread(nothing_left, url)


def test_the_event_loop_is_not_blocked(url: str) -> None:
    with checkpoints.open(url) as saver:
        held = Held(saver)

        async def runs() -> list[Any]:
            await held.graph.ainvoke(question("q"), on())  # from now on it is known where the threads are
            tasks = [held.graph.ainvoke(question(f"q{i}"), on(strategy=how)) for i, how in enumerate(hows)]
            return await asyncio.gather(*tasks, return_exceptions=True)

        hows = ["enqueue", "enqueue", "interrupt", "reject", "rollback"]
        with blockbuster_ctx():
            results = asyncio.run(runs())
        assert [type(r).__name__ for r in results] == [*["dict"] * 3, "ThreadBusyError", "dict"]
    nothing_left(url)


@both_ways
def test_sqlite_in_memory_is_within_the_process(way: Any) -> None:
    with checkpoints.open("sqlite://") as saver:
        held = Held(saver)
        with held.holding(way), pytest.raises(ThreadBusyError):
            run(way, held.graph, question("never"), on())


def test_a_place_is_known_by_its_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with (
        checkpoints.open(f"sqlite:///{tmp_path}/runs.db") as saver,
        checkpoints.open(f"sqlite:///{tmp_path}/link/runs.db") as same,
        checkpoints.open(f"sqlite:///{tmp_path}/other.db") as other,
        Held(saver).holding(),
    ):
        with pytest.raises(ThreadBusyError):
            Held(same).graph.invoke(question("never"), on())
        assert Held(other).graph.invoke(question("q"), on())["answer"] == "re: q"


def test_ids_of_threads_are_not_in_names_of_files(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with checkpoints.open(url) as saver, Held(saver).holding(config=on("../Ada's\nsecret")):
        (name,) = left_of(url)
        assert name.endswith(".lock")
        folder = tmp_path / "runs.db-writers"
        content = (folder / name).read_bytes()
        assert b"Ada" not in content
        assert json.loads(content)["pid"] == os.getpid()
        if os.name == "posix":
            assert folder.stat().st_mode & 0o777 == 0o700
            assert (folder / name).stat().st_mode & 0o777 == 0o600


def test_a_folder_that_cannot_be_written_to_is_an_error_that_names_it(tmp_path: Path) -> None:
    with checkpoints.open(f"sqlite:///{tmp_path}/runs.db") as saver:
        (tmp_path / "runs.db-writers").write_text("in the way")
        with pytest.raises(OSError, match=r"can't be locked beside its database, in .*runs\.db-writers"):
            Held(saver).graph.invoke(question("q"), on())


# In several processes


def test_another_process_is_refused_and_told_who_has_the_thread(shared: Shared, thread: str) -> None:
    held, worker = shared.held, shared.workers[0]
    asked = len(held.model.requests)
    worker.holds(thread)
    with pytest.raises(ThreadBusyError) as refused:
        held.graph.invoke(question("never"), on(thread))
    error = refused.value
    assert error.pid == worker.process.pid
    assert f"of process {error.pid} on {error.host}, since " in str(error)
    assert len(held.model.requests) == asked
    worker.goes_on()
    assert worker.answers()["stop"] == "final"
    assert (held.graph.get_state(on(thread)).metadata or {})["taograph_run"] == error.run
    assert held.graph.invoke(question("now"), on(thread))["answer"] == "re: now"
    assert held.messages(thread) == ["hold", "done", "now", "re: now"]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
def test_a_killed_process_frees_its_thread(shared: Shared, thread: str, way: str) -> None:
    held = shared.held
    with Worker(shared.url) as worker:
        worker.reads("ready")
        worker.holds(thread, way=way)
        queued = begun(lambda: held.graph.invoke(question("queued"), on(thread, "enqueue")))
        worker.process.kill()
        worker.process.wait()
        assert queued.result(SECONDS)["answer"] == "re: queued"
    assert held.messages(thread) == ["hold", "queued", "re: queued"]


@pytest.mark.parametrize("way", ["invoke", "ainvoke"])
@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
def test_another_process_ends_the_run(shared: Shared, thread: str, strategy: str, way: Any) -> None:
    held, worker = shared.held, shared.workers[0]
    with held.holding(way, on(thread)) as first:
        worker.runs(thread, "instead", strategy=strategy, way=way)
        ended = first.result(SECONDS)
        assert worker.answers()["stop"] == "final"
    assert ended["stop"]["reason"] == "cancelled"
    kept = ["hold", ended["answer"]] if strategy == "interrupt" else []
    assert held.messages(thread) == [*kept, "instead", "re: instead"]


def test_a_run_that_waits_behind_another_process_hands_on_what_it_is_asked(shared: Shared, thread: str) -> None:
    held, worker = shared.held, shared.workers[0]
    worker.holds(thread)
    queued = begun(lambda: held.graph.invoke(question("queued"), on(thread, "enqueue")))
    while not waiting_in(shared.url):
        time.sleep(0.005)
    with pytest.raises(ThreadBusyError, match=f"process {worker.process.pid} "):
        held.graph.invoke(question("never"), on(thread))
    last = held.graph.invoke(question("last"), on(thread, "rollback"))
    worker.goes_on()
    assert worker.answers()["stop"] == "cancelled"
    assert queued.result(SECONDS)["stop"]["reason"] == "cancelled"
    assert last["stop"]["reason"] == "final"
    assert held.messages(thread) == ["last", "re: last"]


@pytest.mark.parametrize(("strategy", "way"), [("reject", "invoke"), ("enqueue", "ainvoke"), ("interrupt", "invoke")])
def test_of_many_runs_in_several_processes_none_vanishes(shared: Shared, thread: str, strategy: str, way: str) -> None:
    mine = [f"q.mine.{i}" for i in range(8)]
    for number, worker in enumerate(shared.workers):
        worker.runs(thread, *(f"q.{number}.{i}" for i in range(8)), strategy=strategy, together=3, way=way)
    results = runs_of(shared.held.graph, "invoke", [(text, on(thread, strategy)) for text in mine])
    accepted = [text for text, result in zip(mine, results, strict=True) if isinstance(result, dict)]
    refused = [result for result in results if not isinstance(result, dict)]
    assert all(isinstance(one, ThreadBusyError) for one in refused), refused
    for worker in shared.workers:
        while (said := worker.reads("answer", "busy", "over"))[0] != "over":
            (accepted if said[0] == "answer" else refused).append(said[1]["text"])
    assert len(accepted) + len(refused) == 24
    messages = shared.held.messages(thread)
    assert sorted(text for text in messages if text.startswith("q.")) == sorted(accepted), "each once, and no other"
    assert len(messages) == 2 * len(accepted), "and each with its answer"
    if strategy != "reject":
        assert refused == []


def test_processes_take_turns(shared: Shared, thread: str) -> None:
    """A process that has many runs in line does not keep another one waiting until the last of them."""
    held, worker = shared.held, shared.workers[0]

    def queued(text: str) -> Any:
        return begun(lambda: held.graph.invoke(question(text), on(thread, "enqueue")))

    with held.holding(config=on(thread)):
        mine = [queued(f"mine{n}") for n in range(12)]
        worker.runs(thread, "theirs", strategy="enqueue")
        while not waiting_in(shared.url):
            time.sleep(0.005)
    for future in mine:
        future.result(SECONDS)
    assert worker.answers()["stop"] == "final"
    messages = [text for text in held.messages(thread) if not text.startswith("re: ")]
    assert messages.index("theirs") < len(messages) - 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_that_was_forked_does_not_keep_the_thread(url: str) -> None:
    done = python_process(
        """
        import os, signal, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        from support import question
        from writer_support import Held, on
        from taograph import checkpoints
        from taograph.writers.turns import TURNS
        def stay():
            os.close(1)
            os.close(2)
            signal.pause()
        with checkpoints.open(os.environ["URL"]) as saver:
            held = Held(saver)
            with held.holding():
                child = os.fork()
                if child == 0:
                    assert TURNS._lines == {}
                    stay()
            print(held.graph.invoke(question("and on"), on())["answer"])
            with held.holding():
                second = os.fork()
                if second == 0:
                    stay()
                print(child, second, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
        """,
        URL=url,
    )
    answer, pids = done.stdout.splitlines()
    assert answer == "re: and on"
    try:
        with checkpoints.open(url) as saver:
            assert Held(saver).graph.invoke(question("q"), on(strategy="enqueue"))["answer"] == "re: q"
    finally:
        for pid in map(int, pids.split()):
            os.kill(pid, signal.SIGKILL)


# A connection that is lost


def end_the_holder(url: str) -> None:
    """End the connection that holds the locks, as a server that restarts or a network that breaks does."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        ended = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND pid <> pg_backend_pid()"
        ).fetchall()
        assert ended == [(True,)]
        while connection.execute("SELECT 1 FROM pg_locks WHERE locktype = 'advisory'").fetchall():
            time.sleep(0.005)


def sessions_of(url: str) -> list[Any]:
    """The connections for locks that are open."""
    import psycopg

    with psycopg.connect(url) as connection:
        return connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'taograph-writers'"
        ).fetchall()


def rest() -> None:
    """What is done after a while without a run."""
    for place in list(WATCH._places):
        place.rest()


@both_ways
@pytest.mark.parametrize("kind", ["ours", "stock"])
def test_a_run_that_lost_its_connection_does_not_write(server: PostgresServer, way: Any, kind: str) -> None:
    url = new_schema(server)

    async def asynchronous() -> None:
        async with astock(url) as saver:
            held = Held(saver)
            task = asyncio.create_task(held.graph.ainvoke(question("hold"), on()))
            await asyncio.to_thread(held.entered.wait, SECONDS)
            before = await held.graph.aget_state(on())
            await asyncio.to_thread(end_the_holder, url)
            held.free.set()
            with pytest.raises(ThreadLostError, match=r"graph\.invoke"):
                await task
            assert await held.graph.aget_state(on()) == before
            assert (await held.graph.ainvoke(None, on()))["answer"] == "done"

    if way == "ainvoke" and kind == "stock":
        asyncio.run(asynchronous())
        return
    with (checkpoints.open if kind == "ours" else stock)(url) as saver:
        held = Held(saver)
        with held.holding(way) as first:
            before = held.graph.get_state(on())
            end_the_holder(url)
            held.free.set()
            with pytest.raises(ThreadLostError, match="thread 't1' was lost: the connection that held its lock"):
                first.result(SECONDS)
        assert held.graph.get_state(on()) == before
        assert run(way, held.graph, None, on())["answer"] == "done"
        assert held.messages() == ["hold", "done"]
    nothing_left(url)


def test_a_lost_connection_cuts_what_is_in_flight(server: PostgresServer) -> None:
    url = new_schema(server)
    with checkpoints.open(url) as saver:
        held = Held(saver)
        with held.holding() as first:
            end_the_holder(url)
            with pytest.raises(ThreadLostError):  # though the tool does not return
                first.result(SECONDS)
            assert not held.free.is_set()


def test_a_connection_that_ended_while_nothing_ran_is_made_anew(server: PostgresServer) -> None:
    import psycopg

    url = new_schema(server)
    with checkpoints.open(url) as saver:
        held = Held(saver)
        for text in ("one", "two"):
            assert held.graph.invoke(question(text), on())["answer"] == f"re: {text}"
            with psycopg.connect(url, autocommit=True) as connection:
                for (pid,) in sessions_of(url):
                    connection.execute("SELECT pg_terminate_backend(%s)", (pid,))
            while sessions_of(url):
                time.sleep(0.005)
    nothing_left(url)


def test_one_connection_holds_all_threads_and_is_given_back(server: PostgresServer) -> None:
    import psycopg

    url = new_schema(server)
    with checkpoints.open(url) as saver:
        held = Held(saver)
        started = [begun(lambda n=n: held.graph.invoke(question("hold"), on(f"t{n}"))) for n in range(5)]
        with psycopg.connect(url) as connection:
            locks = 0
            while locks < 5:
                locks, sessions = connection.execute(
                    "SELECT count(*), count(DISTINCT l.pid) FROM pg_locks l JOIN pg_database d ON d.oid = l.database "
                    "WHERE locktype = 'advisory' AND d.datname = current_database()"
                ).fetchone() or (0, 0)
        assert sessions == 1
        held.free.set()
        assert [future.result(SECONDS)["answer"] for future in started] == ["done"] * 5
        rest()
        assert sessions_of(url) == []
        assert held.graph.invoke(question("q"), on())["answer"] == "re: q"


def test_schemas_are_apart(server: PostgresServer) -> None:
    with (
        checkpoints.open(new_schema(server)) as saver,
        checkpoints.open(new_schema(server)) as apart,
        Held(saver).holding(),
    ):
        assert Held(apart).graph.invoke(question("q"), on())["answer"] == "re: q"


def test_a_pooler_in_transaction_mode_is_refused(server: PostgresServer) -> None:
    from taograph.writers.postgres import place_of

    with checkpoints.open(new_schema(server)) as saver:
        place = place_of(saver.conn)  # type: ignore[attr-defined]
        place.key_of("t1")
        place._backend += 1  # as if a pooler had given us another session
        with pytest.raises(ValueError, match="pooler in transaction mode"):
            Held(saver).graph.invoke(question("q"), on())
        place.rest()
        assert Held(saver).graph.invoke(question("q"), on())["answer"] == "re: q"


def test_a_server_that_is_gone_is_an_error_without_the_password(server: PostgresServer) -> None:
    from langgraph.checkpoint.postgres import PostgresSaver
    from postgres_server import PASSWORD
    from psycopg_pool import ConnectionPool

    url = server.url(database="nowhere")
    with closing(ConnectionPool(url, open=False)) as pool:
        saver = PostgresSaver(pool)  # type: ignore[arg-type]
        with pytest.raises(OSError, match="database can't be reached") as error:
            Held(saver).graph.invoke(question("q"), on())
    assert PASSWORD not in str(error.value)
    assert error.value.__cause__ is None


def test_a_user_who_may_make_no_tables_uses_those_there_are(server: PostgresServer) -> None:
    import psycopg

    url = new_schema(server)
    with checkpoints.open(url) as saver:
        Held(saver).graph.invoke(question("q"), on())
    schema = url.rpartition("%3D")[2]
    role = f"reader_{uuid4().hex[:8]}"
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in (
            f"CREATE ROLE {role} LOGIN PASSWORD 'plain'",
            f"GRANT USAGE ON SCHEMA {schema} TO {role}",
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role}",
            f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA {schema} TO {role}",
        ):
            connection.execute(statement.encode())
    other = url.replace(server.url(), server.url(role, password="plain"))
    with checkpoints.open(other) as saver:
        assert Held(saver).graph.invoke(question("again"), on())["answer"] == "re: again"
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP TABLE taograph_writers")
    rest()
    with (
        checkpoints.open(other) as saver,
        pytest.raises(OSError, match=r"can't be made.*GRANT CREATE"),
    ):
        Held(saver).graph.invoke(question("never"), on())


def test_a_file_of_a_holder_that_died_is_no_holder(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/runs.db"
    with checkpoints.open(url) as saver:
        held = Held(saver)
        with held.holding():
            (name,) = left_of(url)
            content = (tmp_path / "runs.db-writers" / name).read_bytes()
        stale = tmp_path / "runs.db-writers" / f"{name.removesuffix('.lock')}.00000000000000000001.x.wait"
        stale.write_bytes(content)
        os.utime(stale, (1, 1))
        (tmp_path / "runs.db-writers" / name).write_bytes(content)
        assert held.graph.invoke(question("q"), on())["answer"] == "re: q"
    nothing_left(url)
