"""From an actor of Ray: how long an acquire and its release take, each pair by itself."""

from __future__ import annotations

import time
from contextlib import ExitStack
from functools import partial

import ours
import peers
import servers
from measure import Options, Row, percentiles

from tidegate import Client


class Holder:
    """What the actor is: it takes and gives back, as `acquire` says."""

    def __init__(self, acquire):
        self.acquire = acquire

    def took(self, count):
        times = []
        for _ in range(count):
            before = time.perf_counter()
            with self.acquire():
                pass
            times.append(time.perf_counter() - before)
        return times


def pairs(name: str, options: Options) -> list[Row]:
    with ExitStack() as stack:
        ray = stack.enter_context(servers.a_ray())
        if ray is None:
            return [Row.left_out(name, "ray is not installed")]
        server, redis = stack.enter_context(servers.a_server()), stack.enter_context(servers.a_redis())
        missing = []
        made = {", shm": ours.slots("actor", ours.shm("actor"), mode="ray").acquire}
        if server is None:
            missing.append(Row.left_out(f"{name}, server", "TIDEGATE names no program"))
        else:
            made[", server"] = partial(Client(server).acquire, "bench")
        if redis is None:
            missing.append(Row.left_out(f"{name}, redis", "no redis-server is installed"))
        else:
            made[", redis"] = ours.slots("actor", redis, mode="ray").acquire
        # An actor of its own for each: only one works at a time.
        holder = ray.remote(num_cpus=0)(Holder)

        def times(acquire):
            actor = holder.remote(acquire)
            return lambda count: ray.get(actor.took.remote(count))

        theirs = {"concurry, ray": times(peers.concurry_slots("ray").acquire)}
        return percentiles(name, options, {who: times(acquire) for who, acquire in made.items()}, theirs) + missing
