"""Functions that run within limits."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from typing import Any, Optional, TypeVar, Union

from .limits import Number
from .sets import LimitPool, LimitSet

_F = TypeVar("_F", bound=Callable[..., Any])

#: Amounts by limit, or a function of the call's arguments that says them.
Requested = Union[Mapping[str, Number], Callable[..., Mapping[str, Number]], None]


def limited(
    limits: Union[LimitSet, LimitPool],
    requested: Requested = None,
    *,
    timeout: Optional[float] = None,
    priority: int = 0,
    key: Union[str, Callable[..., str]] = "default",
) -> Callable[[_F], _F]:
    """Runs each call of a function, generator, coroutine or async generator within ``limits``.

    >>> from tidegate import LimitSet, limited
    >>> @limited(LimitSet("100/minute"), key=lambda user: user)
    ... def greet(user):
    ...     return f"hello {user}"
    >>> greet("alice")
    'hello alice'

    A generator holds them from its first step to its end. What a call holds for a ``ttl`` is renewed
    until then.

    :param requested: amounts by limit, as of ``acquire``, or a function of the call's arguments that
        answers them; a method's first argument is its ``self`` or ``cls``.
    :param timeout: seconds that a call waits; ``None``: as long as it takes, 0 or less: not at all.
    :param priority: 0 to 255; a call counts as having come so many seconds earlier.
    :param key: whose limits, or a function of the call's arguments.
    :raises TypeError: ``limits`` is no set and no pool; what is decorated cannot be called.
    :raises AcquireTimeout: from the call, and so is whatever else ``limits.acquire`` raises.
    """

    def words(arguments: tuple[Any, ...], named: dict[str, Any]) -> dict[str, Any]:
        asked = requested(*arguments, **named) if callable(requested) else requested
        whose = key(*arguments, **named) if callable(key) else key
        return dict(requested=asked, timeout=timeout, priority=priority, key=whose, keep_alive=True)

    if not isinstance(limits, (LimitSet, LimitPool)):
        raise TypeError(f"@limited(limits): a LimitSet or a LimitPool is needed, not {limits!r}")

    def decorate(function: Any) -> Any:
        if isinstance(function, (staticmethod, classmethod)):
            return type(function)(decorate(function.__func__))
        if not callable(function):
            raise TypeError(f"{function!r} is no function; write @property above @limited")
        if inspect.isasyncgenfunction(function):

            @functools.wraps(function)
            async def async_generator(*arguments: Any, **named: Any) -> AsyncGenerator[Any, Any]:
                async with await limits.async_acquire(**words(arguments, named)):
                    inner = function(*arguments, **named)
                    try:
                        item = await inner.asend(None)
                        while True:
                            try:
                                sent = yield item
                            except GeneratorExit:
                                raise
                            except BaseException as error:
                                item = await inner.athrow(error)
                            else:
                                item = await inner.asend(sent)
                    except StopAsyncIteration:
                        return
                    finally:
                        await inner.aclose()

            return async_generator
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def coroutine(*arguments: Any, **named: Any) -> Any:
                async with await limits.async_acquire(**words(arguments, named)):
                    return await function(*arguments, **named)

            return coroutine
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generator(*arguments: Any, **named: Any) -> Generator[Any, Any, Any]:
                with limits.acquire(**words(arguments, named)):
                    return (yield from function(*arguments, **named))

            return generator

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            with limits.acquire(**words(arguments, named)):
                answer = function(*arguments, **named)
                if inspect.iscoroutine(answer):
                    answer.close()
                    raise TypeError(f"{function!r} returns a coroutine: decorate an async def")
                return answer

        return call

    return decorate
