"""Calls of language models within limits, by what they really use.

``httpx2``    ``LlmTransport``, ``AsyncLlmTransport``: for the SDKs of OpenAI and Anthropic
``httpx``     the same, for httpx
``requests``  ``LlmAdapter``

What a call will use is estimated and taken before it is sent, and settled once for what its answer
says. Each file needs its own library, and no other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..limits import Number

__all__ = ["Price", "TokenWeight"]


@dataclass(frozen=True)
class Price:
    """What a million tokens cost, in the currency of the limits on money.

    ``Price(input=1.25, output=10, cached_input=0.125)``.
    """

    #: Of the prompt.
    input: Number
    #: Of the answer, reasoning included.
    output: Number
    #: Of the prompt, out of a cache; ``None``: as ``input``.
    cached_input: Optional[Number] = None
    #: Of the prompt, into a cache; ``None``: as ``input``.
    cache_write: Optional[Number] = None


@dataclass(frozen=True)
class TokenWeight:
    """How many tokens one counts as, to limits on tokens; 0 to 1,000. ``None``: as the provider counts it.

    ``TokenWeight(output=5)``.
    """

    #: Of the prompt; ``None``: 1.
    input: Optional[Number] = None
    #: Of the answer, reasoning included; ``None``: 1.
    output: Optional[Number] = None
    #: Of the prompt, out of a cache; ``None``: as ``input``, or 0 where the provider counts nothing of it.
    cached_input: Optional[Number] = None
    #: Of the prompt, into a cache; ``None``: as ``input``.
    cache_write: Optional[Number] = None
