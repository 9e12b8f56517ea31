"""Servers of stores, each of its own: in a folder of its own, on a free port, stopped by its pid."""

import contextlib
import getpass
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest


def installed(program, name, folder=None):
    """Where it is: on the path, or in a folder that Debian puts it into. Without it the test is
    skipped, and fails where ``TIDEGATE_REQUIRE_`` and this name is set."""
    found = shutil.which(program)
    if found is None and folder is not None:
        found = max(map(str, pathlib.Path("/").glob(f"{folder[1:]}/{program}")), default=None)
    if found is None:
        wanted = f"TIDEGATE_REQUIRE_{name}"
        if wanted in os.environ:
            pytest.fail(f"{program} is not installed, and {wanted} is set")
        pytest.skip(f"{program} is not installed")
    return found


@contextlib.contextmanager
def redis(folder):
    """Its URL and its process."""
    program = installed("redis-server", "REDIS")
    port = _free_port()
    words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    with _running([program, *words], folder, lambda server: _is_redis(server, port)) as server:
        yield f"redis://127.0.0.1:{port}", server


@contextlib.contextmanager
def postgres():
    """Its URL; it trusts whoever connects."""
    programs = pathlib.Path(installed("initdb", "POSTGRES", "/usr/lib/postgresql/*/bin")).resolve().parent
    # Those of pytest are their owner's alone.
    with tempfile.TemporaryDirectory() as folder:
        with _postgres(programs, pathlib.Path(folder)) as url:
            yield url


@contextlib.contextmanager
def _postgres(programs, folder):
    as_user = []
    if os.getuid() == 0:  # It refuses to be root.
        as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", "--"]
        shutil.chown(folder, "postgres")
    data, port = folder / "data", _free_port()
    made = [*as_user, programs / "initdb", "-D", data, "-U", "tidegate", "-A", "trust", "-E", "UTF8"]
    subprocess.run([*made, "--locale=C", "--no-sync"], cwd=folder, stdout=subprocess.DEVNULL, check=True)
    words = ["-D", data, "-p", str(port), "-k", "", "-c", "listen_addresses=127.0.0.1"]
    url = f"postgres://tidegate@127.0.0.1:{port}/postgres"
    said = "ready to accept connections"
    # A chance to give its shared memory back.
    end = signal.SIGQUIT
    with _running([*as_user, programs / "postgres", *words], folder, lambda _: _says(folder, said), end):
        yield url


@contextlib.contextmanager
def mariadb(folder):
    """Its URL: the user ``root``, who has no password."""
    program = installed("mariadbd", "MARIADB", "/usr/sbin")
    port, user = _free_port(), f"--user={getpass.getuser()}"
    places = ["--no-defaults", f"--datadir={folder}/data", f"--tmpdir={folder}", "--innodb-log-file-size=8M"]
    made = ["mariadb-install-db", *places, "--auth-root-authentication-method=normal", "--skip-test-db"]
    subprocess.run([*made, "--skip-name-resolve", user], stdout=subprocess.DEVNULL, check=True)
    (folder / "data/tidegate").mkdir()  # A database is a folder.
    words = [f"--socket={folder}/socket", f"--port={port}", "--bind-address=127.0.0.1", "--skip-name-resolve", user]
    words += ["--innodb-flush-log-at-trx-commit=2", "--innodb-buffer-pool-size=32M", "--performance-schema=off"]
    said = "ready for connections"
    with _running([program, *places, *words], folder, lambda _: _says(folder, said)):
        yield f"mysql://root@127.0.0.1:{port}/tidegate"


def _free_port():
    # Below the ports that the system gives to those who connect; not the same as of others who test.
    while True:
        port = random.randrange(21_000, 32_000)
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port


@contextlib.contextmanager
def _running(command, folder, is_ready, end=signal.SIGKILL):
    """The process, once it is ready; what it says is in ``log``."""
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(list(map(str, command)), cwd=folder, stdout=log, stderr=log)
    try:
        for _ in range(6_000):
            if is_ready(server):
                break
            assert server.poll() is None, (folder / "log").read_text(errors="replace")
            time.sleep(0.02)
        else:
            pytest.fail(f"{command[0]} does not start")
        yield server
    finally:
        server.send_signal(end)
        server.wait()


def _says(folder, words):
    return words.encode() in (folder / "log").read_bytes()


def _is_redis(server, port):
    """Whether it is this server that answers there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as asked:
            asked.sendall(b"INFO server\r\n")
            return f"process_id:{server.pid}\r\n".encode() in asked.recv(65_536)
    except OSError:
        return False
