"""Calls of language models within limits, by httpx."""

from __future__ import annotations

from typing import Any, ClassVar

try:
    import httpx
except ImportError as missing:
    raise ImportError("tidegate.llm.httpx needs httpx: pip install httpx") from missing

from ._transports import AsyncBody, AsyncTransport, Body, Transport

__all__ = ["AsyncLlmTransport", "LlmTransport"]


class _Body(Body, httpx.SyncByteStream):
    pass


class _AsyncBody(AsyncBody, httpx.AsyncByteStream):
    pass


class LlmTransport(Transport[httpx.BaseTransport, httpx.Request], httpx.BaseTransport):
    """Sends each call of a language model when ``limits`` let it, and settles it once for what it used.

    >>> import httpx
    >>> from tidegate import CallLimit, LimitSet, RateLimit, ResourceLimit
    >>> tokens = RateLimit("tokens", 90_000, "per_minute")
    >>> limits = LimitSet([CallLimit(500, "per_minute"), tokens, ResourceLimit("slots", 8)])
    >>> client = httpx.Client(transport=LlmTransport(limits))

    A call is settled at the end of its answer, when that is closed or breaks off, or when nobody has it
    any more. One that the limits refuse is answered in the words of its provider.

    :param limits: of a pool, the set that let a call go is the one that pauses.
    :param transport: what sends calls; default: ``httpx.HTTPTransport()``.
    :param key: whose a call is, or a function of the request: each key has limits of its own.
    :param timeout: seconds; ``None`` for as long as it takes. Then the answer is 429.
    :param counts: what a rate or budget counts, by its name, where that does not say it: ``"tokens"``,
        ``"input-tokens"``, ``"output-tokens"`` or ``"money"``.
    :param prices: by model, for limits on money. ``gpt-5`` is also its dated versions, ``gpt-5-*`` all
        that begin so.
    :param weights: by model, how many tokens one counts as, for limits on tokens.
    :param provider: whose habits: ``"azure"``, ``"groq"``, ``"mistral"`` ...; default: by the path.
    :param max_pause: the longest that a refusal of the provider can stop calls, in seconds.
    :param ttl: in how many seconds what a call holds comes back if this process has gone; it is renewed
        while the answer is open. Default: as of ``acquire``.
    :raises InvalidRequest: it is not clear what a limit counts; money without prices, or in whole
        numbers; no such provider.
    """

    _library: ClassVar[Any] = httpx
    _body: ClassVar[Any] = _Body


class AsyncLlmTransport(AsyncTransport[httpx.AsyncBaseTransport, httpx.Request], httpx.AsyncBaseTransport):
    """As ``LlmTransport``, for ``httpx.AsyncClient``, without a thread."""

    _library: ClassVar[Any] = httpx
    _body: ClassVar[Any] = _AsyncBody
