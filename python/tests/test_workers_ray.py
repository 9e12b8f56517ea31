"""Limits that actors and tasks of Ray share, and workers that are actors.

After ``test_workers.py``: Ray's threads stay in this process, and those tests fork.
"""

import itertools
import os
import pickle
import subprocess
import sys
import textwrap
import time
import uuid

import pytest

from tidegate import CallLimit, Client, LimitPool, LimitSet, RateLimit, ResourceLimit, WorkerDied, workers

if "TIDEGATE_REQUIRE_RAY" not in os.environ:
    pytest.importorskip("ray", reason="Ray is not installed: pip install ray")

# Of a cluster that only this machine sees.
os.environ["RAY_AUTH_MODE"] = "disabled"
# However much else the machine does.
os.environ["RAY_raylet_start_wait_time_s"] = "600"
import ray  # noqa: E402


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    yield
    ray.shutdown()


@pytest.fixture(params=["shm", "redis"])
def words(request, cluster):
    """Where a set is: in shared memory of Ray's one node, or in a server."""
    if request.param == "shm":
        return dict(mode="ray", name=f"ray-{uuid.uuid4()}")
    return dict(mode="ray", name=f"ray-{uuid.uuid4()}", store=request.getfixturevalue("redis_url"))


@pytest.fixture
def remote(cluster):
    """An actor and a task that use a set."""

    class Holder:
        def __init__(self, limits):
            self.limits = limits

        def admitted(self, tries):
            return sum(bool(self.limits.try_acquire({"slots": 0})) for _ in range(tries))

        def hold(self, ttl):
            self.held = self.limits.acquire(ttl=ttl)
            return os.getpid()

        def release(self):
            self.held.release()

    def task(limits, tries):
        return sum(bool(limits.try_acquire({"slots": 0})) for _ in range(tries)), bool(limits.try_acquire())

    return ray.remote(Holder), ray.remote(task)


def test_ray_mode_counts_as_the_algorithm_says_and_gives_back_what_was_not_used(words, cluster):
    def takes(limits):
        with limits.acquire({"tokens": 100}) as acquired:
            acquired.update({"tokens": 40})
        back = dict(acquired.reclaimed)
        rest = limits.try_acquire({"tokens": 60})
        return back, bool(rest), limits.try_acquire({"tokens": 1}).retry_after

    for algorithm, (least, most) in {
        "token_bucket": (0, 864),
        "sliding_log": (70_000, 86_400),
        "first_use_window": (70_000, 86_400),
    }.items():
        name = f"{words['name']}-{algorithm}"
        limits = LimitSet([RateLimit("tokens", 100, "per_day", algorithm)], **{**words, "name": name})
        back, is_rest, waits = ray.get(ray.remote(takes).remote(limits))
        assert back == {"tokens": 60} and is_rest, algorithm
        assert least < waits <= most, (algorithm, waits)
        assert not limits.try_acquire({"tokens": 1})


def calls_and_slots(words):
    return LimitSet([CallLimit(30, "per_day"), ResourceLimit("slots", 1)], **words)


def test_two_actors_and_two_tasks_share_one_limit(words, remote):
    actor, task = remote
    limits = calls_and_slots(words)
    first, second = actor.remote(limits), actor.remote(limits)
    ray.get(first.hold.remote(600))
    # The slot is the first actor's: neither task had it.
    told = ray.get([task.remote(limits, 10) for _ in range(2)])
    assert [has_slot for _, has_slot in told] == [False, False]
    counts = [count for count, _ in told] + ray.get([actor.admitted.remote(15) for actor in (first, second)])
    assert sum(counts) == 29
    assert not limits.try_acquire({"slots": 0})
    ray.get(first.release.remote())


def test_a_killed_actor_gives_its_slot_back(words, remote):
    actor, _ = remote
    is_shm = "store" not in words
    limits = calls_and_slots(words)
    holder = actor.remote(limits)
    # In shared memory at once; in a server within its ttl.
    ray.get(holder.hold.remote(3_600 if is_shm else 1))
    assert is_shm is False or limits.try_acquire().limit == "slots"
    ray.kill(holder)
    with limits.acquire(timeout=60) as acquired:
        assert acquired.successful


def test_two_actors_share_a_limit_of_a_server_by_a_client_that_was_pickled(cluster, server):
    class Asks:
        def __init__(self, client):
            self.client = client

        def admitted(self, tries):
            return sum(bool(self.client.check("chat", {"rpm": 1})) for _ in range(tries))

        def hold(self, ttl):
            self.lease = self.client.acquire("jobs", ttl=ttl)
            return self.lease.fence

        def tries(self):
            return bool(self.client.try_acquire("jobs"))

    client = Client(server.url, timeout=60)
    first, second = (ray.remote(Asks).remote(client) for _ in range(2))
    assert sum(ray.get([actor.admitted.remote(60) for actor in (first, second)])) == 100
    assert not client.check("chat", {"rpm": 1})
    fence = ray.get(first.hold.remote(5))
    assert not ray.get(second.tries.remote())
    # It is renewed while its holder lives, and back within its ttl when that was killed.
    ray.kill(first)
    assert client.acquire("jobs", timeout=60).fence > fence


def test_pools_are_passed_to_tasks(words):
    pool = LimitPool([LimitSet("5/day", **words), LimitSet("5/day", **{**words, "name": f"{words['name']}-2"})])

    @ray.remote
    def admitted(limits):
        return sum(bool(limits.try_acquire()) for _ in range(8))

    assert sum(ray.get([admitted.remote(pool) for _ in range(2)])) == 10


def test_a_set_that_is_made_in_a_task_is_the_same_by_its_name(words):
    @ray.remote
    def admitted():
        limits = LimitSet("5/day", **words)
        return sum(bool(limits.try_acquire()) for _ in range(4))

    assert sum(ray.get([admitted.remote() for _ in range(2)])) == 5
    assert not LimitSet("5/day", **words).try_acquire()


def test_a_set_of_one_process_is_refused(cluster):
    for store in ("memory:", "file:/tmp/never-made"):
        with pytest.raises(ValueError, match="redis://"):
            LimitSet("5/day", name="x", mode="ray", store=store)
    with pytest.raises(TypeError, match="redis://"):
        ray.put(LimitSet("5/day"))


def test_a_set_of_this_machines_memory_is_refused_by_another_machine(cluster):
    limits = LimitSet("5/day", name=f"ray-{uuid.uuid4()}", mode="ray")
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(limits))))
    assert limits.try_acquire() and again.try_acquire().remaining == {"calls": 3}
    again._made_on = ("another boot", *again._made_on[1:])
    with pytest.raises(ValueError, match="another machine.*store='redis://"):
        pickle.loads(pickle.dumps(again))


def run(script):
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_without_a_cluster_the_error_says_what_to_do():
    told = run("""
        from tidegate import LimitSet, workers
        for made in (lambda: LimitSet("1/day", name="x", mode="ray"), lambda: workers.map(len, [], mode="ray")):
            try:
                made()
            except ValueError as error:
                print(error)
    """)
    assert len(told) == 2 and all("ray.init()" in line and "store='redis://" in line for line in told)


def test_a_cluster_of_two_nodes_needs_a_server(redis_url):
    told = run(f"""
        import ray
        from ray.cluster_utils import Cluster
        from tidegate import LimitSet, ResourceLimit, workers
        cluster = Cluster(initialize_head=True, head_node_args=dict(num_cpus=1, include_dashboard=False))
        ray.init(address=cluster.address, log_to_driver=False)
        alone = LimitSet("5/day", name="alone", mode="ray")
        cluster.add_node(num_cpus=1)
        class Worker(workers.Worker):
            pass
        for made in (
            lambda: LimitSet("5/day", name="both", mode="ray"),
            lambda: workers.start(Worker, mode="ray", limits=alone),
            lambda: workers.start(Worker, mode="ray", limits=ResourceLimit("slots", 1)),
        ):
            try:
                made()
            except ValueError as error:
                print(error)
        shared = LimitSet("5/day", name="two-nodes", mode="ray", store={redis_url!r})
        @ray.remote(num_cpus=1)
        def admitted(limits):
            return sum(bool(limits.try_acquire()) for _ in range(4))
        print(sum(ray.get([admitted.remote(shared) for _ in range(2)])))
        ray.shutdown()
        cluster.shutdown()
    """)
    assert all("2 nodes" in line and "store='redis://" in line for line in told[:3])
    assert told[3:] == ["5"]


def counter():
    """A class that is sent by value: Ray's processes do not import this file."""

    class Counter(workers.Worker):
        def __init__(self, start=0):
            if start < 0:
                raise KeyError("start")
            self.value = start

        def add(self, number=1):
            self.value += number
            return self.worker_index, self.value

        def admitted(self):
            return sum(bool(self.limits.try_acquire()) for _ in range(15))

        def fails(self):
            raise KeyError("mine")

        def pid(self):
            return os.getpid()

        def takes_and_dies(self):
            self.limits.acquire()
            os._exit(1)

    return Counter


def test_workers_are_actors(words):
    limits = LimitSet([CallLimit(20, "per_day")], **words)
    with workers.start(counter(), (5,), mode="ray", max_workers=2, limits=limits) as counters:
        assert counters.add(number=2).result(60)[1] in (7, 5)
        with pytest.raises(KeyError, match="mine") as raised:
            counters.fails().result(60)
        assert "in fails" in str(raised.value.__cause__)
        assert sum(future.result(60) for future in [counters.admitted() for _ in range(4)]) == 20
        pids = {counters.pid().result(60) for _ in range(4)}
    deadline = time.monotonic() + 60
    while any(os.path.exists(f"/proc/{pid}") for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_each_actor_begins_at_another_set_of_the_pool(words):
    class First(workers.Worker):
        def first(self):
            if not hasattr(self, "config"):
                self.config = self.limits.acquire().config
            return self.worker_index, self.config

    sets = [
        LimitSet([ResourceLimit("slots", 9)], config=number, **{**words, "name": f"{words['name']}-{number}"})
        for number in range(2)
    ]
    seen = {}
    with workers.start(First, mode="ray", max_workers=2, limits=LimitPool(sets, offset=1)) as firsts:
        while len(seen) < 2:
            seen.update(future.result(60) for future in [firsts.first() for _ in range(4)])
    assert seen == {0: 1, 1: 0}


def test_an_actor_that_cannot_begin_is_told_at_once(cluster):
    with pytest.raises(KeyError, match="start"):
        workers.start(counter(), (-1,), mode="ray", max_workers=2)


def test_an_actor_that_dies_is_replaced_and_its_slot_is_back(cluster):
    limits = LimitSet([ResourceLimit("slots", 1)], name=f"ray-{uuid.uuid4()}", mode="ray")
    with workers.start(counter(), mode="ray", max_workers=1, limits=limits) as counters:
        with pytest.raises(WorkerDied):
            counters.takes_and_dies().result(60)
        with limits.acquire(timeout=60):
            pass
        assert counters.add().result(60) == (0, 1)


def test_limits_that_are_in_no_set_are_shared_by_the_actors(cluster):
    words = dict(mode="ray", max_workers=2, limits=CallLimit(20, "per_day"), ray_options={"num_cpus": 0})
    with workers.start(counter(), **words) as counters:
        assert sum(future.result(60) for future in [counters.admitted() for _ in range(3)]) == 20


def test_a_map_runs_in_actors(cluster, tmp_path):
    def once(number):
        path = f"{tmp_path}/{number}"
        if not os.path.exists(path):
            open(path, "w").close()
            raise OSError("once")
        workers.acquired().update({"tokens": 1})
        return number * number, workers.acquired().config

    # In the memory of this process, which takes them for all its actors.
    limits = LimitSet([RateLimit("tokens", 100, "per_day"), ResourceLimit("slots", 1)], config="here")
    words = dict(mode="ray", max_workers=2, limits=limits, requested={"tokens": 10})
    answers = workers.map(once, range(5), retries=workers.Retry(1, first=0), **words)
    assert list(answers) == [(number * number, "here") for number in range(5)]
    assert limits.stats()["succeeded"] == limits.stats()["dropped"] == 5
    # 10 for each attempt that has reported nothing, 1 for each that has.
    assert not limits.try_acquire({"tokens": 46}) and limits.try_acquire({"tokens": 45})


def test_a_map_in_actors_that_is_left_gives_back_what_it_holds(cluster):
    limits = LimitSet([ResourceLimit("slots", 2)])
    for answer in workers.map(abs, itertools.count(), mode="ray", max_workers=2, limits=limits):
        if answer == 3:
            break
    assert limits.try_acquire({"slots": 2})
