from collections.abc import Callable, Generator, Mapping, Sequence
from decimal import Decimal
from types import TracebackType
from typing import Any, Generic, Literal, Optional, TypeVar, Union, final

from typing_extensions import disjoint_base

__all__ = [
    "Acquisition",
    "Answer",
    "Awaitable",
    "Limiter",
    "LlmCall",
    "LlmMeter",
    "ManualClock",
    "Permit",
    "Pool",
    "Server",
    "ServerGrant",
    "ServerLease",
    "ServerSpender",
    "Set",
    "Slots",
    "Spent",
    "Wakeups",
    "_after_fork",
    "_exhausted_for",
]

_T = TypeVar("_T", covariant=True)
_Number = Union[int, float]
_Amount = Union[int, float, Decimal]

@final
class Awaitable(Generic[_T]):
    """A verb that is awaited, once, in a task of asyncio. Nothing happens before that.

    :raises RuntimeError: it was awaited already.
    """

    def __await__(self) -> Generator[Any, None, _T]: ...
    def send(self, _value: None) -> Any: ...
    def throw(self, kind: Any, value: Any = None, traceback: Any = None) -> None: ...
    def close(self) -> None:
        """Gives it up: a request that waits leaves its place."""

@final
class Wakeups:
    """What one event loop watches: a descriptor, and the tasks that are to go on."""

    def __new__(cls) -> Wakeups: ...
    def fileno(self) -> int:
        """The descriptor to watch."""
    def take(self) -> list[int]:
        """The tokens of the tasks that are to go on."""

@final
class ManualClock:
    """A clock that stands still until a test advances it.

    >>> from tidegate import LimitSet
    >>> from tidegate.testing import ManualClock
    >>> clock = ManualClock()
    >>> limits = LimitSet("1/minute", clock=clock)
    >>> limits.acquire().release()
    >>> limits.try_acquire().retry_after
    60.0
    >>> clock.advance(60)
    >>> limits.try_acquire().successful
    True

    A request that waits, also for its ``timeout``, waits until another thread or task advances
    the clock.

    :param start: seconds since the Unix epoch; default: noon of 1 January 2026, UTC.
    :raises InvalidRequest: negative, not a number, beyond the year 2970.
    """

    def __new__(cls, start: Optional[float] = None) -> ManualClock: ...
    def now(self) -> float:
        """Seconds since the Unix epoch."""
    def advance(self, by: float) -> None:
        """Moves it forward by so many seconds. Requests whose turn comes on the way are served
        in order, each at its instant, before this returns.

        :raises InvalidRequest: negative, not a number, more than 1,000 years.
        """

@final
class Acquisition:
    """What was granted, until it ends; or what was refused, which holds nothing and is false.

    As a context manager it ends with its block. If the body raises, its own exception passes: what
    is held comes back, what was reported is charged, and an error of the end itself is dropped.
    Ctrl-C amid the end is raised after it.
    """

    @property
    def successful(self) -> bool:
        """Whether it was granted; also the truth of the acquisition itself."""
    @property
    def config(self) -> Any:
        """What the set (of a pool: the set that granted it) was given as ``config``."""
    @property
    def member(self) -> Optional[str]:
        """Of a pool: the name of the set that granted it."""
    @property
    def fence(self) -> Optional[int]:
        """A number that grows with each grant of the same resource; None where no slot was taken, or a
        tier gave it.

        Pass it with each write to what the slot protects, which must refuse a number below the largest
        that it has seen: then a holder that lost its slot can do no harm.
        """
    @property
    def limit(self) -> Optional[str]:
        """Of a refusal: the limit that refused it."""
    @property
    def retry_after(self) -> Optional[float]:
        """Of a refusal: in how many seconds it would be granted if nobody else asked.

        ``None`` where a resource refused it: that comes back when its holder ends.
        """
    @property
    def degraded(self) -> bool:
        """Whether it was decided without the store."""
    @property
    def remaining(self) -> dict[str, _Number]:
        """By limit, what it could still grant when this was decided; infinity of an infinite one."""
    @property
    def reclaimed(self) -> dict[str, _Number]:
        """By limit, how much less of a rate, budget or call limit was charged than was taken; ``{}``
        until it has ended. Slots are not in it, nor limits of which all was used."""
    def update(self, usage: Mapping[str, _Amount]) -> None:
        """Reports what was really used: charged at the end in place of what was taken. More than
        that is debt. Of several reports of one limit the last counts.

        :param usage: amounts by limit, as ``requested`` of ``acquire``.
        :raises LeaseEnded: it has ended, or was refused.
        :raises InvalidRequest: an unknown limit; an amount as of ``acquire``.
        """
    def adjust(self, requested: Mapping[str, _Amount], *, overdraw: bool = False) -> bool:
        """Changes how much is taken to ``requested`` in all; what is not named stays.

        ``False`` if more does not fit: then nothing has changed. With ``overdraw`` it is
        charged all the same, and is debt; of a resource never.

        :raises LeaseEnded: it has ended or expired, or was refused.
        :raises InvalidRequest: an unknown limit; an amount as of ``acquire``.
        :raises StoreUnavailable: the store could not tell.
        :raises RuntimeError: a verb on it is awaited in the event loop of this thread.
        """
    def async_adjust(self, requested: Mapping[str, _Amount], *, overdraw: bool = False) -> Awaitable[bool]:
        """As ``adjust``, awaited."""
    def renew(self, ttl: float) -> None:
        """Holds it for ``ttl`` seconds from now on: 0.001 to 34,560,000 (400 days).

        :raises LeaseEnded: it has ended or expired, or was refused.
        :raises InvalidRequest: a ``ttl`` out of that range.
        :raises StoreUnavailable: the store could not tell.
        :raises RuntimeError: a verb on it is awaited in the event loop of this thread.
        """
    def async_renew(self, ttl: float) -> Awaitable[None]:
        """As ``renew``, awaited."""
    def release(self) -> None:
        """Ends it: what is held comes back, and what was reported is charged. Once it has ended,
        or in a forked child, nothing. A verb on it that is awaited meanwhile raises ``LeaseEnded``.

        :raises UnreportedUsage: of a set with ``strict_updates``, no use of a rate was reported; it
            has ended all the same, or is back within its ``ttl`` if the store did not answer.
        :raises LeaseEnded: it expired so long ago that the store has forgotten it.
        :raises StoreUnavailable: the store could not tell; what is held is back within its ``ttl``.
        """
    def async_release(self) -> Awaitable[None]:
        """As ``release``, awaited. Given up once it has begun (its task is cancelled), it goes on."""
    def cancel(self) -> None:
        """Ends it and gives everything back: the work did not start.

        :raises LeaseEnded: it expired so long ago that the store has forgotten it.
        :raises StoreUnavailable: the store could not tell.
        """
    def async_cancel(self) -> Awaitable[None]:
        """As ``cancel``, awaited. Given up once it has begun (its task is cancelled), it goes on."""
    def __bool__(self) -> bool: ...
    def __enter__(self) -> Acquisition: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None: ...
    async def __aenter__(self) -> Acquisition: ...
    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None: ...

@disjoint_base
class Limiter:
    """What can be asked of a set and of a pool alike."""

    def acquire(
        self,
        requested: Optional[Mapping[str, _Amount]] = None,
        timeout: Optional[float] = None,
        priority: int = 0,
        *,
        key: str = "default",
        ttl: Optional[float] = None,
        keep_alive: bool = False,
    ) -> Acquisition:
        """Takes what is requested, in order of arrival; waits for it if need be. Ctrl-C interrupts
        the wait, and takes nothing.

        :param requested: amounts by limit: 0 to 2^53 - 1 units, no finer than the limit's ``places``.
            Calls and resources that are not named are taken at 1; a rate that is not named is not
            taken, and one must be if nothing else is. 0 leaves a limit out.
        :param timeout: seconds; ``None`` for as long as it takes, 0 or less for not at all.
        :param priority: 0 to 255; a request counts as having come so many seconds earlier.
        :param key: who is limited: each key has limits of its own.
        :param ttl: seconds (0.001 to 34,560,000) after which what is held comes back, unless it is
            renewed. Default: as long as the process in memory and in ``shm:``; elsewhere, and where a
            ``ResourceLimit`` has a ``ttl``, the shortest of its ``ResourceLimit``s (120 of one without
            a ``ttl``), or 600 without any.
        :param keep_alive: whether it is renewed in the background until it ends, each time a third of
            the ttl has passed, by one thread of the set. If this process dies, what is held comes
            back within the ttl. What lasts as long as its process needs no renewal.
        :raises AcquireTimeout: not granted in time (a ``TimeoutError``); at once if its rates
            cannot grant it in time.
        :raises ImpossibleRequest: more than a limit ever grants.
        :raises InvalidRequest: an unknown limit; a rate without an amount; an amount below 0, NaN or
            infinite, above 2^53 - 1 units, or finer than the limit's ``places``; a priority outside
            0 to 255; a timeout that is NaN; a ttl outside 0.001 to 34,560,000 seconds.
        :raises QueueFull: ``max_waiting`` requests wait already in this process.
        :raises CapacityFull: the store has no room for one more key or acquisition.
        :raises StoreUnavailable: the store could not tell.
        """
    def try_acquire(
        self,
        requested: Optional[Mapping[str, _Amount]] = None,
        priority: int = 0,
        *,
        key: str = "default",
        ttl: Optional[float] = None,
        keep_alive: bool = False,
    ) -> Acquisition:
        """As ``acquire``, but never waits: a refusal is an acquisition that is false."""
    def async_acquire(
        self,
        requested: Optional[Mapping[str, _Amount]] = None,
        timeout: Optional[float] = None,
        priority: int = 0,
        *,
        key: str = "default",
        ttl: Optional[float] = None,
        keep_alive: bool = False,
    ) -> Awaitable[Acquisition]:
        """As ``acquire``, awaited. A task that is cancelled leaves its place, and takes nothing."""
    def async_try_acquire(
        self,
        requested: Optional[Mapping[str, _Amount]] = None,
        priority: int = 0,
        *,
        key: str = "default",
        ttl: Optional[float] = None,
        keep_alive: bool = False,
    ) -> Awaitable[Acquisition]:
        """As ``try_acquire``, awaited."""
    def stats(self) -> dict[str, Any]:
        """What was counted in this process since it was made.

        ``admitted``, ``refused``, ``waited``, ``timed_out``, ``abandoned`` (given up while they
        waited): requests so far; ``waiting``: now. ``succeeded``, ``dropped`` (their body raised):
        how acquisitions ended; ``ignored``: 0, since nothing in Python ends one so. ``total_wait``,
        ``longest_wait``: seconds, of those that were admitted after a wait. ``refusals``: a dictionary
        by limit, how often it refused.
        """

class Set(Limiter):
    """A limit set, opened by its ``__init__``."""

    def __init__(
        self,
        limits: Sequence[Any],
        *,
        infinite: Sequence[str],
        rates: Sequence[str],
        refunded: Sequence[str],
        name: Optional[str] = None,
        store: Optional[str] = None,
        config: Any,
        strict_updates: bool,
        max_waiting: Optional[int] = None,
        clock: Optional[ManualClock] = None,
    ) -> None: ...
    def peek(self, *, key: str = "default") -> dict[str, dict[str, _Number]]:
        """Where each limit stands for a key; takes nothing, and does not wait.

        By limit a dictionary: ``capacity`` (the most that it grants at once), ``remaining`` (what it
        could grant now), ``debt`` (what was used beyond it and is not yet back).

        :raises StoreUnavailable: the store could not tell.
        """
    def async_peek(self, *, key: str = "default") -> Awaitable[dict[str, dict[str, _Number]]]:
        """As ``peek``, awaited."""

class Pool(Limiter):
    """A pool of sets, opened by its ``__init__``."""

    def __init__(
        self,
        members: Sequence[tuple[str, Set]],
        *,
        weights: Sequence[int],
        balance: str,
        balancer: Optional[Callable[[Sequence[int], int], Sequence[int]]] = None,
        offset: int = 0,
    ) -> None: ...
    def cool_down(self, member: str, seconds: float) -> None:
        """Passes over a set for so many seconds from now: its provider refused it. A longer pause
        that goes on already stays.

        A pause of a set in memory is this process's; of a set in a shared store it stops every process
        that uses that set in a pool or a transport.

        :param member: the set's name; of a pool made of a list, ``"0"``, ``"1"`` ...
        :param seconds: 0 or more.
        :raises InvalidRequest: no set of that name; seconds that are negative or NaN.
        """

@final
class LlmMeter:
    """What the limits of a set, or of each set of a pool, count of calls; what calls cost; and how long
    answers were.

    ``prices``: by model, of a million tokens: of the prompt, out of a cache, into one, of the answer.
    ``weights``: by model, how many tokens one of each of these counts as; ``None``: as the provider counts.
    """

    def __new__(
        cls,
        members: Sequence[Sequence[Any]],
        counts: Mapping[str, str],
        prices: Mapping[str, tuple[_Amount, Optional[_Amount], Optional[_Amount], _Amount]],
        weights: Mapping[str, tuple[Optional[_Amount], Optional[_Amount], Optional[_Amount], Optional[_Amount]]],
        provider: Optional[str],
    ) -> LlmMeter: ...
    def uses_tokens(self, method: str, path: str, headers: Sequence[tuple[str, str]]) -> bool:
        """Whether a request uses tokens: then its body is to be read."""
    def call(
        self,
        method: str,
        path: str,
        headers: Sequence[tuple[str, str]],
        body: Optional[bytes],
        key: str,
    ) -> LlmCall:
        """A request as a call. ``body`` of one that uses tokens."""

@final
class LlmCall:
    """What a call asks for, and what it has used."""

    @property
    def key(self) -> str:
        """Whose it is."""
    @property
    def refusal(self) -> Optional[tuple[int, str]]:
        """Why it is not to be sent: a status, and a message."""
    def requested(self) -> Optional[dict[str, _Number]]:
        """What to take of the limits; ``None`` of a call of which none counts anything."""
    def answered(
        self, status: int, headers: Sequence[tuple[str, str]]
    ) -> tuple[Literal["served", "unserved", "lost"], Optional[float]]:
        """An answer has begun: what has become of the call (of one that is lost nobody knows what it
        used), and after how many seconds a provider that refused it is to be asked again."""
    def read(self, data: bytes) -> None:
        """Reads on in the answer."""
    def used(self, complete: bool) -> Optional[dict[str, _Number]]:
        """What it has used, once its answer has ended, whole if it is ``complete``; ``None`` the
        second time."""
    def error(self, status: int, message: str, retry_after: Optional[float] = None) -> bytes:
        """The body of an error in the words of its provider."""

@final
class Permit:
    """A slot that is held, and renewed until it is released.

    As a context manager it ends with its block, as an ``Acquisition`` does.
    """

    @property
    def fence(self) -> int:
        """A number that grows with each grant. Pass it with each write to what the slot protects, which
        must refuse a number below the largest that it has seen: then a holder that lost its slot can
        do no harm."""
    @property
    def is_held(self) -> bool:
        """True until it is released or, by this process's clock, its ttl has passed since the last
        renewal that succeeded. Once it is false it stays so."""
    def release(self) -> None:
        """Gives it back. Once it was released, or in a forked child, nothing.

        :raises LeaseEnded: it was lost before: its holder was not heard of for its ``ttl``.
        :raises StoreUnavailable: the store could not tell; the slot is back within its ``ttl``.
        """
    def async_release(self) -> Awaitable[None]:
        """As ``release``, awaited. Given up once it has begun (its task is cancelled), it goes on."""
    def __enter__(self) -> Permit: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None: ...
    async def __aenter__(self) -> Permit: ...
    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None: ...

@disjoint_base
class Slots:
    """A semaphore, opened by its ``__init__``."""

    def __init__(
        self,
        name: str,
        slots: int,
        *,
        key: str,
        store: Optional[str] = None,
        ttl: Optional[float] = None,
        max_waiting: Optional[int] = None,
        clock: Optional[ManualClock] = None,
    ) -> None: ...
    def acquire(self, timeout: Optional[float] = None, *, slots: int = 1, priority: int = 0) -> Permit:
        """A permit of ``slots`` slots, in order of arrival; waits for it if need be. Ctrl-C
        interrupts the wait, and takes nothing.

        :param timeout: seconds; ``None`` for as long as it takes, 0 or less for not at all.
        :param priority: 0 to 255; a request counts as having come so many seconds earlier.
        :raises AcquireTimeout: not granted in time (a ``TimeoutError``).
        :raises ImpossibleRequest: more slots than there are.
        :param slots: how many, 1 or more.
        :raises InvalidRequest: less than one slot; a timeout that is NaN; a priority outside 0 to 255.
        :raises QueueFull: ``max_waiting`` requests wait already in this process.
        :raises StoreUnavailable: the store could not tell.
        """
    def try_acquire(self, *, slots: int = 1) -> Optional[Permit]:
        """A permit, if it need not be waited for; else ``None``."""
    def async_acquire(
        self, timeout: Optional[float] = None, *, slots: int = 1, priority: int = 0
    ) -> Awaitable[Permit]:
        """As ``acquire``, awaited. A task that is cancelled leaves its place, and takes nothing."""
    def async_try_acquire(self, *, slots: int = 1) -> Awaitable[Optional[Permit]]:
        """As ``try_acquire``, awaited."""
    def available(self) -> int:
        """How many slots are free.

        :raises StoreUnavailable: the store could not tell.
        """
    def stats(self) -> dict[str, Any]:
        """What was counted in this process of the semaphores of this name, whatever their keys: as of
        ``LimitSet.stats``, without ``refusals``.
        """

@final
class Answer:
    """May it start? A refusal is false."""

    @property
    def admitted(self) -> bool:
        """Whether it may start."""
    @property
    def limit(self) -> Optional[str]:
        """The limit that binds: whose refusal lasts longest."""
    @property
    def retry_after(self) -> Optional[float]:
        """Of a refusal: in how many seconds it is admitted if nothing else happens."""
    @property
    def degraded(self) -> bool:
        """The server's store could not tell: this is the policy's failure mode."""
    @property
    def shadowed(self) -> bool:
        """A shadow limit would have refused."""
    @property
    def level(self) -> Optional[str]:
        """The level of the limit that binds, where keys have levels."""
    @property
    def member(self) -> Optional[str]:
        """The member of a pool whose answer it is."""
    @property
    def entity(self) -> Optional[str]:
        """The id of the entity whose limit binds, where an entity was asked."""
    @property
    def remaining(self) -> dict[str, _Number]:
        """What each limit could still grant."""
    @property
    def debt(self) -> dict[str, _Number]:
        """What was used beyond each limit, and is not paid back yet."""
    def __bool__(self) -> bool: ...

@final
class ServerLease:
    """What a server granted, until it ends; or what it refused, which holds nothing and is false.

    As a context manager it ends with its block, unless it was settled in it. If the body raises, it
    ends with the outcome ``"ignored"``, and what it took counts as used.
    """

    @property
    def successful(self) -> bool:
        """Whether it was granted."""
    @property
    def is_held(self) -> bool:
        """True until it is released or, by this process's clock, its ttl has passed since the last
        renewal that succeeded. It is renewed in the background."""
    @property
    def fence(self) -> Optional[int]:
        """As ``Acquisition.fence``: a number that grows with each grant of the same slots."""
    @property
    def member(self) -> Optional[str]:
        """Of a pool: the member that granted it."""
    @property
    def metadata(self) -> dict[str, str]:
        """The ``metadata`` of the policy, and of that member: region, account, endpoint."""
    @property
    def limit(self) -> Optional[str]:
        """The limit that refused it."""
    @property
    def retry_after(self) -> Optional[float]:
        """Of a refusal: in how many seconds it is granted if nothing else happens."""
    @property
    def degraded(self) -> bool:
        """It was decided without the server's store: if admitted, nothing is held."""
    @property
    def remaining(self) -> dict[str, _Number]:
        """What each limit could still grant when this was decided."""
    @property
    def reclaimed(self) -> dict[str, _Number]:
        """As ``Acquisition.reclaimed``: by limit, how much less was charged than was taken; ``{}`` until
        it has ended."""
    def settle(
        self,
        usage: Optional[Mapping[str, Any]] = None,
        *,
        cost: Any = None,
        outcome: str = "succeeded",
        cool_down: Optional[float] = None,
    ) -> None:
        """Ends it with what was really used: less comes back, more is debt.

        If the server did not answer, call it again: the lease is settled once.

        :param usage: amounts by limit; of what is not named, rates and budgets were used as ``cost`` says,
            and the rest as taken.
        :param cost: an amount, in the unit of each rate and budget that ``usage`` does not name.
        :param outcome: ``"succeeded"``, ``"ignored"``, or ``"dropped"`` (its provider refused: a pool
            passes over the member that gave it).
        :param cool_down: of ``"dropped"``: for how many seconds, 0.001 to 34,560,000; default: as the
            policy says.
        :raises LeaseEnded: it has ended, or was refused.
        :raises InvalidRequest: an unknown limit or outcome; an amount as of ``Client``; a
            ``cool_down`` out of that range.
        :raises ServerUnavailable, ServerTimeout: the server gave no answer.
        """
    def async_settle(
        self,
        usage: Optional[Mapping[str, Any]] = None,
        *,
        cost: Any = None,
        outcome: str = "succeeded",
        cool_down: Optional[float] = None,
    ) -> Awaitable[None]:
        """As ``settle``, awaited."""
    def adjust(self, requested: Mapping[str, Any], *, overdraw: bool = False) -> bool:
        """Changes how much is taken to ``requested`` in all; what is not named stays.

        ``False`` if more does not fit: then nothing has changed. With ``overdraw`` it is
        charged all the same, and is debt.

        :raises LeaseEnded: it has ended, was lost, or was refused.
        :raises InvalidRequest: an unknown limit; an amount as of ``Client``.
        :raises ServerUnavailable, ServerTimeout: the server gave no answer; it may have changed it.
        """
    def async_adjust(self, requested: Mapping[str, Any], *, overdraw: bool = False) -> Awaitable[bool]:
        """As ``adjust``, awaited."""
    def renew(self, ttl: float) -> None:
        """Holds it for ``ttl`` seconds from now on (0.001 to 34,560,000: 400 days), and is renewed for
        as many in the background from here on.

        :raises LeaseEnded: it has ended, was lost, or was refused.
        :raises InvalidRequest: a ``ttl`` out of that range; nothing has changed.
        :raises ServerUnavailable, ServerTimeout: the server gave no answer; it may have renewed it.
        """
    def async_renew(self, ttl: float) -> Awaitable[None]:
        """As ``renew``, awaited."""
    def release(self) -> None:
        """Ends it: slots come back, rates stay charged as taken. Nothing if it has ended.

        :raises ServerUnavailable, ServerTimeout: the server gave no answer; call it again.
        """
    def async_release(self) -> Awaitable[None]:
        """As ``release``, awaited. Given up once it has begun (its task is cancelled), it goes on."""
    def cancel(self) -> None:
        """Ends it and gives everything back: the work did not start. Nothing if it has ended.

        :raises ServerUnavailable, ServerTimeout: the server gave no answer; call it again.
        """
    def async_cancel(self) -> Awaitable[None]:
        """As ``cancel``, awaited. Given up once it has begun (its task is cancelled), it goes on."""
    def __bool__(self) -> bool: ...
    def __enter__(self) -> ServerLease: ...
    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None: ...
    async def __aenter__(self) -> ServerLease: ...
    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None: ...

@final
class ServerGrant:
    """Units that a server granted, to be spent without asking; or what it refused, which is false."""

    @property
    def admitted(self) -> bool:
        """Whether anything was granted."""
    @property
    def amounts(self) -> dict[str, _Number]:
        """How much was granted of each limit that the key has: 0 of one that was not asked for."""
    @property
    def calls(self) -> list[str]:
        """The limits that count calls: of each, a request that does not name it spends 1."""
    @property
    def good_for(self) -> float:
        """For how many seconds from now on it may be spent, by a clock that never steps back."""
    @property
    def limit(self) -> Optional[str]:
        """The limit that refused."""
    @property
    def retry_after(self) -> Optional[float]:
        """Of a refusal: in how many seconds there is something if nothing else happens."""
    @property
    def remaining(self) -> dict[str, _Number]:
        """What each limit could still grant when this was decided."""
    def __bool__(self) -> bool: ...

@final
class Spent:
    """Whether a request of a spender may start. A refusal is false."""

    @property
    def admitted(self) -> bool:
        """Whether it may start: its units are spent."""
    @property
    def limit(self) -> Optional[str]:
        """The limit that refused."""
    @property
    def retry_after(self) -> Optional[float]:
        """Of a refusal: in how many seconds it is admitted if nothing else happens."""
    def __bool__(self) -> bool: ...

@final
class ServerSpender:
    """What spends grants of a server; its verbs are waited for or awaited, as the server's."""

    def take(self, requested: Any, cost: Any) -> Any: ...
    def spend(self, used: Any, cost: Any) -> Any: ...
    def close(self) -> Any: ...

@final
class Server:
    """A server, whose verbs are waited for or (``is_awaited``) awaited."""

    def __new__(
        cls,
        url: str,
        token: Optional[str],
        timeout: float,
        *,
        ca: Any,
        cert: Any,
        namespace: Optional[str],
        is_awaited: bool,
    ) -> Server: ...
    def check(self, asked: tuple[Any, ...]) -> Any: ...
    def check_many(self, asked: Sequence[tuple[Any, ...]]) -> Any: ...
    def peek(self, asked: tuple[Any, ...]) -> Any: ...
    def debit(self, asked: tuple[Any, ...]) -> Any: ...
    def forecast(self, asked: tuple[Any, ...]) -> Any: ...
    def reset(self, policy: str, who: Union[str, bytes, tuple[str]]) -> Any: ...
    def exchange(
        self,
        method: str,
        path: str,
        names: Sequence[str],
        query: Sequence[tuple[str, str]],
        body: Optional[str],
        if_version: Optional[int],
    ) -> Any: ...
    def grant(self, asked: tuple[Any, ...], least: Any, hold: Optional[float]) -> Any: ...
    def return_grant(self, grant: ServerGrant, used: Any, cost: Any) -> Any: ...
    def spender(
        self,
        policy: str,
        who: Union[str, bytes, tuple[str]],
        batch: Any,
        hold: Optional[float],
        low_water: int,
        idle: float,
    ) -> ServerSpender: ...
    def acquire(
        self,
        asked: tuple[Any, ...],
        timeout: Optional[float],
        priority: int,
        ttl: Optional[float],
        wait_for_refunds: bool,
        idempotency_key: Optional[str],
    ) -> Any: ...

def _after_fork() -> None: ...
def _exhausted_for(headers: Sequence[tuple[str, str]]) -> Optional[float]: ...
