"""Events in the streams of workers: the fields that the router reads, and the text it forwards.

`Chunk.count` defines how tokens are counted. Nearly all events have the same form, in which vLLM
and SGLang write one more piece of text. A regular expression reads these events without a JSON
parser; all other events are parsed. A test checks that both ways of reading agree.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from bfio.live.wire import RECOMPUTED, event, framed, usage_of

if TYPE_CHECKING:
    from bfio.live.wire import Payload

_TEXT = rb'([^"\\\x00-\x1f]*)'
_COUNT = rb"(?:0|[1-9]\d{0,15})"
# One choice that continues, optionally followed by the usage. The pattern excludes duplicate keys
# with different meanings, of which a JSON parser would keep the last one.
_USUAL = re.compile(
    rb'\{(?:"(?:id|object|created|model|system_fingerprint)":(?:"[ !#-\[\]-~]*"|%b|null),)*'
    rb'"choices":\[\{"index":0,"(?:text":"%b"|delta":\{"content":"%b"\})'
    rb'(?:,"(?:logprobs|finish_reason|stop_reason|token_ids|prompt_token_ids)":null)*\}\]'
    rb'(?:,"usage":\{"prompt_tokens":(%b),(?:"total_tokens":%b,)?"completion_tokens":(%b)'
    rb'(?:,"total_tokens":%b)?(?:,"\w+_details":null)*\})?\}'
    % (_COUNT, _TEXT, _TEXT, _COUNT, _COUNT, _COUNT, _COUNT)
)
_USAGE = b',"usage":'


class Chunk:
    """One event of a stream.

    Parameters
    ----------
    data : bytes
        Data of the event, a JSON text.

    Raises
    ------
    ValueError
        If the data is not an event of a completion stream.
    """

    ids: tuple[int, ...] = ()  #: New token ids, if the worker reports them.
    has_choices = True
    ends = False  #: Whether this event ends the text.
    stops = False  #: Whether the worker asks to resend the request with its tokens so far.
    error: Any = None  #: Error that the worker reports in the stream, or None.
    _document: dict[str, Any] | None = None

    def __init__(self, data: bytes) -> None:
        #: The received data while it is unchanged; None after a change of `document`.
        self.data: bytes | None = data
        found = _USUAL.fullmatch(data)
        self._is_usual = found is not None
        if found is None:
            self._read_plainly(data)
            return
        text, content, prompt, output = found.groups()
        self.text = (content if text is None else text).decode()  #: New text of all choices.
        #: Number of prompt tokens and of output tokens so far, if the worker reports them.
        self.usage = None if prompt is None else (int(prompt), int(output))

    def _read_plainly(self, data: bytes) -> None:
        try:
            document = self._document = json.loads(data.decode())
            choices, usage = document.get("choices") or [], document.get("usage")
            parts = [choice.get("delta") or choice for choice in choices]
            texts = [part.get("content") or part.get("text") or "" for part in parts]
            self.text = "".join(texts)
            self.ids = tuple(token for each in choices for token in each.get("token_ids") or ())
            counts = usage and (usage["prompt_tokens"], usage["completion_tokens"])
            if counts and not all(type(count) is int for count in counts):
                raise TypeError
        except (KeyError, TypeError, AttributeError, RecursionError):
            raise ValueError from None
        self.usage, self.has_choices = counts or None, bool(choices)
        self.ends = any(choice.get("finish_reason") is not None for choice in choices)
        self.stops = any(choice.get("stop_reason") == RECOMPUTED for choice in choices)
        self.error = document.get("error")

    @property
    def document(self) -> dict[str, Any]:
        """The event as a JSON object."""
        if self._document is None:
            assert self.data is not None
            self._document = json.loads(self.data)
        return self._document

    def count(self, before: int, so_far: int) -> int:
        """Return the number of tokens that this event adds.

        If the event has a usage, the number follows from it (possibly 0 or several). Otherwise an
        event with choices counts as one token. ``before`` is the number of output tokens of the
        request when it was sent to this worker, ``so_far`` the number counted until this event.
        """
        if self.usage is None:
            return int(self.has_choices)
        return before + self.usage[1] - so_far

    def tell_usage(self, prompt: int, output: int) -> None:
        """Replace the token counts of the worker by these counts."""
        self.document["usage"] = usage_of(prompt, output)
        self.data = None

    def go_on(self) -> None:
        """Remove the finish and stop reasons, because another worker continues the request."""
        for choice in self.document["choices"]:
            choice["finish_reason"] = choice["stop_reason"] = None
        self.data, self.ends = None, False

    def shown(self, payload: Payload) -> bytes:
        """Return the event for its client; empty if it would hold only usage not asked for."""
        data = self.data
        if self._is_usual and data is not None:
            is_told = self.usage is None or payload.continuous_usage
            return framed(data if is_told else data[: data.rindex(_USAGE)] + b"}")
        shown = dict(self.document)
        if "usage" in shown:
            if not self.has_choices:
                return b""
            if not payload.continuous_usage:
                del shown["usage"]
                data = None
        if self.ids and not payload.fields.get("return_token_ids"):
            shown["choices"] = [
                {name: value for name, value in choice.items() if name != "token_ids"}
                for choice in shown["choices"]
            ]
            data = None
        return event(shown) if data is None or b"\n" in data else framed(data)
