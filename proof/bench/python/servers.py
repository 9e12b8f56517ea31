"""Servers and clusters that rows are asked of, each for the time of its rows; ``None`` where there is none."""

from __future__ import annotations

import importlib.util
import os
import pathlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Of the server: as many slots as `ours.slots` has.
POLICY = """
[policy.bench.limits]
slots = { concurrency = 8 }
"""


@contextmanager
def a_redis() -> Iterator[str | None]:
    program = shutil.which("redis-server")
    if program is None:
        yield None
        return
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        arguments = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
        server = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL)
        try:
            for _ in range(500):
                with socket.socket() as tried:
                    if tried.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.02)
            yield f"redis://127.0.0.1:{port}?deadline=10s"
        finally:
            server.kill()
            server.wait()


@contextmanager
def a_server() -> Iterator[str | None]:
    """`tidegate serve`, the program that `TIDEGATE` names, with a store of its own."""
    program = os.environ.get("TIDEGATE")
    if program is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "tidegate.toml").write_text(POLICY)
        arguments = ["--config", "tidegate.toml", "--http", "127.0.0.1:0", "--grpc", "off", "--resp", "off"]
        server = subprocess.Popen(
            [program, "serve", *arguments, "--store", "memory:"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            said = (line.split() for line in server.stdout)
            yield next(words[1] for words in said if words[:1] == ["HTTP"])
        finally:
            server.kill()
            server.wait()
            server.stdout.close()


@contextmanager
def a_ray() -> Iterator[object | None]:
    """Ray on this machine, which no other sees."""
    if importlib.util.find_spec("ray") is None:
        yield None
        return
    os.environ["RAY_AUTH_MODE"] = "disabled"
    import ray

    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    try:
        yield ray
    finally:
        ray.shutdown()


def free_port() -> int:
    # Below the ports that the system gives to those who connect.
    for port in range(22_000, 32_000):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no port is free")
