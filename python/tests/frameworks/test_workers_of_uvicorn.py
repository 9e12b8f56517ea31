"""The processes of one server share their limits."""

import os
import pathlib
import socket
import subprocess
import sys
import time

import requests

HERE = pathlib.Path(__file__).parent


def test_worker_processes_of_a_server_admit_together_what_one_would(store_url, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener, (tmp_path / "log").open("w") as log:
        words = ["--fd", str(listener.fileno()), "--workers", "2", "--lifespan", "off", "--no-access-log"]
        server = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "asgi_app:app", *words],
            cwd=HERE,
            env={**os.environ, "STORE": store_url},
            pass_fds=[listener.fileno()],
            stdout=log,
            stderr=log,
        )
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            workers, statuses = set(), []
            ends = time.monotonic() + 120
            # Each request has a connection of its own: sooner or later one meets the other worker.
            while (len(workers) < 2 or len(statuses) < 30) and time.monotonic() < ends:
                answer = requests.get(url, timeout=60, headers={"Connection": "close"})
                workers.add(answer.headers["x-worker"])
                statuses.append(answer.status_code)
        finally:
            server.terminate()
            server.wait(timeout=60)
    assert len(workers) == 2, (tmp_path / "log").read_text()
    assert statuses == [200] * 20 + [429] * (len(statuses) - 20)
