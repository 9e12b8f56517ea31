"""How a call ended, in a form that travels between processes."""

from __future__ import annotations

import pickle
import traceback
from typing import Any, NamedTuple, Optional

#: What a call may raise that is its own error.
ENDS = (Exception, SystemExit, KeyboardInterrupt)


class RemoteTraceback(Exception):
    """The cause of an error of another process: where it was raised there."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


class Outcome(NamedTuple):
    """A value, or an error."""

    value: Any = None
    error: Optional[BaseException] = None
    #: The error's traceback, which is lost when it is pickled.
    text: str = ""

    def get(self) -> Any:
        """The value.

        :raises BaseException: the error.
        """
        if self.error is not None:
            raise self.told()
        return self.value

    def told(self) -> BaseException:
        """The error, with where it was raised if that was in another process."""
        assert self.error is not None
        if self.error.__traceback__ is None and self.error.__cause__ is None and self.text:
            self.error.__cause__ = RemoteTraceback(self.text)
        return self.error


def portable(error: BaseException) -> Outcome:
    """An error as it can be sent; one that cannot be pickled by its words alone."""
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__qualname__}: {error} (this error cannot be pickled)")
    return Outcome(error=error, text=text)
