"""Clients of a server (`tidegate serve`)."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _core
from .administration import Administers, AsyncAdministers, instant, looked_up, query, whose
from .errors import InvalidRequest, TidegateError

if TYPE_CHECKING:
    from datetime import datetime
    from decimal import Decimal

    from ._core import Answer, ServerGrant, ServerLease, Spent

    _Number = Union[int, float, Decimal]
    _Amounts = Mapping[str, _Number]
    _Key = Union[str, bytes]
    _Instant = Union[str, datetime]
    _Path = Union[str, "os.PathLike[str]"]

#: Who is limited unless a request says it.
_KEY = "default"
#: No entity. (`None` is an error: it is a variable that is empty by mistake.)
_NONE: Any = object()


def _who(key: _Key, entity: str) -> Any:
    if entity is _NONE:
        if not isinstance(key, (str, bytes)):
            raise TypeError(f"a key is a str or bytes, not {key!r}")
        return key
    if key != _KEY:
        raise InvalidRequest("give a key or an entity, not both")
    if not isinstance(entity, str):
        raise TypeError(f"the id of an entity is a str, not {entity!r}")
    return (entity,)


def _check_timeout(timeout: Optional[float]) -> None:
    """A server bounds how long a request waits, so there is no waiting for as long as it takes.

    :raises TypeError: ``None``.
    """
    if timeout is None:
        raise TypeError("acquire: timeout is a number of seconds; try_acquire does not wait")
    if not isinstance(timeout, (int, float)):
        raise TypeError(f"acquire: timeout is a number of seconds, not {timeout!r}")


def _asked(
    policy: str,
    requested: Optional[_Amounts] = None,
    *,
    key: _Key = _KEY,
    entity: str = _NONE,
    cost: Optional[_Number] = None,
    member: Optional[str] = None,
) -> tuple[Any, ...]:
    if not isinstance(policy, str):
        raise TypeError(f"the name of a policy is a str, not {policy!r}")
    if requested is not None and not isinstance(requested, Mapping):
        raise TypeError(f"requested is a dict of amounts by limit, not {requested!r}")
    return policy, _who(key, entity), requested, cost, member


def _used(
    policy: str,
    key: Optional[_Key],
    entity: Optional[str],
    prefix: Optional[str],
    since: Optional[_Instant],
    until: Optional[_Instant],
    by: str,
    limit: int,
    cursor: Optional[str],
) -> list[tuple[str, str]]:
    asked = query(prefix=prefix, since=instant(since), until=instant(until), by=by)
    return whose(policy, key, entity) + asked + query(limit=limit, cursor=cursor)


class _Server:
    """What both clients have: which server, and how it is asked."""

    _awaits: bool

    def __init__(
        self,
        url: str,
        token: Optional[str] = None,
        timeout: float = 10.0,
        *,
        ca: Optional[_Path] = None,
        cert: Optional[tuple[_Path, _Path]] = None,
        namespace: Optional[str] = None,
    ) -> None:
        self._url, self._again = url, (url, token, timeout, ca, cert, namespace)
        self._server = _core.Server(
            url, token, timeout, ca=ca, cert=cert, namespace=namespace, is_awaited=self._awaits
        )

    def __reduce__(self) -> Any:
        return _again, (type(self), *self._again)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._url}>"


def _again(
    cls: type[_Server],
    url: str,
    token: Optional[str],
    timeout: float,
    ca: Optional[_Path],
    cert: Optional[tuple[_Path, _Path]],
    namespace: Optional[str] = None,
) -> _Server:
    return cls(url, token, timeout, ca=ca, cert=cert, namespace=namespace)


class Client(Administers, _Server):
    """A client of a server, which has the limits: policies, by name.

    Threads may share one. Every call ends by its ``timeout``, and releases the interpreter's
    lock while it waits; Ctrl-C interrupts it. A call whose connection fails is tried again, three
    times at most, where that cannot charge twice. It can be pickled (with its token), and a
    forked child connects anew.

    :param url: ``"http://HOST:PORT"`` or ``"https://HOST:PORT"``.
    :param token: the token to authenticate with.
    :param timeout: seconds that the server may take to answer, beyond those that a request waits.
    :param ca: a PEM file with the authorities to trust, and not those that the system trusts.
    :param cert: PEM files of the certificate to show a server that asks for one, and its key.
    :param namespace: in which namespace of the server it acts; default: in that of its token.
    :raises ValueError: a URL, a token or a file that cannot be used.

    Every verb raises

    - ``InvalidRequest``: an unknown limit; an amount below 0, NaN or infinite, above 2^53 - 1, or
      finer than the limit's unit; ``ImpossibleRequest``: more than a limit ever grants;
    - ``UnknownPolicy``: the server has no such policy, entity, namespace or member; ``Unauthorized``: no token,
      or an unknown one; ``Forbidden``: it is not for this policy or verb;
    - ``Conflict``: somebody else has changed first what was to be changed, or others depend on it as it is;
    - ``QueueFull``, ``CapacityFull``: no room for one more request, key or lease;
      ``StoreUnavailable``: the server's store did not answer;
    - ``ServerUnavailable``: it cannot be reached; ``ServerTimeout``: no answer in time.

    A refusal is no error: it is a falsy value.
    """

    _awaits = False

    def check(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
    ) -> Answer:
        """Takes what is requested, if it fits now, without a lease.

        :param requested: amounts by limit. Calls that are not named are taken at 1; a rate that is
            not named is not charged once any limit is named. 0 leaves a limit out. Slots need a lease:
            a policy with a concurrency limit raises ``InvalidRequest`` unless the limit is left out
            (``{"slots": 0}``); call ``acquire``.
        :param key: who is limited; default: ``"default"``, if ``entity`` is not given.
        :param entity: in place of ``key``, the id of an entity that the server's store keeps: it is
            limited, and its ancestors.
        :param cost: how much of every rate and budget that is not named.
        """
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost)
        answer: Answer = self._server.check(asked)
        return answer

    def check_many(self, checks: Sequence[Mapping[str, Any]]) -> list[Union[Answer, TidegateError]]:
        """Several checks at once, 1,000 at most, answered in their order.

        :param checks: of each the arguments of ``check``: ``{"policy": "chat", "key": "alice",
            "requested": {"tokens": 500}}``.

        A check that the server refuses (an unknown policy, an unknown limit) is answered by its error,
        in its place, which is not raised.

        :raises InvalidRequest: an amount that is below 0, NaN or infinite; a key beside an entity; no
            checks; more than 1,000: none of them is taken.
        """
        answers: list[Union[Answer, TidegateError]]
        answers = self._server.check_many([_asked(**check) for check in checks])
        return answers

    def peek(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
        member: Optional[str] = None,
    ) -> Answer:
        """What ``check`` would answer now. Nothing changes."""
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost, member=member)
        answer: Answer = self._server.peek(asked)
        return answer

    def forecast(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
        member: Optional[str] = None,
    ) -> dict[str, int]:
        """How many such requests fit now, by limit. A pool needs ``member``."""
        fit: dict[str, int]
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost, member=member)
        fit = self._server.forecast(asked)
        return fit

    def debit(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
        member: Optional[str] = None,
    ) -> Answer:
        """Charges what was used already, whether it fits or not; answers whether more is admitted.

        A pool needs ``member``: where it was used.

        :param requested: amounts by limit. Only what is named is charged, calls included; rates and
            budgets that are not named by ``cost``.
        :raises InvalidRequest: nothing is left to charge; a concurrency limit.
        """
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost, member=member)
        answer: Answer = self._server.debit(asked)
        return answer

    def reset(self, policy: str, *, key: _Key = _KEY, entity: str = _NONE) -> None:
        """Forgets what a key has used; what is held stays. Takes the scope ``administer``."""
        self._server.reset(policy, _who(key, entity))

    def list_usage(
        self,
        policy: str,
        *,
        key: Optional[_Key] = None,
        entity: Optional[str] = None,
        prefix: Optional[str] = None,
        since: Optional[_Instant] = None,
        until: Optional[_Instant] = None,
        by: str = "hour",
        limit: int = 100,
        cursor: Optional[str] = None,
    ) -> dict[str, Any]:
        """A page of what was used of a policy, by hour, day or month. Takes the scope ``observe``.

        :param key: of this key alone; ``entity``: of this entity; ``prefix``: of keys that begin so.
        :param since: in hours from that of this instant on: a ``datetime`` with a time zone, or a text
            such as ``"2026-01-01T00:00:00Z"``; ``until``: in those before this one.
        :param by: ``"hour"``, ``"day"`` or ``"month"`` of UTC: what is added up. A day or a month may be
            told in parts, on several pages: add them up.
        :param limit: how many a page has at most, up to 1,000; it may have fewer and not be the last.
        :param cursor: that of the page before.
        :returns: ``{"usage": [...], "cursor": ...}``; on the last page the cursor is ``None``.
        """
        said = (policy, key, entity, prefix, since, until, by, limit, cursor)
        page: dict[str, Any] = self._server.exchange(*looked_up("/v1/usage", [], _used(*said)))
        return page

    def acquire(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        timeout: float = 30.0,
        priority: int = 0,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
        ttl: Optional[float] = None,
        wait_for_refunds: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> ServerLease:
        """Takes a lease, in order of arrival; waits for it at the server if need be.

        A lease is renewed in the background until it ends. A holder whose process dies gives back
        what it holds within ``ttl`` seconds.

        :param requested: amounts by limit. Calls and slots that are not named are taken at 1; a rate
            that is not named is not charged once any limit is named. 0 leaves a limit out.
        :param timeout: how many seconds it waits: 0 to 300 (the server's ``longest_wait``); more raises
            ``InvalidRequest``, less waits not at all.
        :param priority: 0 to 255; a request counts as having come so many seconds earlier.
        :param ttl: seconds (0.001 to 34,560,000) that the lease outlives its holder; default: the
            policy's.
        :param wait_for_refunds: wait also where the rates cannot grant it in time, for what others
            give back.
        :param idempotency_key: 1 to 255 bytes; the same for the same key again, also from another
            process, gives the same lease for as long as that is held. Each call has one of its own
            otherwise, so that one whose answer was lost is asked again and takes nothing twice.
        :raises AcquireTimeout: not granted in time (a ``TimeoutError``); at once if its rates
            cannot grant it in time.
        :raises TypeError: ``timeout`` is ``None``; ``try_acquire`` does not wait.
        """
        _check_timeout(timeout)
        said = (timeout, priority, ttl, wait_for_refunds, idempotency_key)
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost)
        lease: ServerLease = self._server.acquire(asked, *said)
        return lease

    def try_acquire(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        priority: int = 0,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
        ttl: Optional[float] = None,
        idempotency_key: Optional[str] = None,
    ) -> ServerLease:
        """As ``acquire``, but never waits: a refusal is a lease that is false, and holds nothing."""
        said = (None, priority, ttl, False, idempotency_key)
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost)
        lease: ServerLease = self._server.acquire(asked, *said)
        return lease

    def grant(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        *,
        least: Optional[_Amounts] = None,
        hold: Optional[float] = None,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
    ) -> ServerGrant:
        """Takes units in advance, to be spent here without asking.

        :param requested: how much is wished, by limit: of each as much as is there is granted. Calls
            that are not named are taken at 1.
        :param least: less than so much of these limits makes no sense: then nothing is granted;
            default: 1 of each.
        :param hold: for how many seconds it is held at most, 0.01 to 60; default: as the policy's
            tier holds one, or a second.
        :raises InvalidRequest: a policy with a concurrency limit, or of a pool.
        :raises StoreUnavailable: whatever the policy's failure mode.
        """
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost)
        grant: ServerGrant = self._server.grant(asked, least, hold)
        return grant

    def return_grant(
        self,
        grant: ServerGrant,
        usage: Optional[_Amounts] = None,
        *,
        cost: Optional[_Number] = None,
    ) -> None:
        """Ends a grant with what was used of it: nothing of what is not named. The rest comes back.

        If the server did not answer, call it again: a grant is settled once.

        :raises LeaseEnded: nothing was granted, or the server does not know it any more.
        """
        self._server.return_grant(grant, usage, cost)

    def spender(
        self,
        policy: str,
        batch: _Amounts,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        hold: Optional[float] = None,
        low_water: int = 20,
        idle: float = 1.0,
    ) -> Spender:
        """What spends the limits of a key by grants that it takes from the server in advance.

        :param batch: how much of each limit a grant asks for. Name every limit that requests take
            more than one unit of; a request for more than a batch is decided by the server.
        :param hold: for how many seconds a grant is spent at most, 0.01 to 60; default: as the
            policy's tier says, or a second.
        :param low_water: the next grant is asked for when less than so many hundredths of a batch
            are left; 0: when a request finds too little.
        :param idle: what is not spent goes back after so many seconds without a request; a refusal
            is remembered for no longer.
        """
        who = _who(key, entity)
        return Spender(self._server.spender(policy, who, batch, hold, low_water, idle))


class Spender:
    """What spends a key's limits here, by grants of a server: mostly without asking.

    ``Client.spender`` makes one. Threads may share it. It asks for one grant at a time; requests
    that lack units wait for it, in order of arrival. As a context manager it is closed with its
    block. One that is dropped gives the rest back in the background, if the process lives; a process
    that is killed leaves at most what it held. A forked child has one of its own.
    """

    def __init__(self, spender: _core.ServerSpender) -> None:
        self._spender = spender

    def take(
        self, requested: Optional[_Amounts] = None, *, cost: Optional[_Number] = None
    ) -> Spent:
        """May a request for so much start? A refusal is false.

        :param requested: amounts by limit. Calls that are not named are taken at 1.
        :param cost: how much of every rate and budget that is not named.
        """
        spent: Spent = self._spender.take(requested, cost)
        return spent

    def spend(
        self, usage: Optional[_Amounts] = None, *, cost: Optional[_Number] = None
    ) -> None:
        """Charges what was used already, whether it fits or not; calls only if they are named.

        What is here covers it, and the server is not asked. What a grant does not cover is debt, at
        once and exactly once; where there is no grant, it is debited.
        """
        self._spender.spend(usage, cost)

    def close(self) -> None:
        """Gives back what is left; from then on requests are decided by the server."""
        self._spender.close()

    def __enter__(self) -> Spender:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()


class AsyncSpender:
    """As ``Spender``, awaited in an event loop; ``AsyncClient.spender`` makes one."""

    def __init__(self, spender: _core.ServerSpender) -> None:
        self._spender = spender

    def take(
        self, requested: Optional[_Amounts] = None, *, cost: Optional[_Number] = None
    ) -> Awaitable[Spent]:
        """As ``Spender.take``."""
        spent: Awaitable[Spent] = self._spender.take(requested, cost)
        return spent

    def spend(
        self, usage: Optional[_Amounts] = None, *, cost: Optional[_Number] = None
    ) -> Awaitable[None]:
        """As ``Spender.spend``."""
        done: Awaitable[None] = self._spender.spend(usage, cost)
        return done

    def close(self) -> Awaitable[None]:
        """As ``Spender.close``."""
        done: Awaitable[None] = self._spender.close()
        return done

    async def __aenter__(self) -> AsyncSpender:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()


class AsyncClient(AsyncAdministers, _Server):
    """As ``Client``, awaited in an event loop, without a thread of the loop's own.

    Each verb is that of ``Client``. A task that is cancelled gives up its place; what it was
    granted meanwhile is given back. Of a lease, ``async with`` and the verbs that begin with
    ``async_`` are awaited.
    """

    _awaits = True

    def check(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
    ) -> Awaitable[Answer]:
        """As ``Client.check``."""
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost)
        answer: Awaitable[Answer] = self._server.check(asked)
        return answer

    def check_many(
        self, checks: Sequence[Mapping[str, Any]]
    ) -> Awaitable[list[Union[Answer, TidegateError]]]:
        """As ``Client.check_many``."""
        answers: Awaitable[list[Union[Answer, TidegateError]]]
        answers = self._server.check_many([_asked(**check) for check in checks])
        return answers

    def peek(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
        member: Optional[str] = None,
    ) -> Awaitable[Answer]:
        """As ``Client.peek``."""
        answer: Awaitable[Answer]
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost, member=member)
        answer = self._server.peek(asked)
        return answer

    def forecast(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
        member: Optional[str] = None,
    ) -> Awaitable[dict[str, int]]:
        """As ``Client.forecast``."""
        fit: Awaitable[dict[str, int]]
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost, member=member)
        fit = self._server.forecast(asked)
        return fit

    def debit(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
        member: Optional[str] = None,
    ) -> Awaitable[Answer]:
        """As ``Client.debit``."""
        answer: Awaitable[Answer]
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost, member=member)
        answer = self._server.debit(asked)
        return answer

    def reset(self, policy: str, *, key: _Key = _KEY, entity: str = _NONE) -> Awaitable[None]:
        """As ``Client.reset``."""
        done: Awaitable[None] = self._server.reset(policy, _who(key, entity))
        return done

    def list_usage(
        self,
        policy: str,
        *,
        key: Optional[_Key] = None,
        entity: Optional[str] = None,
        prefix: Optional[str] = None,
        since: Optional[_Instant] = None,
        until: Optional[_Instant] = None,
        by: str = "hour",
        limit: int = 100,
        cursor: Optional[str] = None,
    ) -> Awaitable[dict[str, Any]]:
        """As ``Client.list_usage``."""
        said = (policy, key, entity, prefix, since, until, by, limit, cursor)
        page: Awaitable[dict[str, Any]] = self._server.exchange(*looked_up("/v1/usage", [], _used(*said)))
        return page

    def acquire(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        timeout: float = 30.0,
        priority: int = 0,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
        ttl: Optional[float] = None,
        wait_for_refunds: bool = False,
        idempotency_key: Optional[str] = None,
    ) -> Awaitable[ServerLease]:
        """As ``Client.acquire``."""
        _check_timeout(timeout)
        said = (timeout, priority, ttl, wait_for_refunds, idempotency_key)
        lease: Awaitable[ServerLease]
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost)
        lease = self._server.acquire(asked, *said)
        return lease

    def try_acquire(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        priority: int = 0,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
        ttl: Optional[float] = None,
        idempotency_key: Optional[str] = None,
    ) -> Awaitable[ServerLease]:
        """As ``Client.try_acquire``."""
        said = (None, priority, ttl, False, idempotency_key)
        lease: Awaitable[ServerLease]
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost)
        lease = self._server.acquire(asked, *said)
        return lease

    def grant(
        self,
        policy: str,
        requested: Optional[_Amounts] = None,
        *,
        least: Optional[_Amounts] = None,
        hold: Optional[float] = None,
        key: _Key = _KEY,
        entity: str = _NONE,
        cost: Optional[_Number] = None,
    ) -> Awaitable[ServerGrant]:
        """As ``Client.grant``."""
        asked = _asked(policy, requested, key=key, entity=entity, cost=cost)
        grant: Awaitable[ServerGrant] = self._server.grant(asked, least, hold)
        return grant

    def return_grant(
        self,
        grant: ServerGrant,
        usage: Optional[_Amounts] = None,
        *,
        cost: Optional[_Number] = None,
    ) -> Awaitable[None]:
        """As ``Client.return_grant``."""
        done: Awaitable[None] = self._server.return_grant(grant, usage, cost)
        return done

    def spender(
        self,
        policy: str,
        batch: _Amounts,
        *,
        key: _Key = _KEY,
        entity: str = _NONE,
        hold: Optional[float] = None,
        low_water: int = 20,
        idle: float = 1.0,
    ) -> AsyncSpender:
        """As ``Client.spender``."""
        who = _who(key, entity)
        return AsyncSpender(self._server.spender(policy, who, batch, hold, low_water, idle))
