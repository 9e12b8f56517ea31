"""Clients of zae-limiter at DynamoDB, as its pages say that one takes: `async with acquire`.

`zae.py --endpoint URL --table NAME` reads laps and answers them as `src/main.rs` beside this does.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time

from zae_limiter import Limit, RateLimiter, Repository

# A rate that nobody is refused by, as large as ours.
LIMITS = [Limit.per_second("calls", 1_000_000)]


async def drive(limiter, clients, keys, lasts):
    """What a lap came to."""
    begun, spent = time.monotonic(), time.process_time()
    every, took = iter(range(keys)), []

    def key():
        if lasts == "fill":
            return next(every, None)
        return random.randrange(keys) if time.monotonic() - begun < float(lasts) else None

    async def client():
        while (asked_about := key()) is not None:
            asked = time.monotonic()
            async with limiter.acquire(
                f"key-{asked_about}", "bench", {"calls": 1}, limits=LIMITS
            ):
                pass
            took.append((time.monotonic() - asked) * 1e6)

    await asyncio.gather(*(client() for _ in range(clients)))
    spent, seconds = time.process_time() - spent, time.monotonic() - begun
    took.sort()
    return {
        "decisions": len(took),
        "seconds": seconds,
        "cpu_us": spent * 1e6 / len(took),
        "p50_us": took[int(len(took) * 0.5)],
        "p99_us": took[int(len(took) * 0.99)],
    }


async def main(said):
    # What its `open` does beside is for CloudFormation and Lambda, which an emulator has not.
    repository = Repository(
        said.table, "eu-central-1", said.endpoint, _skip_deprecation_warning=True
    )
    await repository.create_table()
    async with RateLimiter(repository=repository) as limiter:
        while line := await asyncio.to_thread(sys.stdin.readline):
            clients, keys, lasts = line.split()
            lap = await drive(limiter, int(clients), int(keys), lasts)
            print(json.dumps(lap), flush=True)


if __name__ == "__main__":
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--endpoint", required=True)
    arguments.add_argument("--table", required=True)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        os.environ[name] = "tidegate"
    asyncio.run(main(arguments.parse_args()))
