"""Stores for the tests of processes."""

import contextlib
import os
import pathlib
import random
import shutil
import socket
import subprocess
import time
import uuid

import pytest
from serving import Server


def _free_port():
    # Below the ports that the system gives to those who connect; not the same as of others who test.
    while True:
        port = random.randrange(21_000, 32_000)
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port


def _answers(server, port):
    """Whether it is this server that answers there."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=10) as asked:
            asked.sendall(b"INFO server\r\n")
            return f"process_id:{server.pid}\r\n".encode() in asked.recv(65_536)
    except OSError:
        return False


@contextlib.contextmanager
def _redis(folder):
    """A server of its own: its URL and its process."""
    program = shutil.which("redis-server")
    if program is None:
        if "TIDEGATE_REQUIRE_REDIS" in os.environ:
            pytest.fail("redis-server is not installed, and TIDEGATE_REQUIRE_REDIS is set")
        pytest.skip("redis-server is not installed")
    port = _free_port()
    words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder)]
    server = subprocess.Popen([program, *words], stdout=subprocess.DEVNULL)
    try:
        for _ in range(3_000):
            if _answers(server, port):
                break
            assert server.poll() is None, f"port {port} was taken meanwhile"
            time.sleep(0.02)
        else:
            pytest.fail("redis-server does not answer")
        yield f"redis://127.0.0.1:{port}", server
    finally:
        server.kill()
        server.wait()


@pytest.fixture
def shm_name():
    """A name in shared memory that nobody else has."""
    name = f"test-{uuid.uuid4()}"
    yield name
    pathlib.Path(f"/dev/shm/tidegate-{os.getuid()}-{name}").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory):
    with _redis(tmp_path_factory.mktemp("redis")) as (url, _):
        yield f"{url}?deadline=10s"


@pytest.fixture
def mortal_redis(tmp_path):
    """A server that a test may kill: its URL and its process."""
    with _redis(tmp_path) as server:
        yield server


@pytest.fixture
def server(tmp_path):
    started = Server(tmp_path)
    yield started
    started.kill()


@pytest.fixture(params=["redis", "shm"])
def store_url(request):
    """A store that processes share."""
    if request.param == "redis":
        return request.getfixturevalue("redis_url")
    return f"shm:{request.getfixturevalue('shm_name')}?size=8&deadline=10s"
