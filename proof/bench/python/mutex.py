"""A mutex of libc's that processes share (`mutex.c`), which the system's C compiler makes ready."""

from __future__ import annotations

import ctypes
import mmap
import os
import pathlib
import shutil
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).with_name("mutex.c")


class Mutex:
    def __init__(self, compiler: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            made = pathlib.Path(folder) / "mutex.so"
            subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-pthread", "-o", made, SOURCE], check=True)
            self._library = ctypes.CDLL(str(made))
        # A page that children of this process share. It has room for any mutex.
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        self._mutex = ctypes.byref(ctypes.c_char.from_buffer(self._page))
        self._library.lock_and_unlock.argtypes = [ctypes.c_void_p, ctypes.c_long]
        self._must(self._library.make(self._mutex))

    def in_c(self, count: int) -> None:
        """Locks and unlocks it so often, all in one call."""
        self._must(self._library.lock_and_unlock(self._mutex, count))

    def in_calls(self, count: int) -> None:
        """The same by a call for each."""
        lock_and_unlock, mutex = self._library.lock_and_unlock, self._mutex
        for _ in range(count):
            self._must(lock_and_unlock(mutex, 1))

    @staticmethod
    def _must(failed: int) -> None:
        if failed:
            raise OSError(failed, os.strerror(failed))


def made() -> Mutex | None:
    """``None``: there is no compiler."""
    compiler = shutil.which("cc")
    return None if compiler is None else Mutex(compiler)
