"""Fetching, against a server on the loopback interface: nothing here uses a network."""

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from bfio.workloads import read_trace
from bfio.workloads.fetch import fetch_trace, public_traces
from formulations.errors import InputError
from tests.workloads.published import AZURE_2023, MOONCAKE

NAME = "azure-code-2023"


class _Handler(BaseHTTPRequestHandler):
    """Serve a few files, one of them cut short."""

    contents: ClassVar[dict[str, bytes]] = {
        "/azure.csv": AZURE_2023.content,
        "/mooncake.jsonl": MOONCAKE.content,
        "/page.html": b"<html><body>Not found</body></html>\n",
        "/pointer.csv": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
        "/short.csv": AZURE_2023.content,
    }

    def do_GET(self) -> None:
        """Answer with a file, a redirection, or 404."""
        if self.path == "/moved.csv":
            self.send_response(302)
            self.send_header("Location", "/azure.csv")
            self.end_headers()
            return
        content = self.contents.get(self.path)
        if content is None:
            self.send_error(404)
            return
        extra = 50 if self.path == "/short.csv" else 0
        self.send_response(200)
        self.send_header("Content-Length", str(len(content) + extra))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet."""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Yield the address of a running loopback server."""
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


@pytest.mark.parametrize("path", ["/azure.csv", "/moved.csv"])
def test_fetch(server: str, tmp_path: Path, path: str) -> None:
    """The file arrives whole under its published name, with its checksum, and can be read."""
    fetched = fetch_trace(NAME, tmp_path, url=server + path)
    assert fetched.path == tmp_path / "AzureLLMInferenceTrace_code.csv"
    assert fetched.path.read_bytes() == AZURE_2023.content
    assert fetched.sha256 == hashlib.sha256(AZURE_2023.content).hexdigest()
    assert fetched.num_bytes == len(AZURE_2023.content)
    assert fetched.format == "azure-2023"
    assert len(read_trace(fetched.path)) == 2
    assert len(list(tmp_path.iterdir())) == 1


def test_fetch_to_a_name(server: str, tmp_path: Path) -> None:
    """A destination that is no folder is the name; existing files are kept unless allowed."""
    path = tmp_path / "m.jsonl"
    fetch_trace("mooncake-synthetic", path, url=f"{server}/mooncake.jsonl")
    with pytest.raises(InputError, match="the file exists"):
        fetch_trace("mooncake-synthetic", path, url=f"{server}/azure.csv")
    assert path.read_bytes() == MOONCAKE.content
    again = fetch_trace("mooncake-synthetic", path, url=f"{server}/azure.csv", overwrite=True)
    assert again.format == "azure-2023"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/nothing.csv", "the server answered 404"),
        ("/page.html", "is not a readable trace"),
        ("/pointer.csv", "is not a readable trace"),
        ("/short.csv", "bytes were received"),
    ],
)
def test_failure_leaves_nothing(server: str, tmp_path: Path, path: str, message: str) -> None:
    """A page, a pointer file, an error or half a file is never left as a trace."""
    with pytest.raises(InputError, match=message) as caught:
        fetch_trace(NAME, tmp_path, url=server + path)
    assert caught.value.where == server + path
    assert list(tmp_path.iterdir()) == []


def test_size_limit(server: str, tmp_path: Path) -> None:
    """A file longer than allowed is cut off and removed."""
    with pytest.raises(InputError, match="is longer than 10 bytes"):
        fetch_trace(NAME, tmp_path, url=f"{server}/azure.csv", max_bytes=10)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://127.0.0.1:9/x.csv", "cannot be reached"),
        ("http://", "cannot be reached"),
        ("http://127.0.0.1:port/x.csv", "transfer failed|cannot be reached"),
        ("file:///etc/hostname", "is not an http or https URL"),
        ("", "is not an http or https URL"),
    ],
)
def test_unreachable(tmp_path: Path, url: str, message: str) -> None:
    """No network, or no web address, is one clear error."""
    with pytest.raises(InputError, match=message):
        fetch_trace(NAME, tmp_path, url=url, timeout_s=2.0)
    assert list(tmp_path.iterdir()) == []


def test_unknown_name(tmp_path: Path) -> None:
    """An unknown name is answered with those known."""
    with pytest.raises(InputError, match="unknown trace 'azure'; use one of azure-code"):
        fetch_trace("azure", tmp_path)


def test_table() -> None:
    """Every entry names a commit, a licence and whom to attribute; names are unique."""
    traces = public_traces()
    assert len({trace.name for trace in traces}) == len(traces)
    for trace in traces:
        assert trace.url.startswith("https://")
        assert any(len(part) == 40 for part in trace.url.split("/"))
        assert trace.file_name.endswith((".csv", ".jsonl"))
        assert trace.licence
        assert trace.attribution
