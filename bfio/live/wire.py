"""The wire format: payloads of the OpenAI API, server-sent events, and error bodies.

The emulator and the router both use these definitions.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Header that pins a request to a worker behind one address, as in vLLM.
RANK_HEADER = "x-data-parallel-rank"
#: Header that asks the emulator to add step indices to its answer.
STEPS_HEADER = "x-bfio-steps"
#: Paths of completions, and whether they are chats.
PATHS = {"/v1/completions": False, "/v1/chat/completions": True}
#: Last event of a stream.
DONE = b"data: [DONE]\n\n"
#: ``stop_reason`` of a stream that must be continued from its tokens (BalanceRoute, D.2).
RECOMPUTED = "recomputed"
#: Output tokens of a completion request without ``max_tokens``, as in the OpenAI API.
DEFAULT_TOKENS = 16
#: Most output tokens that a payload may ask for.
MOST_TOKENS = 2**31 - 1
# One encoder for all documents; `json.dumps` would create an encoder for each.
_compact = json.JSONEncoder(separators=(",", ":")).encode
#: Types of errors by status; other statuses below 500 have the type of an invalid request.
_TYPES = {404: "not_found_error", 429: "rate_limit_error", 503: "service_unavailable_error"}


class WireError(Exception):
    """An error that is answered as ``{"error": {"message", "type", "param", "code"}}``.

    Parameters
    ----------
    status : int
        HTTP status.
    message : str
        Problem and remedy.
    param : str, optional
        Name of the field at fault.
    headers : mapping, optional
        Further headers of the answer, such as ``retry-after``.
    """

    def __init__(
        self,
        status: int,
        message: str,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.param, self.headers = status, param, dict(headers or {})

    @property
    def body(self) -> dict[str, Any]:
        """JSON object of the error."""
        other = "invalid_request_error" if self.status < 500 else "internal_server_error"
        told = {"message": str(self), "type": _TYPES.get(self.status, other)}
        return {"error": told | {"param": self.param, "code": self.status}}


@dataclass(frozen=True, slots=True)
class Payload:
    """A checked request for a completion."""

    fields: dict[str, Any]  #: The whole JSON object as received.
    is_chat: bool
    #: Prompt length: number of token ids, or number of words of a text [tokens].
    prompt_tokens: int
    max_tokens: int | None  #: Most output tokens; None if not given.
    stream: bool
    include_usage: bool  #: Whether a last event of the stream reports the usage.
    continuous_usage: bool  #: Whether every event reports the usage.

    @property
    def model(self) -> str | None:
        """Name of the model."""
        return self.fields.get("model")


def read_payload(body: bytes, is_chat: bool) -> Payload:
    """Return the checked payload of a request.

    Raises
    ------
    WireError
        With status 400 if the body is not a JSON object or a field has a wrong type or value.
    """
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WireError(400, f"The body is not JSON ({error}); send one object.") from None
    if not isinstance(fields, dict):
        raise WireError(400, f"The body is not a JSON object ({_kind(fields)}); send one object.")
    if not isinstance(fields.get("model"), str | None):
        _refuse("model", fields["model"], "a text")
    options = _optional(fields, "stream_options", dict) or {}
    _optional(fields, "kv_transfer_params", dict)
    if fields.get("n") not in (None, 1):
        _refuse("n", fields["n"], "1")
    length = _chat_tokens(fields) if is_chat else _prompt_tokens(fields)
    return Payload(
        fields=fields,
        is_chat=is_chat,
        prompt_tokens=length,
        max_tokens=_max_tokens(fields, is_chat),
        stream=bool(_optional(fields, "stream", bool)),
        include_usage=bool(_optional(options, "include_usage", bool)),
        continuous_usage=bool(_optional(options, "continuous_usage_stats", bool)),
    )


def rank_of(headers: Mapping[str, str], count: int) -> int | None:
    """Return the rank that a request is pinned to, or None.

    Raises
    ------
    WireError
        With status 400 if there is no such rank among ``count``.
    """
    rank = headers.get(RANK_HEADER)
    if rank is not None and (not rank.isdecimal() or len(rank) > 9 or int(rank) >= count):
        raise WireError(400, f"{RANK_HEADER} {rank:.20}; give 0..{count - 1}.")
    return None if rank is None else int(rank)


def usage_of(prompt: int, output: int) -> dict[str, int]:
    """Return the field ``usage`` of an answer with these numbers of tokens."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
    }


def event(document: Mapping[str, Any]) -> bytes:
    """Return a document as one server-sent event."""
    return framed(_compact(document).encode())


def framed(data: bytes) -> bytes:
    """Return data as one server-sent event."""
    return b"data: " + data + b"\n\n"


class EventReader:
    """Parser of server-sent events in a stream of bytes that arrives in arbitrary pieces."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of the events that this piece completes."""
        is_one = piece[:6] == b"data: " and piece.find(b"\n") == len(piece) - 2
        if is_one and not self._rest and piece[-1:] == b"\n" and b"\r" not in piece:
            return [piece[6:-2]]  # The usual case: the piece is one event.
        whole = self._rest + piece
        if b"\r" in whole:
            whole = whole.replace(b"\r\n", b"\n")
        *events, self._rest = whole.split(b"\n\n")
        return [data for each in events if (data := _data(each)) is not None]


def _data(each: bytes) -> bytes | None:
    if each[:6] == b"data: " and b"\n" not in each:
        return each[6:]
    lines = [line[5:].removeprefix(b" ") for line in each.split(b"\n") if line[:5] == b"data:"]
    return b"\n".join(lines) if lines else None


def _prompt_tokens(fields: dict[str, Any]) -> int:
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        return max(1, len(prompt.split()))
    is_ids = isinstance(prompt, list) and all(type(token) is int for token in prompt)
    if not is_ids or not prompt:
        _refuse("prompt", prompt, "one text, or one list of token ids")
    return len(prompt)


def _chat_tokens(fields: dict[str, Any]) -> int:
    """Return the number of words of all messages, at least 1."""
    messages = fields.get("messages")
    if not isinstance(messages, list) or not messages:
        _refuse("messages", messages, "a list of at least one message")
    words = 0
    for i, message in enumerate(messages):
        content = message.get("content") if isinstance(message, dict) else message
        parts = content if isinstance(content, list) else [{"text": content or ""}]
        for part in parts:
            text = part.get("text", "") if isinstance(part, dict) else None
            if not isinstance(message, dict) or not isinstance(text, str):
                _refuse(f"messages[{i}]", message, "an object with role and content")
            words += len(text.split())
    return max(1, words)


def _max_tokens(fields: dict[str, Any], is_chat: bool) -> int | None:
    names = ("max_completion_tokens", "max_tokens") if is_chat else ("max_tokens",)
    for name in names:
        value = fields.get(name)
        if value is not None:
            if type(value) is not int or not 1 <= value <= MOST_TOKENS:
                _refuse(name, value, f"a whole number in 1..{MOST_TOKENS}")
            return value
    return None


def _optional(fields: Mapping[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if value is not None and type(value) is not kind:
        _refuse(name, value, {dict: "an object", bool: "true or false"}[kind])
    return value


def _refuse(name: str, value: object, wanted: str) -> NoReturn:
    raise WireError(400, f"{name}: found {_kind(value)}; give {wanted}.", name)


def _kind(value: object) -> str:
    return "nothing" if value is None else f"{json.dumps(value)[:40]}"
