"""Stores and servers for the tests."""

import os
import pathlib
import uuid

import databases
import pytest
from serving import Server


@pytest.fixture
def shm_name():
    """A name in shared memory that nobody else has."""
    name = f"test-{uuid.uuid4()}"
    yield name
    pathlib.Path(f"/dev/shm/tidegate-{os.getuid()}-{name}").unlink(missing_ok=True)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory):
    with databases.redis(tmp_path_factory.mktemp("redis")) as (url, _):
        yield f"{url}?deadline=10s"


@pytest.fixture(scope="session")
def postgres_url():
    with databases.postgres() as url:
        yield f"{url}?deadline=10s"


@pytest.fixture(scope="session")
def mysql_url(tmp_path_factory):
    with databases.mariadb(tmp_path_factory.mktemp("mariadb")) as url:
        yield f"{url}?deadline=10s"


@pytest.fixture
def mortal_redis(tmp_path):
    """A server that a test may kill: its URL and its process."""
    with databases.redis(tmp_path) as server:
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


@pytest.fixture(params=["memory", "file", "shm", "redis", "postgres", "mysql"])
def any_store(request, tmp_path):
    """A store of each kind."""
    if request.param == "memory":
        return "memory:"
    if request.param == "file":
        return f"file:{tmp_path}/tidegate.redb"
    if request.param == "shm":
        return f"shm:{request.getfixturevalue('shm_name')}?size=8&deadline=10s"
    return request.getfixturevalue(f"{request.param}_url")
