"""What sets and workers ask of Ray, which is imported by its user and not by this package."""

from __future__ import annotations

import os
import sys
from typing import Any, Optional

from ._opened import is_of_one_process, scheme

_SERVER = "store='redis://...' (or postgres, mysql)"

#: What tells machines apart, and containers of one machine that share no memory.
Machine = tuple[str, int, int]


def running() -> Any:
    """The module ``ray``, if this process is connected to a cluster.

    :raises ValueError: it is not.
    """
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        raise ValueError(
            "mode='ray': this process is not connected to Ray; call ray.init() first (pip install ray), "
            f"or give a {_SERVER}"
        )
    return ray


def store(url: Optional[str]) -> str:
    """The store that actors and tasks share: ``url``, or shared memory where Ray has one node.

    :raises ValueError: there is none such.
    """
    url = "shm:python" if url is None else url
    if is_of_one_process(url):
        raise ValueError(f"a {scheme(url)}: store is of one process; Ray's processes share a {_SERVER}")
    if scheme(url) == "shm":
        nodes = sum(bool(node["Alive"]) for node in running().nodes())
        if nodes != 1:
            raise ValueError(f"{nodes} nodes of Ray share no memory, and would each admit as much; give a {_SERVER}")
    return url


def machine() -> Machine:
    """The machine whose shared memory this process sees."""
    with open("/proc/sys/kernel/random/boot_id") as boot:
        return boot.read().strip(), os.stat("/proc/self/ns/pid").st_ino, os.stat("/dev/shm").st_dev


def check(made_on: Machine) -> None:
    """Whether what was made there may be used here.

    :raises ValueError: this is another machine, where it would admit as much again.
    """
    if made_on != machine():
        raise ValueError(
            "this set was made in another machine's shared memory, and would admit as much again here; "
            f"give it a {_SERVER}"
        )
