"""Answers that are compressed, because the signature of their call covers ``Accept-Encoding``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Optional


def is_signed(authorization: Optional[str]) -> bool:
    """Whether a request was signed with its ``Accept-Encoding``, as those to AWS are: then that stays as it is."""
    algorithm, _, fields = (authorization or "").partition(" ")
    if algorithm != "AWS4-HMAC-SHA256":
        return False
    named = (field.strip().partition("=") for field in fields.split(","))
    return any(name == "SignedHeaders" and "accept-encoding" in value.lower().split(";") for name, _, value in named)


def are_read(encoding: Optional[str], accepted: Optional[str], known: Iterable[str]) -> bool:
    """Whether an answer is compressed by what its call accepts, and what its library can read."""
    encodings = names(encoding)
    return bool(encodings) and encodings <= names(accepted) and encodings.issubset(known)


def names(codings: Optional[str]) -> set[str]:
    """The codings of a header, without what is said of them."""
    split = (coding.partition(";")[0].strip().lower() for coding in (codings or "").split(","))
    return {name for name in split if name}
