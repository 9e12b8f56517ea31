"""Which threads the package starts, and when: in a fresh process, whose threads are counted."""

import os
import subprocess
import sys
import textwrap


#: By kind of store, those that are there: once a set is opened and has granted and refused; once one
#: has waited; once one is kept alive; once a semaphore has given a permit.
STARTED = {
    "memory": ["", "timer", "", "renewal"],
    "file": ["journal", "timer", "renewal", ""],
    "shm": ["shm-definitions", "shm shm-woken", "", "renewal timer"],
    "redis": ["redis", "", "renewal timer", ""],
    "postgres": ["postgres", "", "renewal timer", ""],
    "mysql": ["mysql", "", "renewal timer", ""],
}

BEGIN = """
    import asyncio, os, pathlib, threading, time

    def threads():
        "Those of the process but its first, by the names that the system has of them."
        own = pathlib.Path("/proc/self/comm").read_text()
        while True:
            tasks = [task for task in pathlib.Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]
            names = [(task / "comm").read_text() for task in tasks]
            if own not in names:  # One that begins has its parent's name.
                return " ".join(sorted({name.strip() for name in names}))
            time.sleep(0.001)

    import tidegate
    from tidegate import *
    print("imported:", threads())
"""


def run(script, **names):
    """What it prints, by the words before the colon."""
    given = "".join(f"{name} = {value!r}\n" for name, value in names.items())
    program = textwrap.dedent(BEGIN) + given + textwrap.dedent(script)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return dict(line.split(": ", 1) if ": " in line else (line.rstrip(":"), "") for line in done.stdout.splitlines())


def named(words):
    """As the system has it: a name has 15 letters."""
    return " ".join(sorted({f"tidegate-{word}"[:15] for word in words.split()}))


TAKES = """
    limits = LimitSet([RateLimit("tokens", 100, "per_hour"), ResourceLimit("slots", 1)], name="threads", store=store)
    with limits.acquire({"tokens": 1}, timeout=30):
        assert not limits.try_acquire({"tokens": 1})

    async def main():
        async with await limits.async_acquire({"tokens": 1}):
            assert not await limits.async_try_acquire({"tokens": 1})

    asyncio.run(main())
    print("opened:", threads())
    held = limits.acquire({"tokens": 1})

    def release_to_who_waits():
        while limits.stats()["waiting"] < 1:
            time.sleep(0.001)
        held.release()

    releases = threading.Thread(target=release_to_who_waits)
    releases.start()
    limits.acquire({"tokens": 1}, timeout=30).release()
    releases.join()
    print("waited:", threads())
    with limits.acquire({"tokens": 1}, keep_alive=True):
        print("kept:", threads())
    with Semaphore("gpu", 1, store=store):
        print("permit:", threads())
"""


def test_a_store_has_its_threads_when_they_are_needed_and_memory_none_before_a_wait(any_store):
    said = run(TAKES, store=any_store)
    there, expected = "", {"imported": ""}
    for when, more in zip(("opened", "waited", "kept", "permit"), STARTED[any_store.partition(":")[0]]):
        there = f"{there} {more}"
        expected[when] = named(there)
    # This one begins where a lock is found taken for 0.1 ms: on a busy machine also here.
    by_chance = named("shm-locks")
    said = {when: " ".join(name for name in names.split() if name != by_chance) for when, names in said.items()}
    assert said == expected


def test_a_client_has_one_thread_from_its_first_verb_on(server):
    said = run(
        """
        client = Client(url)
        print("made:", threads())
        client.check("chat", {"rpm": 1})
        with client.acquire("jobs"):
            print("asked:", threads())
        """,
        url=server.url,
    )
    assert said == {"imported": "", "made": "", "asked": named("client")}
