"""The emulator over HTTP: beside the simulator, its routes, faults, clocks and command."""

import asyncio
import signal
import sys
import time
from collections.abc import Coroutine
from subprocess import PIPE
from typing import Any

import aiohttp
import numpy as np
import pytest

import bfio
from bfio.decode.cluster import Cluster
from bfio.decode.simulation import describe_run
from bfio.live.emulator import Emulator
from bfio.live.fleet import End, Fleet
from tests.cli.conftest import Bfio
from tests.cli.conftest import bfio as bfio_command  # noqa: F401
from tests.live.servers import serving, stream
from tests.processes import started


def stepped(**machine: Any) -> Emulator:
    """Return an emulator whose steps are run by request alone."""
    return Emulator(Fleet(Cluster(**machine)), speed=None)


def running(test: Coroutine[Any, Any, None]) -> None:
    """Run a test that serves; what hangs fails soon."""
    asyncio.run(asyncio.wait_for(test, 60))


@pytest.mark.parametrize("policy", ["round-robin", "br-0"])
def test_a_trace_over_http_equals_the_simulator(policy: str) -> None:
    """Imbalance, TPOT and throughput of clients, with admissions at the simulator's steps."""
    cluster = Cluster(workers=3, slots=4)
    drawn = bfio.synthetic("demo", 60, seed=4)
    outputs = drawn.output_tokens % 30 + 1
    workload = bfio.Workload(drawn.prompt_tokens, outputs, drawn.arrival_times)
    run = bfio.simulate(workload, policy, cluster, arrivals="timed", load=0.9)
    steps: list[dict[str, Any]] = []
    spans: dict[int, tuple[int, int, int]] = {}

    async def client(session: aiohttp.ClientSession, i: int) -> None:
        fields = {
            "prompt": [1] * int(workload.prompt_tokens[i]),
            "max_tokens": int(workload.output_tokens[i]),
        }
        rank = str(run.worker[i])
        events = [
            event["bfio"]["step"]
            async for event in stream(session, fields, x_data_parallel_rank=rank, x_bfio_steps="1")
        ]
        spans[i] = (events[0], events[-1], len(events))

    async def test() -> None:
        async with serving(stepped(workers=3, slots=4).app) as session:
            tasks = []
            for k in range(run.steps):
                for i in np.flatnonzero(run.start_step == k).tolist():
                    tasks.append(asyncio.create_task(client(session, i)))
                idle = bool(run.idle_before_s[k] > 0)
                order = {"received": len(tasks)} | (
                    {"at_s": float(run.start_s[k])} if idle else {}
                )
                async with session.post("/bfio/step", json=order) as answer:
                    steps.append(await answer.json())
                    assert answer.status == 200, steps[-1]
            await asyncio.gather(*tasks)

    running(test())
    loads = np.array([step["loads"] for step in steps])
    starts = np.array([step["start_s"] for step in steps])
    ends = starts + np.array([step["duration_s"] for step in steps])
    assert run.loads is not None
    assert np.array_equal(loads, run.loads)
    for i, (first, last, count) in spans.items():
        assert (first, last) == (run.start_step[i], run.finish_step[i])
        assert count == workload.output_tokens[i] == last - first + 1
    imbalance = (loads.max(axis=1)[:, None] - loads).sum(axis=1).mean()
    tpot = np.mean([(ends[b] - starts[a]) / n for a, b, n in spans.values()])
    tokens = sum(n for _, _, n in spans.values())
    told = describe_run(run, policy)
    found = {
        "avg_imbalance": imbalance,
        "tpot_mean_s": tpot,
        "throughput_tokens_per_s": tokens / (ends - starts).sum(),
    }
    assert found == pytest.approx({name: told[name] for name in found}, rel=1e-12)


def test_a_free_slot_is_filled_before_the_next_step() -> None:
    """On a running clock, what a client sends on the last token runs in the very next step."""
    emulator = Emulator(Fleet(Cluster(workers=2, slots=1)), speed=1.0, settle_s=0.3)

    async def chain(session: aiohttp.ClientSession, rank: str) -> list[int]:
        seen = []
        for output in (1, 2, 1):
            fields = {"prompt": "a b", "max_tokens": output}
            async for event in stream(
                session, fields, x_data_parallel_rank=rank, x_bfio_steps="1"
            ):
                seen.append(event["bfio"]["step"])
        return seen

    async def test() -> None:
        async with serving(emulator.app) as session:
            began = time.monotonic()
            first, second = await asyncio.gather(chain(session, "0"), chain(session, "1"))
            assert first == list(range(first[0], first[0] + 4))
            assert second == list(range(second[0], second[0] + 4))
            assert time.monotonic() - began >= 3 * 0.3

    running(test())


def test_a_running_clock_takes_its_time() -> None:
    """Ten steps of 20 ms at twice the speed of the clock take 100 ms or more."""
    cluster = Cluster(workers=1, slots=2, step_overhead_s=0.02, token_time_s=0)
    emulator = Emulator(Fleet(cluster), speed=2.0, settle_s=0.0)

    async def test() -> None:
        async with serving(emulator.app) as session:
            began = time.monotonic()
            events = [e async for e in stream(session, {"prompt": "a", "max_tokens": 10})]
            assert time.monotonic() - began >= 0.1
            assert len(events) == 10
        assert emulator.fleet.now_s == pytest.approx(0.2, abs=0.1)

    running(test())


def test_answers_are_those_of_the_api() -> None:
    """Text, chat, usage, tokens in order, models, metrics that count what clients got."""
    emulator = Emulator(Fleet(Cluster(workers=2, slots=2, memory=64)), settle_s=0)

    async def test() -> None:
        async with serving(emulator.app) as session:
            usage = {"include_usage": True, "continuous_usage_stats": True}
            fields = {"prompt": [7, 8, 9], "max_tokens": 4, "stream_options": usage,
                      "return_token_ids": True, "ignore_eos": True}  # fmt: skip
            *chunks, last = [e async for e in stream(session, fields, x_data_parallel_rank="1")]
            assert [c["choices"][0]["text"] for c in chunks] == [" w0", " w1", " w2", " w3"]
            assert [c["choices"][0]["token_ids"] for c in chunks] == [[0], [1], [2], [3]]
            assert [c["usage"]["completion_tokens"] for c in chunks] == [1, 2, 3, 4]
            ends = [c["choices"][0]["finish_reason"] for c in chunks]
            assert ends == [None, None, None, "length"]
            assert last["choices"] == []
            assert last["usage"] == {
                "prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7
            }  # fmt: skip
            chat = {"messages": [{"role": "user", "content": "a b"}], "max_tokens": 2}
            async with session.post("/v1/chat/completions", json=chat) as answer:
                whole = await answer.json()
            assert whole["choices"][0]["message"]["content"] == " w0 w1"
            assert whole["usage"]["total_tokens"] == 4
            async with session.get("/v1/models") as answer:
                assert (await answer.json())["data"][0]["id"] == "bfio"
            async with session.get("/metrics") as answer:
                text = await answer.text()
            for line in (
                'vllm:generation_tokens_total{engine="0",model_name="bfio"} 2.0',
                'vllm:generation_tokens_total{engine="1",model_name="bfio"} 4.0',
                'vllm:prompt_tokens_total{engine="1",model_name="bfio"} 3.0',
                'vllm:num_requests_running{engine="1",model_name="bfio"} 0.0',
                'vllm:cache_config_info{block_size="16",engine="0",num_gpu_blocks="4"} 1.0',
            ):
                assert line in text

    running(test())


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        (b"", 400, None),
        (b"\xff\xfe", 400, None),
        (b"[" * 100_000, 400, None),
        (b"[1]", 400, None),
        (b'{"prompt": ["a", "b"]}', 400, "prompt"),
        (b'{"prompt": []}', 400, "prompt"),
        (b'{"prompt": [true]}', 400, "prompt"),
        (b'{"prompt": "a", "max_tokens": 0}', 400, "max_tokens"),
        (b'{"prompt": "a", "max_tokens": 1e3}', 400, "max_tokens"),
        (b'{"prompt": "a", "max_tokens": true}', 400, "max_tokens"),
        (b'{"prompt": "a", "max_tokens": 99}', 400, "max_tokens"),
        (b'{"prompt": "a", "stream": "yes"}', 400, "stream"),
        (b'{"prompt": "a", "stream_options": []}', 400, "stream_options"),
        (b'{"prompt": "a", "n": 2}', 400, "n"),
        (b'{"prompt": "a", "n": NaN}', 400, "n"),
        (b'{"prompt": "a", "model": 3}', 400, "model"),
        (b'{"prompt": "a", "model": "other"}', 404, "model"),
    ],
)
def test_bad_requests_get_an_error_of_the_api(body: bytes, status: int, param: str | None) -> None:
    """Message, type, field and code; nothing reaches the machine."""
    emulator = stepped(workers=1, slots=1, memory=50)

    async def test() -> None:
        async with (
            serving(emulator.app) as session,
            session.post("/v1/completions", data=body) as answer,
        ):
            assert answer.status == status
            error = (await answer.json())["error"]
        assert set(error) == {"message", "type", "param", "code"}
        assert (error["param"], error["code"]) == (param, status)
        assert error["message"].endswith(".")

    running(test())
    assert emulator.fleet.submitted == 0


@pytest.mark.parametrize("rank", ["2", "-1", "x", "", "9" * 5000])
def test_an_unknown_rank_is_refused(rank: str) -> None:
    """Also one that is not a number."""

    async def test() -> None:
        async with serving(stepped(workers=2, slots=1).app) as session:
            headers = {"X-data-parallel-rank": rank}
            async with session.post(
                "/v1/completions", json={"prompt": "a"}, headers=headers
            ) as answer:
                assert answer.status == 400
                assert "0..1" in (await answer.json())["error"]["message"]

    running(test())


def test_faults_reach_clients() -> None:
    """A death breaks streams, then 503; an ordered error; a recomputation; a late report."""
    emulator = stepped(workers=2, slots=2)

    async def order(session: aiohttp.ClientSession, path: str, **fields: Any) -> dict[str, Any]:
        async with session.post(path, json=fields) as answer:
            assert answer.status == 200
            found: dict[str, Any] = await answer.json()
            return found

    async def client(session: aiohttp.ClientSession, rank: str, output: int) -> Any:
        fields = {"prompt": "a", "max_tokens": output}
        events = []
        try:
            async for event in stream(session, fields, x_data_parallel_rank=rank):
                events.append(event["choices"][0])
        except aiohttp.ClientPayloadError:
            return len(events), "broken"
        last = events[-1]
        tokens = [event["text"].count("w") for event in events]
        return tokens, last.get("stop_reason", last["finish_reason"])

    async def test() -> None:
        async with serving(emulator.app) as session:
            tasks = [asyncio.create_task(client(session, "0", 5)) for _ in range(2)]
            other = asyncio.create_task(client(session, "1", 6))
            await order(session, "/bfio/step", received=3)
            await order(session, "/bfio/faults", worker=1, fault="late", steps=3)
            await order(session, "/bfio/step")
            await order(session, "/bfio/faults", worker=0, fault="recompute")
            await order(session, "/bfio/step")
            state = await order(session, "/bfio/faults", worker=0, fault="die")
            assert [worker["running"] for worker in state["workers"]] == [0, 1]
            for path in ("/health", "/v1/completions"):
                method = session.get if path == "/health" else session.post
                headers = {"X-data-parallel-rank": "0"}
                body = None if path == "/health" else {"prompt": "a"}
                async with method(path, headers=headers, json=body) as answer:
                    assert answer.status == 503
                    assert (await answer.json())["error"]["type"] == "service_unavailable_error"
            await order(session, "/bfio/faults", worker=1, fault="error")
            async with session.post(
                "/v1/completions", json={"prompt": "a"}, headers={"X-data-parallel-rank": "1"}
            ) as answer:
                assert answer.status == 500
            for _ in range(3):
                await order(session, "/bfio/step")
            assert sorted(map(str, await asyncio.gather(*tasks))) == [
                "(3, 'broken')", "([1, 1, 0], 'recomputed')"
            ]  # fmt: skip
            assert await other == ([1, 2, 3], "length")
            async with session.post("/bfio/faults", json={"worker": 0, "fault": "dye"}) as answer:
                assert answer.status == 400
                assert "die, return" in (await answer.json())["error"]["message"]

    running(test())


def test_a_client_that_leaves_frees_its_slot() -> None:
    """Streamed or not; the request behind it runs."""
    emulator = stepped(workers=1, slots=1)

    async def test() -> None:
        async with serving(emulator.app) as session:
            for streams in (True, False):
                fields = {"prompt": "a", "max_tokens": 1000, "stream": streams}
                leaving = asyncio.create_task(session.post("/v1/completions", json=fields))
                while emulator.fleet.is_idle:
                    await asyncio.sleep(0.001)
                async with session.post("/bfio/step") as answer:
                    assert (await answer.json())["running"] == [1]
                if streams:
                    (await leaving).close()
                leaving.cancel()
                while not emulator.fleet.is_idle:
                    await asyncio.sleep(0.001)
            assert emulator.fleet.ends[End.CANCELLED] == 2

    running(test())


def test_each_worker_may_have_its_own_port() -> None:
    """The port chooses the worker."""
    emulator = stepped(workers=2, slots=1)

    async def test() -> None:
        async with serving(emulator.app) as session:
            async with session.get("/v1/models") as answer:
                emulator.first_port = int(answer.url.port or 0) - 1
            fields = {"prompt": "a", "max_tokens": 1}
            task = asyncio.create_task(session.post("/v1/completions", json=fields))
            async with session.post("/bfio/step", json={"received": 1}) as answer:
                assert (await answer.json())["running"] == [0, 1]
            assert (await task).status == 200

    running(test())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--clock", "fast"), "--clock: 'fast' is not a clock; give a number"),
        (("--clock", "0"), "--clock: '0' is not a clock"),
        (("--settle", "-1"), "--settle: -1.0 s is out of range; use 0 to 60 s"),
        (("--port", "70000"), "--port: 70000 is out of range"),
        (("--addresses", "all"), "--addresses: 'all' is unknown; use one of one, each"),
        (("--addresses", "each", "--port", "0"), "--port: 0 (any port) cannot be used"),
        (
            ("--prefill", "workers=2"),
            "--prefill: has no token_time=; write e.g. --prefill workers=4,token_time=",
        ),
        (("--token-budget", "64"), "--token-budget: the emulator does not model it"),
        (("--host", "nowhere.invalid"), "--port: nowhere.invalid:8100 cannot be used"),
    ],
)
def test_bad_options_are_told_in_one_line(
    bfio_command: Bfio,  # noqa: F811
    arguments: tuple[str, ...],
    message: str,
) -> None:
    """Where, what, what to do."""
    done = bfio_command("emulate", *arguments)
    assert done.status == 2
    assert done.err.startswith(f"error: {message}")
    assert done.err.count("\n") == 1


def test_the_command_serves_until_it_is_interrupted() -> None:
    """It says where it listens; Ctrl-C ends it with status 0 and no further line."""
    command = [sys.executable, "-m", "bfio", "emulate", "--port", "0", "--workers", "2"]
    with started(command, stdout=PIPE, stderr=PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        url = line.split()[3].rstrip(";")

        async def ask() -> None:
            async with aiohttp.ClientSession(url) as session:
                events = [e async for e in stream(session, {"prompt": "a b", "max_tokens": 3})]
                assert len(events) == 3

        running(ask())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (0, "", "")
    assert line.startswith("2x72 fleet at http://127.0.0.1:")
