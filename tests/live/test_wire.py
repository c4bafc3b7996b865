"""What goes over the wire."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bfio.live.wire import without_usage

#: Texts that look like the end of a document with a usage.
TEXTS = st.sampled_from(('a,"usage":{"n":1}}', "}", '"', "\\", ',"usage":null}', "\n", "")) | (
    st.text(max_size=5)
)
FLAT = st.dictionaries(st.sampled_from(("prompt_tokens", "details")), st.none() | st.integers())
DOCUMENTS = st.dictionaries(
    st.sampled_from(("id", "choices", "usage", "z")),
    st.recursive(
        st.none() | st.integers() | TEXTS | FLAT,
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(st.just("usage") | TEXTS, inner, max_size=2)
        ),
        max_leaves=6,
    ),
)


@given(document=DOCUMENTS, usage=st.none() | FLAT, is_compact=st.booleans())
def test_only_the_usage_of_the_document_is_cut(
    document: dict[str, Any], usage: Any, is_compact: bool
) -> None:
    """At its end; whatever stands in texts, and whatever parts have a usage of their own."""
    separators = (",", ":") if is_compact else None
    data = json.dumps(document, separators=separators).encode()
    rest = {name: value for name, value in document.items() if name != "usage"}
    assert (cut := without_usage(data)) is None or json.loads(cut) == rest
    if rest:
        data = json.dumps(rest | {"usage": usage}, separators=separators).encode()
        cut = without_usage(data)
        assert cut is not None
        assert json.loads(cut) == rest
