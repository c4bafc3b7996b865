"""Events of streams: the fast reading against the plain one."""

import itertools
import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bfio.live import chunk
from bfio.live.chunk import Chunk
from bfio.live.wire import Payload

USAGE = '"usage":{"prompt_tokens":5,%s}'
#: Places of an event: what usually stands there, and what hardly differs from it or is no JSON.
PLACES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "head": (
        ("", '"id":"a",', '"created":70,"model":null,'),
        ('"error":null,', '"error":"a",', '"id":"ü",', '"id":"\\n",', '"created":07,', '"z":1.5,',
         '"choices":[],', '"id":"\x01",'),
    ),
    "index": (('"index":0,',), ('"index":1,', '"index":00,', "")),
    "told": (
        ('"text":"%s"', '"delta":{"content":"%s"}'),
        ('"delta":{"role":"a","content":"%s"}', '"text":null', '"text":3'),
    ),
    "text": (
        (" a", "", "ü", "\x7f", "},]"),
        ("\x01", "\n", "\udcfc", "\\n", "\\", '"', '","text":"b', '\\",\\"usage\\":{'),
    ),
    "ends": (
        ("", ',"finish_reason":null', ',"logprobs":null,"stop_reason":null,"token_ids":null'),
        (',"finish_reason":"stop"', ',"stop_reason":"recomputed"', ',"token_ids":[1]',
         ',"finish_reason":null,"finish_reason":"stop"', ',"text":null', ',"text":"b"',
         ',"delta":null', ',"delta":{"content":"b"}'),
    ),
    "more": (("",), (',{"index":1,"text":"c"}',)),
    "usage": (
        ("", *("," + USAGE % each for each in (
            '"completion_tokens":3', '"total_tokens":8,"completion_tokens":3',
            '"completion_tokens":3,"total_tokens":8,"cached_details":null'))),
        (',"usage":null', *("," + USAGE % each for each in (
            '"completion_tokens":03', '"completion_tokens":null', '"completion_tokens":3.0',
            '"completion_tokens":3,"usage":null', '"completion_tokens":3,"prompt_tokens":6'))),
    ),
}  # fmt: skip


def events() -> Iterator[bytes]:
    """Yield events as they come from engines, and all with one place that is odd."""
    for odd in (None, *PLACES):
        places = [each[name == odd] for name, each in PLACES.items()]
        for head, index, told, text, ends, more, usage in itertools.product(*places):
            choices = f"[{{{index}{told.replace('%s', text)}{ends}}}{more}]"
            yield f'{{{head}"choices":{choices}{usage}}}'.encode(errors="surrogateescape")


def said(event: Chunk) -> list[Any]:
    """Return all that a router reads in an event, and passes on to each kind of client."""
    shown = []
    for usage in (False, True):
        for ids in (False, True):
            fields = {"return_token_ids": ids}
            data = event.shown(Payload(fields, False, 1, 1, True, True, usage))
            shown.append(json.loads(data.removeprefix(b"data: ")) if data else None)
    counts = [event.count(before, so_far) for before, so_far in ((0, 0), (3, 5))]
    flags = (event.ends, event.stops, event.has_choices, event.error)
    return [event.text, event.ids, event.usage, flags, counts, event.document, shown]


def plain(data: bytes) -> Chunk:
    """Read an event without the pattern."""
    with mock.patch.object(chunk, "_USUAL", re.compile(b"nothing")):
        return Chunk(data)


def test_the_pattern_reads_what_a_parser_reads() -> None:
    """Whatever the event; what one of them refuses, both do."""
    for data in events():
        try:
            expected = said(plain(data))
        except ValueError:
            with pytest.raises(ValueError):
                Chunk(data)
        else:
            assert said(Chunk(data)) == expected, data


VLLM = (
    '{"id":"cmpl-1","object":"text_completion","created":1790000000,"model":"m","choices":['
    '{"index":0,"text":" ü","logprobs":null,"finish_reason":null,"stop_reason":null}],'
    '"usage":{"prompt_tokens":5,"total_tokens":8,"completion_tokens":3}}'
).encode()


def test_the_usual_event_takes_no_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text, count and both forms of the answer come from the pattern alone."""
    monkeypatch.delattr(chunk, "json")
    event = Chunk(VLLM)
    assert (event.text, event.usage, event.count(0, 2)) == (" ü", (5, 3), 1)
    asks = [Payload({}, False, 1, 1, True, True, usage) for usage in (True, False)]
    assert [event.shown(each) for each in asks] == [
        b"data: " + VLLM + b"\n\n",
        b"data: " + VLLM[: VLLM.index(b',"usage"')] + b"}\n\n",
    ]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=2),
    lambda inner: (
        st.lists(inner, max_size=2)
        | (
            st.dictionaries(
                st.sampled_from(("choices", "usage", "delta", "text", "token_ids")), inner
            )
        )
    ),
)


@given(document=JSON)
def test_other_documents_are_no_events(document: Any) -> None:
    """Any other JSON is read, or an error of one kind."""
    with suppress(ValueError):
        Chunk(json.dumps(document).encode())
