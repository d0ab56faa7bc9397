"""One server for the processes of a user, and its end with the last of them; with a fake engine."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from local_support import alive, wait_for

from taograph.models import local_lease
from taograph.models.local_lease import Lease, LocalServerError, lease_for
from taograph.models.local_spec import Record, ServerSpec, default_threads

MakeLease = Callable[[], Lease]

USER = """
import sys, time
from taograph.models.local_lease import Lease
from taograph.models.local_spec import ServerSpec
print(Lease(ServerSpec.from_json(sys.argv[1])).record().pid, flush=True)
sys.stdin.read()
"""


def user(spec: ServerSpec) -> subprocess.Popen[str]:
    """Another process that uses the server until its standard input is closed."""
    return subprocess.Popen(
        [sys.executable, "-c", USER, spec.to_json()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def said(process: subprocess.Popen[str]) -> int:
    assert process.stdout
    return int(process.stdout.readline())


def hang_up(listener: socket.socket) -> None:
    listener.accept()[0].close()


def close(*processes: subprocess.Popen[str]) -> None:
    for process in processes:
        process.communicate(timeout=30)


def test_two_users_share_a_server_which_ends_with_the_last(make_lease: MakeLease) -> None:
    first, second = make_lease(), make_lease()
    record = first.record()
    assert second.record() == record
    assert first.record() is record, "a held server is not looked up again"
    first.drop()
    # Longer than the server lingers: the second still holds it.
    assert not wait_for(lambda: not alive(record.pid), seconds=1.0)
    second.drop()
    assert wait_for(lambda: not alive(record.pid))


def test_processes_that_start_at_once_get_one_server(spec: ServerSpec) -> None:
    processes = [user(spec) for _ in range(4)]
    pids = {said(process) for process in processes}
    assert len(pids) == 1
    close(*processes)
    (pid,) = pids
    assert wait_for(lambda: not alive(pid))
    assert Record.read(spec.file("json")) is None, "it took its record with it"


def test_a_killed_user_does_not_keep_the_server(spec: ServerSpec) -> None:
    process = user(spec)
    pid = said(process)
    process.send_signal(signal.SIGKILL)
    close(process)
    assert wait_for(lambda: not alive(pid))


def test_a_killed_server_is_replaced_at_the_next_use(make_lease: MakeLease) -> None:
    lease = make_lease()
    first = lease.record()
    os.kill(first.pid, signal.SIGKILL)
    assert wait_for(lambda: not alive(first.pid))
    second = lease.record()
    assert second.pid != first.pid
    assert alive(second.pid)
    assert second.key != first.key


def test_a_record_that_leads_nowhere_is_replaced(make_lease: MakeLease, spec: ServerSpec) -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        port = nobody.getsockname()[1]
    spec.run_dir.mkdir()
    Record(pid=1, url="http://127.0.0.1:1", lease=port, key="k", template="own").write(spec.file("json"))
    assert make_lease().record().lease != port


def test_another_program_on_the_lease_port_is_not_trusted(make_lease: MakeLease, spec: ServerSpec) -> None:
    spec.run_dir.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        Record(pid=1, url="http://127.0.0.1:1", lease=port, key="k", template="own").write(spec.file("json"))
        lease = make_lease()
        # It hangs up on whoever comes, as a program with another protocol does.
        other.settimeout(30)
        threading.Thread(target=hang_up, args=(other,), daemon=True).start()
        assert lease.record().lease != port


def test_an_unreadable_record_is_replaced(make_lease: MakeLease, spec: ServerSpec) -> None:
    spec.run_dir.mkdir()
    spec.file("json").write_text('{"pid": 1')
    assert make_lease().record().pid > 1


def test_only_the_user_can_read_the_key(make_lease: MakeLease, spec: ServerSpec) -> None:
    record = make_lease().record()
    assert stat.S_IMODE(spec.file("json").stat().st_mode) == 0o600
    assert stat.S_IMODE(spec.run_dir.stat().st_mode) == 0o700
    assert len(record.key) >= 32
    assert record.key not in " ".join([*spec.command, spec.to_json()])
    assert record.key not in spec.file("log").read_text()


def test_who_does_not_know_the_key_holds_nothing(make_lease: MakeLease) -> None:
    record = make_lease().record()
    for wrong in (b"wrong\n", b"x" * 1000, b""):
        with socket.create_connection(("127.0.0.1", record.lease), timeout=10) as stranger:
            stranger.sendall(wrong)
            with suppress(OSError):  # hung up on before all was read
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(10) == b""


def test_a_server_nobody_comes_to_leaves(spec: ServerSpec) -> None:
    spec.run_dir.mkdir()
    script = (
        "import sys; from taograph.models import local_server as s; s._FIRST_CLIENT_SECONDS = 0.3;"
        "from fake_local_server import Fake; s.serve(s.ServerSpec.from_json(sys.argv[-1]), Fake)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(
        [sys.executable, "-c", script, spec.to_json()], env=environment, timeout=60, capture_output=True, check=True
    )
    assert done.returncode == 0
    assert Record.read(spec.file("json")) is None


def test_a_failed_start_tells_the_end_of_the_log(spec: ServerSpec) -> None:
    failing = replace(
        spec, command=(sys.executable, "-c", "import sys; print('loading'); sys.exit('the file is damaged')")
    )
    with pytest.raises(LocalServerError, match="ended with status 1") as caught:
        Lease(failing).record()
    assert "the file is damaged" in str(caught.value)
    assert caught.value.log == failing.file("log")


def test_of_an_engines_log_the_errors_are_told(spec: ServerSpec) -> None:
    script = "print('0.01 I srv loading\\n0.02 E load: bad header\\n0.03 E load: bad header\\n0.04 I bye'); exit(1)"
    failing = replace(spec, command=(sys.executable, "-c", script))
    with pytest.raises(LocalServerError, match=r"status 1 \(load: bad header\)\. The whole log: .*\.log"):
        Lease(failing).record()


def test_a_crash_is_named(spec: ServerSpec) -> None:
    crashing = replace(spec, command=(sys.executable, "-c", "import os; os.kill(os.getpid(), 4)"))
    with pytest.raises(LocalServerError, match="SIGILL"):
        Lease(crashing).record()


def test_a_start_that_takes_too_long_is_given_up(spec: ServerSpec) -> None:
    pid_file = spec.run_dir / "pid"
    hanging = replace(
        spec,
        command=(
            sys.executable,
            "-c",
            f"import os, time; open({str(pid_file)!r}, 'w').write(str(os.getpid())); time.sleep(600)",
        ),
    )
    with pytest.raises(LocalServerError, match="not ready after"):
        Lease(hanging, start_seconds=2.0).record()
    assert not alive(int(pid_file.read_text()))


def test_a_missing_engine_is_named_with_the_fix(spec: ServerSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_lease, "find_spec", lambda name: None)
    real = ServerSpec(model=spec.model, run_dir=spec.run_dir)
    with pytest.raises(LocalServerError, match=r"pip install 'taograph\[local\]'"):
        Lease(real).record()


def test_what_is_served_differently_is_another_server(spec: ServerSpec) -> None:
    assert replace(spec, context=4096).digest != spec.digest
    assert replace(spec, threads=3).digest != spec.digest
    assert replace(spec, template="own").digest != spec.digest
    assert replace(spec, linger=9).digest == spec.digest
    before = spec.digest
    spec.model.write_bytes(b"GGUF, but another one")
    assert spec.digest != before
    assert lease_for(spec) is lease_for(replace(spec))
    assert ServerSpec.from_json(spec.to_json()) == spec
    assert json.loads(spec.to_json())["model"] == str(spec.model)


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TAOGRAPH_LOCAL_THREADS", raising=False)
    for cores, threads in ((1, 1), (2, 1), (4, 2), (64, 8)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, n=cores: set(range(n)), raising=False)
        assert default_threads() == threads
    monkeypatch.setenv("TAOGRAPH_LOCAL_THREADS", "5")
    assert default_threads() == 5
    monkeypatch.setenv("TAOGRAPH_LOCAL_THREADS", "all")
    with pytest.raises(ValueError, match="TAOGRAPH_LOCAL_THREADS"):
        default_threads()


def test_the_server_keeps_the_prefix_it_was_told_last(make_lease: MakeLease, spec: ServerSpec) -> None:
    lease, other = make_lease(), make_lease()
    lease.prefix = b'{"messages": ["first"]}'
    record = lease.record()
    other.record()
    lease.prefix = b'{"messages": ["' + b"x" * 200_000 + b'"]}'
    assert lease.record() is record, "telling it does not disturb the hold"
    assert (spec.run_dir / "recalled").read_bytes().count(b"\n") == 2, "told and loaded before a request goes out"
    lease.drop()
    other.drop()
    assert wait_for(lambda: not alive(record.pid))
    assert (spec.run_dir / "kept").read_bytes() == lease.prefix


def test_what_old_servers_left_is_swept(make_lease: MakeLease, spec: ServerSpec) -> None:
    spec.run_dir.mkdir()
    old, new = spec.run_dir / "old.slot", spec.run_dir / "new.slot"
    for path in (old, new):
        path.write_bytes(b"x")
    os.utime(old, (0, 0))
    make_lease().record()
    assert not old.exists()
    assert new.exists()
