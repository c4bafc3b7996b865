"""`bfio route` in front of real engines, run by `make test-live` alone.

llama.cpp: four workers of four slots, an address each. vLLM: two data-parallel ranks of eight
slots behind one address, pinned by header.
"""

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import aiohttp
import pytest

from bfio import read_trace
from tests.live.servers import stream
from tests.places import ROOT

#: Folder of the environments of the engines.
ENGINES = os.environ.get("BFIO_ENGINES", "")
pytestmark = pytest.mark.skipif(not ENGINES, reason="real engines are run by make test-live")
HERE = Path(__file__).parent
REQUESTS = 500
#: Clients at once: more than all slots, so that requests wait in the pool.
CLIENTS = 32


class Engine(NamedTuple):
    """Workers of one engine."""

    workers: str  #: As ``--workers`` names them.
    slots: int
    urls: list[str]  #: Addresses of their metrics.
    counter: str  #: The metric of generated tokens.
    most: int  #: Tokens of the longest output.


@contextmanager
def process(
    *command: str, log: IO[str] | None = None, **more: str
) -> Iterator["subprocess.Popen[str]"]:
    """Run a process, and end it; without a log, its output is to be read."""
    started = subprocess.Popen(
        command,
        stdout=subprocess.PIPE if log is None else log,
        text=True,
        cwd=ROOT,
        env=os.environ | more,
    )
    try:
        yield started
    finally:
        started.terminate()
        try:
            started.wait(30)
        except subprocess.TimeoutExpired:
            started.kill()
            started.wait()
        if started.stdout is not None:
            started.stdout.close()


def address(started: "subprocess.Popen[str]") -> str:
    """Return the first address that a process prints."""
    assert started.stdout is not None
    for line in started.stdout:
        if found := re.search(r"http://[\w.]+:\d+", line):
            return found[0]
    raise AssertionError(f"{started.args!r} printed no address")


def healthy(url: str, seconds: float) -> None:
    """Wait until a server answers."""

    async def ask() -> None:
        async with asyncio.timeout(seconds), aiohttp.ClientSession() as client:
            while True:
                try:
                    async with client.get(f"{url}/health") as answer:
                        if answer.status == 200:
                            return
                except aiohttp.ClientError:
                    pass
                await asyncio.sleep(0.2)

    asyncio.run(ask())


@pytest.fixture(scope="module")
def llama() -> Iterator[Engine]:
    """Run four llama.cpp servers."""
    python = f"{ENGINES}/llama/bin/python"
    with ExitStack() as stack:
        worker = str(HERE / "llama_worker.py")
        started = [stack.enter_context(process(python, worker)) for _ in range(4)]
        urls = [address(each) for each in started]
        for url in urls:
            healthy(url, 60)
        yield Engine(",".join(urls), 4, urls, "llamacpp:tokens_predicted_total", 16)


@pytest.fixture(scope="module")
def vllm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """Run vLLM with two data-parallel ranks."""
    folder = str(tmp_path_factory.mktemp("model"))
    binaries = f"{ENGINES}/vllm/bin"
    subprocess.run([f"{binaries}/python", str(HERE / "tiny_model.py"), folder], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = (
        f"--load-format dummy --host 127.0.0.1 --port {port} --max-num-seqs 8 --enforce-eager "
        "--data-parallel-size 2"
    )
    # It writes more than a pipe holds, and would wait for a reader.
    with (tmp_path_factory.mktemp("log") / "vllm.txt").open("w") as log, process(
        f"{binaries}/vllm", "serve", folder, *options.split(), log=log,
        VLLM_CPU_KVCACHE_SPACE="1", HF_HUB_OFFLINE="1", PATH=f"{binaries}:{os.environ['PATH']}",
    ):  # fmt: skip
        url = f"http://127.0.0.1:{port}"
        healthy(url, 600)
        yield Engine(f"{url}*2", 8, [url], "vllm:generation_tokens_total", 60)


async def counted(engine: Engine) -> int:
    """Return how many tokens the engine counts as generated."""
    total = 0.0
    async with aiohttp.ClientSession() as client:
        for url in engine.urls:
            async with client.get(f"{url}/metrics") as answer:
                text = await answer.text()
            for line in text.splitlines():
                if line.startswith(engine.counter):
                    total += float(line.rsplit(" ", 1)[1])
    return int(total)


def requests(data: Path, most: int) -> list[tuple[str, int]]:
    """Return prompts and outputs of a public cut, scaled to lengths that take minutes here."""
    trace = read_trace(data / "azure_conv_2023.csv.gz")
    pairs = zip(trace.prompt_tokens.tolist(), trace.output_tokens.tolist(), strict=True)
    scaled = [(1 + prompt // 300, 4 + output % (most - 3)) for prompt, output in pairs]
    return [
        (" ".join(f"w{3 + (7 * i + k) % 1997}" for k in range(min(prompt, 16))), output)
        for i, (prompt, output) in enumerate(scaled[:REQUESTS])
    ]


async def served(url: str, asked: list[tuple[str, int]]) -> tuple[int, Any]:
    """Send all requests, every other one streamed; return tokens and the router's state."""
    lock = asyncio.Semaphore(CLIENTS)
    told: list[int] = []

    async def ask(i: int, prompt: str, output: int) -> None:
        fields = {"prompt": prompt, "max_tokens": output, "ignore_eos": True}
        async with lock:
            if i % 2:
                usage = {"stream_options": {"include_usage": True}}
                events = [event async for event in stream(client, fields | usage)]
                (found,) = (event["usage"] for event in events if "usage" in event)
            else:
                async with client.post("/v1/completions", json=fields) as answer:
                    document = await answer.json()
                    assert answer.status == 200, document
                found = document["usage"]
            assert found["completion_tokens"] == output
            told.append(output)

    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(url, timeout=timeout) as client:
        await asyncio.gather(*(ask(i, *each) for i, each in enumerate(asked)))
        async with client.get("/bfio/state") as answer:
            state = await answer.json()
    return sum(told), state


@pytest.mark.parametrize("policy", ["adp-router", "br-0", "br-h:horizon=5"])
@pytest.mark.parametrize("name", ["llama", "vllm"])
def test_no_request_is_lost(
    name: str,
    policy: str,
    request: pytest.FixtureRequest,
    shared_data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each request ends with all its tokens, and engine, router, log and clients agree."""
    engine: Engine = request.getfixturevalue(name)
    asked = requests(shared_data, engine.most)
    before = asyncio.run(counted(engine))
    route = ["-m", "bfio", "route", "--port", "0", "--policy", policy, "--log", str(tmp_path)]
    line = [*route, "--workers", engine.workers, "--slots", str(engine.slots)]
    with process(sys.executable, *line) as router:
        url, began = address(router), time.monotonic()
        tokens, state = asyncio.run(served(url, asked))
        took = time.monotonic() - began
    none = dict.fromkeys(("refused", "expired", "failed", "cancelled"), 0)
    assert state["ends"] == {"finished": len(asked)} | none
    assert state["sent"] == len(asked), "a request was sent again"
    assert [worker["running"] + worker["bound"] for worker in state["workers"]] == [
        0 for _ in state["workers"]
    ]
    assert asyncio.run(counted(engine)) - before == state["tokens"] == tokens
    log = read_trace(tmp_path / "requests.csv")
    assert sorted(log.output_tokens.tolist()) == sorted(output for _, output in asked)
    with capsys.disabled():
        cost = 1000 * state["decide_s"] / state["decisions"]
        print(
            f"\n{name}, {policy}: {len(asked)} requests, {tokens} tokens in {took:.0f} s, "
            f"{state['decisions']} decisions of {cost:.1f} ms in the mean, "
            f"regret {state['regret']}"
        )
