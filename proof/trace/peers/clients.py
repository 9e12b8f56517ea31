"""Plays calls by a client of PyPI, in virtual time; the provider is at the other end of the pipe.

The first line says what to do; `{"ask": N, "at": MICROS}` is answered by one line; the last line has
how long each call waited, in microseconds, or null if it was given up.
"""

import asyncio
import json
import logging
import math
import random
import sys

import virtual

TASK = json.loads(sys.stdin.readline())
CALLS = TASK["calls"]
virtual.begin(TASK["begin_s"])
random.seed(TASK["seed"])
# A refusal is no news here.
logging.disable(logging.CRITICAL)


def micros():
    """Now; never before the instant that a client has waited for."""
    return math.ceil(asyncio.get_running_loop().time() * 1_000_000)


def say(message):
    print(json.dumps(message), flush=True)


class Provider:
    """What is asked here is answered by the simulated provider, at its pace."""

    def __init__(self):
        # When the provider let each call in.
        self.admitted = {}

    async def ask(self, number):
        at = micros()
        say({"ask": number, "at": at})
        answer = json.loads(sys.stdin.readline() or sys.exit("the provider is gone"))
        if answer["status"] == 200:
            self.admitted[number] = at
            await asyncio.sleep(answer["after_us"] / 1_000_000)
        return answer


async def openai(provider):
    """OpenAI's SDK as it is installed: two retries, 0.5 s doubled, or what Retry-After says."""
    import httpx2
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAIError

    class Transport(httpx2.AsyncBaseTransport):
        async def handle_async_request(self, request):
            answer = await provider.ask(int(request.headers["x-number"]))
            return httpx2.Response(answer["status"], headers=answer["headers"], json=answer["body"])

    client = AsyncOpenAI(
        api_key="ours",
        base_url="http://provider/v1",
        http_client=DefaultAsyncHttpxClient(transport=Transport()),
    )

    async def call(number):
        _, _, output = CALLS[number]
        try:
            await client.chat.completions.create(
                model="m",
                messages=[{"role": "user", "content": "tide"}],
                max_tokens=output,
                extra_headers={"x-number": str(number)},
            )
        except OpenAIError:
            return False
        return True

    return call


async def fixed(provider):
    """A limiter in front of that SDK: aiolimiter, set to the limit at the beginning times a factor, of
    which each call takes what the provider charges."""
    from aiolimiter import AsyncLimiter

    sdk = await openai(provider)
    limit = AsyncLimiter(TASK["limit"] * TASK["factor"], 60)

    async def call(number):
        _, prompt, output = CALLS[number]
        await limit.acquire(prompt + output)
        return await sdk(number)

    return call


async def adaptive(provider):
    """adaptive-rate-limiter in its mode for production, with its own settings but for how long a call
    may take. What it is told of limits is the newest that a header has said, at first the right
    one. A caller that is refused all the same asks again after Retry-After, three times in all, as
    the gateway does."""
    from adaptive_rate_limiter import TEXT, DiscoveredBucket, ProviderInterface, RequestMetadata
    from adaptive_rate_limiter.backends import MemoryBackend
    from adaptive_rate_limiter.scheduler import RateLimiterConfig, StateConfig, create_scheduler
    from adaptive_rate_limiter.scheduler.state import StateManager

    class Refused(Exception):
        def __init__(self, answer):
            super().__init__("429 rate limit")
            self.status_code = answer["status"]
            self.cached_rate_limit_headers = answer["headers"]

    class Answered:
        def __init__(self, answer):
            self.headers = answer["headers"]

    class Client:
        base_url, timeout = "http://provider/v1", float(TASK["patience_s"])

        def get_headers(self):
            return {}

    class Limits(ProviderInterface):
        name = "provider"

        def __init__(self):
            self.calls, self.tokens = None, None
            self.told({"x-ratelimit-limit-requests": 100_000, "x-ratelimit-limit-tokens": TASK["limit"]})

        def told(self, headers):
            self.calls = int(headers["x-ratelimit-limit-requests"])
            tokens = int(headers["x-ratelimit-limit-tokens"])
            if tokens != self.tokens:
                say({"knows": tokens, "at": micros()})
            self.tokens = tokens

        async def discover_limits(self, force_refresh=False, timeout=30.0):
            return {"m": DiscoveredBucket("m", rpm_limit=self.calls, tpm_limit=self.tokens)}

        def parse_rate_limit_response(self, headers, body=None, status_code=None):
            raise NotImplementedError("the library does not call it")

        async def get_bucket_for_model(self, model_id, resource_type=None):
            return "m"

    class Classifier:
        async def classify(self, request):
            raise NotImplementedError("each call brings what it is classified as")

    limits = Limits()
    scheduler = create_scheduler(
        client=Client(),
        mode="intelligent",
        config=RateLimiterConfig(request_timeout=float(TASK["patience_s"])),
        provider=limits,
        classifier=Classifier(),
        state_manager=StateManager(backend=MemoryBackend(), config=StateConfig()),
    )
    await scheduler.start()

    async def ask(number):
        answer = await provider.ask(number)
        limits.told(answer["headers"])
        if answer["status"] != 200:
            raise Refused(answer)
        return Answered(answer)

    async def call(number):
        _, prompt, output = CALLS[number]
        for attempt in range(3):
            metadata = RequestMetadata(
                request_id=f"{number}-{attempt}",
                model_id="m",
                resource_type=TEXT,
                estimated_tokens=prompt + output,
                timeout=float(TASK["patience_s"]),
            )
            result = await scheduler.submit_request(metadata, lambda: ask(number))
            try:
                await result.request.future
                return True
            except Refused as refused:
                await asyncio.sleep(float(refused.cached_rate_limit_headers.get("retry-after", 1)))
        return False

    return call


CLIENTS = {"openai": openai, "fixed": fixed, "adaptive": adaptive}


async def play():
    provider = Provider()
    call = await CLIENTS[TASK["client"]](provider)

    async def one(number):
        at = CALLS[number][0]
        await asyncio.sleep(max(0, at - micros()) / 1_000_000)
        try:
            answered = await asyncio.wait_for(call(number), TASK["patience_s"])
        except Exception:
            answered = False
        return provider.admitted[number] - at if answered and number in provider.admitted else None

    waits = await asyncio.gather(*(one(number) for number in range(len(CALLS))))
    say({"waits": waits})


asyncio.Runner(loop_factory=virtual.Loop).run(play())
