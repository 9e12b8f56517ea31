"""Celery: a rate for all workers, and two limits at once. The workers are real, as is their broker."""

import collections
import contextlib
import os
import pathlib
import subprocess
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent


@contextlib.contextmanager
def workers(environment, folder):
    """Two of them, each with two processes and a queue of its own."""
    running = []
    try:
        for name in ("one", "two"):
            words = ["worker", "--queues", name, "--hostname", name, "--concurrency", "2", "--loglevel", "warning"]
            words += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
            with (folder / f"{name}.log").open("w") as log:
                running.append(
                    subprocess.Popen(
                        [sys.executable, "-m", "celery", "--app", "celery_app", *words],
                        cwd=HERE,
                        env={**environment, "WORKER": name},
                        stdout=log,
                        stderr=log,
                    )
                )
        yield
    finally:
        for worker in running:
            worker.terminate()
        for worker in running:
            try:
                worker.wait(timeout=20)
            except subprocess.TimeoutExpired:
                worker.kill()
                worker.wait()


def noted(notes, words, count):
    """The lines that begin with one of these words, as soon as there are so many."""
    for _ in range(1_200):
        lines = notes.read_text().splitlines() if notes.exists() else []
        lines = [line for line in lines if line.split()[0] in words]
        if len(lines) >= count:
            return collections.Counter(lines)
        time.sleep(0.05)
    logs = [log.read_text() for log in notes.parent.glob("*.log")]
    raise AssertionError("\n".join([f"{lines} after a minute", *logs]))


def test_a_rate_is_of_all_workers_where_celerys_own_is_of_each(store_url, redis_url, tmp_path):
    notes = tmp_path / "notes"
    environment = {**os.environ, "BROKER": redis_url.partition("?")[0], "STORE": store_url, "NOTES": str(notes)}
    send = "import celery_app as c; [t.apply_async(queue=q) for t in (c.theirs, c.ours) for q in ('one', 'two') * 5]"
    subprocess.run([sys.executable, "-c", send], cwd=HERE, env=environment, check=True)
    with workers(environment, tmp_path):
        # One in an hour, it says; and each worker runs one.
        assert noted(notes, ["theirs"], 2) == {"theirs one": 1, "theirs two": 1}
        # Each task was tried. Four a day ran, one at once.
        ours = noted(notes, ["ours", "refused"], 10)
    assert sum(count for line, count in ours.items() if line.startswith("ours")) == 4
    assert sum(count for line, count in ours.items() if line.endswith("one")) == 5
    assert sum(count for line, count in ours.items() if line.endswith("two")) == 5
