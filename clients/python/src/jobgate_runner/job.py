"""A job as its handler sees it, and what the handler's output or error means to the gateway."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from .protocol import Ack, Nack

MAX_RESULT_BYTES, MAX_HEADERS, MAX_HEADERS_LENGTH = 1024 * 1024, 100, 16_384
HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+: [\t -~\x80-\xff]*")
MEDIA_TYPE = re.compile(r"(?=.{1,255}$)[\w!#$&^.+-]+/[\w!#$&^.+-]+(;[ -~]*)?", re.ASCII)


class Fail(Exception):
    """No attempt can succeed: makes a dead letter. The client who paid reads the message."""


class Retry(Exception):
    """Asks for another attempt, as any other error does, but after a delay of its own."""

    def __init__(self, reason: str = "", delay_secs: float | None = None) -> None:
        if delay_secs is not None and not 0 <= delay_secs <= 86_400:
            raise ValueError(f"Retry needs a delay_secs from 0 to 86400 (a day): got {delay_secs}")
        super().__init__(reason)
        self.delay_secs = delay_secs


@dataclass
class Result:
    """Output of a job, at most 1 MiB, with the HTTP status and headers that the client who paid gets.

    From status 400 on the job has failed, and is not tried again.
    """

    body: bytes | str
    content_type: str | None = None
    """Default: `text/plain; charset=utf-8` for text, `application/octet-stream` for bytes."""
    status: int | None = None
    """200 to 599. Default: 200."""
    headers: Mapping[str, str] = field(default_factory=dict)


Output = bytes | str | dict[str, Any] | list[Any] | Result | None


@dataclass(eq=False)
class Job:
    """One delivery of a JobCall. It may come again with the same `call_id`: make handlers idempotent."""

    call_id: int
    job_id: int
    service_id: int
    body: bytes
    metadata: Mapping[str, str]
    attempt: int
    lost: threading.Event = field(default_factory=threading.Event)
    """Set when the lease is lost: another runner may have the JobCall, and the outcome is dropped."""
    charged: dict[str, Any] | None = field(default=None, init=False, repr=False)
    """Last charge, as jobgate gets it."""

    def progress(self, percent: float, text: str = "") -> None:
        """Shows the client who paid how far the job is. Any thread may call it."""

    def charge(self, units: int | None = None, *, basis_points: int | None = None) -> None:
        """Sets what the client pays for a job that is metered: token units, at most the ceiling, or a share of it.

        The last charge counts; without one it is the ceiling. It has no effect on other jobs.
        """
        is_one = (units is None) != (basis_points is None)
        if not is_one or (units or 0) < 0 or not 0 <= (basis_points or 0) <= 10_000:
            raise ValueError(f"charge needs units or basis_points (0 to 10000): got {units} and {basis_points}")
        if self.metadata.get("X-X402-PAYMENT-SCHEME") == "upto":
            units = None if units is None else min(units, int(self.metadata["X-X402-PAYMENT-AMOUNT"]))
            self.charged = {"basis_points": basis_points} if units is None else {"units": str(units)}


def to_ack(fields: dict[str, Any], output: Any) -> Any:
    """Returns the Ack for the output of a handler. Raises Fail if that cannot be a result."""
    if output is None:
        return Ack(**fields)
    try:
        if isinstance(output, (dict, list)):
            output = Result(json.dumps(output), "application/json")
        result = output if isinstance(output, Result) else Result(output)
        is_text = isinstance(result.body, str)
        body = result.body.encode() if isinstance(result.body, str) else bytes(memoryview(result.body))
        kind = result.content_type or ("text/plain; charset=utf-8" if is_text else "application/octet-stream")
        headers = [{"name": name, "value": value} for name, value in result.headers.items()]
        ack = Ack(**fields, result={"body": body, "content_type": kind}, status=result.status, headers=headers)
    except Exception as error:
        raise Fail(f"The handler returned {type(output).__name__}, which cannot be sent: {error}") from error
    if len(body) > MAX_RESULT_BYTES:
        raise Fail(f"The result has {len(body)} bytes: at most {MAX_RESULT_BYTES} are allowed")
    if not MEDIA_TYPE.fullmatch(kind):
        raise Fail(f"The result's content type is not a media type: {kind}")
    if not 200 <= (200 if result.status is None else result.status) <= 599:
        raise Fail(f"The result's status is {result.status}: expected 200 to 599")
    lines = [f"{name}: {value}" for name, value in result.headers.items()]
    is_short = len(lines) <= MAX_HEADERS and sum(map(len, lines)) - 2 * len(lines) <= MAX_HEADERS_LENGTH
    if not is_short or not all(map(HEADER.fullmatch, lines)):
        raise Fail(f"The result's headers are too many, too long, or not valid: {lines}"[:300])
    return ack


def to_nack(lease: dict[str, Any], error: BaseException) -> Any:
    """Returns the Nack for an error of a handler."""
    reason = type(error).__name__
    with suppress(Exception):  # An error may fail to print.
        reason = encodable(str(error))[:4_096] or reason
    if isinstance(error, Fail):
        return Nack(**lease, fail={"reason": reason})
    nack = Nack(**lease, retry={"reason": reason})
    if isinstance(error, Retry) and error.delay_secs is not None:
        nack.retry.delay.FromMilliseconds(round(error.delay_secs * 1000))
    return nack


def encodable(text: str) -> str:
    """Replaces lone surrogates, which text about file names can have and protobuf refuses."""
    return text.encode(errors="replace").decode()
