"""Events of the streams of workers: what a router reads in them, and what it passes on.

The rule that counts tokens stands here, in `Chunk.count`. Nearly all events have the form in which
vLLM and SGLang write one more piece of text; a pattern reads these without a parser, and a test
holds it to the plain reading, which takes every other event.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from bfio.live.wire import RECOMPUTED, event, framed

if TYPE_CHECKING:
    from bfio.live.wire import Payload

_TEXT = rb'([^"\\\x00-\x1f]*)'
_COUNT = rb"(?:0|[1-9]\d{0,15})"
# One choice that goes on, and perhaps the usage at the end. No name can come twice with another
# meaning: the last one would count.
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
        Its text.

    Raises
    ------
    ValueError
        If it is no event of a stream of completions.
    """

    ids: tuple[int, ...] = ()  #: New token ids, if the worker tells them.
    has_choices = True
    ends = False  #: Whether this is the last text.
    stops = False  #: Whether the request is to be sent again with its tokens.
    error: Any = None  #: What the worker says instead of an answer.
    _document: dict[str, Any] | None = None

    def __init__(self, data: bytes) -> None:
        #: The text, while it may be passed on as it came.
        self.data: bytes | None = data
        found = _USUAL.fullmatch(data)
        self._is_usual = found is not None
        if found is None:
            self._read_plainly(data)
            return
        text, content, prompt, output = found.groups()
        self.text = (content if text is None else text).decode()  #: New text of all choices.
        #: Tokens of prompt and output so far, if the worker tells them.
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
        """The event as a document."""
        if self._document is None:
            assert self.data is not None
            self._document = json.loads(self.data)
        return self._document

    def count(self, before: int, so_far: int) -> int:
        """Return how many tokens are new, and none of them twice.

        An event may have several tokens or none: the usage tells, where there is one. Without it
        an event with choices counts as one token. The request had ``before`` tokens when it was
        sent to this worker, and has ``so_far``.
        """
        if self.usage is None:
            return int(self.has_choices)
        return before + self.usage[1] - so_far

    def tell_usage(self, prompt: int, output: int) -> None:
        """Write these counts of tokens in place of those of the worker."""
        self.document["usage"] = {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
        }
        self.data = None

    def go_on(self) -> None:
        """Write no reason for an end, as another worker goes on."""
        for choice in self.document["choices"]:
            choice["finish_reason"] = choice["stop_reason"] = None
        self.data, self.ends = None, False

    def shown(self, payload: Payload) -> bytes:
        """Return the event as its client asked for it; nothing if only its usage is left."""
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
