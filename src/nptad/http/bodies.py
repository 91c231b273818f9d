"""Bodies of requests that are longer than allowed."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import Message, Receive

_LINGER_SECONDS, _LINGER_BYTES = 2.0, 50_000_000


def limited(receive: Receive, headers: Headers, limit: int) -> Receive:
    """The body, which ends in an error as soon as it is known to be longer than the limit."""
    declared = headers.get("content-length", "")
    got = limit + 1 if declared.isdecimal() and int(declared) > limit else 0

    async def receive_limited() -> Message:
        nonlocal got
        if got <= limit:
            message = await receive()
            got += len(message.get("body", b""))
            if got <= limit:
                return message
        await discard(receive)
        raise HTTPException(413, f"That is more than the {limit / 1e6:,.0f} MB that this server takes.")

    return receive_limited


async def discard(receive: Receive) -> None:
    """Throw away some of a body: a browser reads the answer only after it has sent its part."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_LINGER_SECONDS):
            left = _LINGER_BYTES
            while left > 0:
                message = await receive()
                left = left - len(message.get("body", b"")) if message.get("more_body") else 0
