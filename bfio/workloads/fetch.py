"""Download published traces, at a fixed commit, from their publishers' repositories."""

import hashlib
import http.client
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from bfio.common.files import atomic_file
from bfio.workloads.trace_file import detect_format
from formulations.errors import InputError

#: Default maximum of bytes to download.
MAX_BYTES = 1 << 30
#: Maximum time without data from the server [s].
TIMEOUT_S = 30.0

_CHUNK = 1 << 16
_RAW = "https://raw.githubusercontent.com"
_AZURE = f"{_RAW}/Azure/AzurePublicDataset/b469a113cedca53ddc3bdea71a143dc4b7d8700c/data"
_MOONCAKE = (
    f"{_RAW}/kvcache-ai/Mooncake/3b5a594133958449a1feaf1c9e0fc1b553e34a28/FAST25-release/traces"
)
_VIDUR = f"{_RAW}/microsoft/vidur/7d47513363ec447a741ac5e47241580b47724fbf/data/processed_traces"
_RETRY = "check the network, or fetch the file by other means and read it by its path"


@dataclass(frozen=True)
class PublicTrace:
    """A trace published by its authors, with the attribution that its licence requires.

    Parameters
    ----------
    name, description, url, licence, attribution : str
        Texts for listings; ``url`` is the address of the file.
    """

    name: str
    description: str
    url: str
    licence: str
    attribution: str

    @property
    def file_name(self) -> str:
        """Last part of the URL."""
        return urllib.parse.urlsplit(self.url).path.rsplit("/", 1)[-1]


@dataclass(frozen=True)
class FetchedTrace:
    """A downloaded file: path, URL, format, size and SHA-256."""

    path: Path
    url: str
    format: str
    num_bytes: int
    sha256: str


_SPLITWISE = "Patel et al., Splitwise, ISCA 2024; Microsoft Azure"
_KIMI = "Qin et al., Mooncake, FAST 2025; Moonshot AI"

_PUBLIC = (
    PublicTrace(
        "azure-code-2023",
        "Azure 2023, code completion",
        f"{_AZURE}/AzureLLMInferenceTrace_code.csv",
        "CC-BY-4.0",
        _SPLITWISE,
    ),
    PublicTrace(
        "azure-conv-2023",
        "Azure 2023, conversation",
        f"{_AZURE}/AzureLLMInferenceTrace_conv.csv",
        "CC-BY-4.0",
        _SPLITWISE,
    ),
    PublicTrace(
        "mooncake-conversation",
        "Mooncake, conversation (arrivals in batches 3 s apart)",
        f"{_MOONCAKE}/conversation_trace.jsonl",
        "Apache-2.0",
        _KIMI,
    ),
    PublicTrace(
        "mooncake-synthetic",
        "Mooncake, synthetic mix with Poisson arrivals",
        f"{_MOONCAKE}/synthetic_trace.jsonl",
        "Apache-2.0",
        _KIMI,
    ),
    PublicTrace(
        "vidur-arxiv-summarization",
        "token counts of arXiv summarisation, no arrival times",
        f"{_VIDUR}/arxiv_summarization_stats_llama2_tokenizer_filtered_v2.csv",
        "MIT",
        "Agrawal et al., Vidur, MLSys 2024; Microsoft",
    ),
)


def public_traces() -> tuple[PublicTrace, ...]:
    """Return the traces that `fetch_trace` can download."""
    return _PUBLIC


def fetch_trace(
    name: str,
    destination: str | Path = ".",
    *,
    url: str | None = None,
    overwrite: bool = False,
    timeout_s: float = TIMEOUT_S,
    max_bytes: int = MAX_BYTES,
) -> FetchedTrace:
    """Download a published trace; the file only appears if it is complete and a readable trace.

    Parameters
    ----------
    name : str
        One of `public_traces`.
    destination : str or Path
        A file name, or a folder in which the published file name is used.
    url : str, optional
        Alternative address of the same file (a mirror); http or https.
    overwrite : bool
        Replace an existing file.
    timeout_s : float
        Maximum time without data from the server [s].
    max_bytes : int
        Maximum size of the file; larger files are rejected.

    Raises
    ------
    InputError
        If the name is unknown, the server cannot be reached or interrupts the transfer, the file
        is too long or not a trace, or the destination cannot be written.
    """
    known = {trace.name: trace for trace in _PUBLIC}
    if name not in known:
        remedy = f"use one of {', '.join(known)}"
        raise InputError("traces fetch", f"unknown trace {name!r}", remedy)
    trace = known[name]
    source = url if url is not None else trace.url
    if not source.lower().startswith(("http://", "https://")):
        raise InputError(source, "is not an http or https URL", "give a web address")
    path = Path(destination)
    path = path / trace.file_name if path.is_dir() else path
    with atomic_file(path, overwrite=overwrite) as (stream, partial):
        num_bytes, sha256 = _download(source, stream, timeout_s, max_bytes)
        stream.flush()
        found = _checked_format(partial, source)
    return FetchedTrace(path, source, found, num_bytes, sha256)


def _download(source: str, stream: BinaryIO, timeout_s: float, max_bytes: int) -> tuple[int, str]:
    digest, num_bytes = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(source, timeout=timeout_s) as response:
            while chunk := response.read(_CHUNK):
                num_bytes += len(chunk)
                if num_bytes > max_bytes:
                    what = f"is longer than {max_bytes} bytes"
                    raise InputError(source, what, "raise max_bytes")
                digest.update(chunk)
                stream.write(chunk)
            announced = response.headers.get("Content-Length")
    except urllib.error.HTTPError as error:
        with error:
            what = f"the server answered {error.code}"
        raise InputError(source, what, _RETRY) from None
    except urllib.error.URLError as error:
        raise InputError(source, f"cannot be reached ({error.reason})", _RETRY) from None
    except (http.client.HTTPException, OSError) as error:
        raise InputError(source, f"the transfer failed ({error!r})", _RETRY) from None
    # Reading in chunks does not detect a connection that closes early.
    if announced is not None and announced.isdigit() and int(announced) != num_bytes:
        raise InputError(source, f"only {num_bytes} of {announced} bytes were received", _RETRY)
    return num_bytes, digest.hexdigest()


def _checked_format(partial: Path, source: str) -> str:
    try:
        return detect_format(partial).name
    except InputError as error:
        what = f"is not a readable trace ({error.what})"
        raise InputError(source, what, "check the address") from None
