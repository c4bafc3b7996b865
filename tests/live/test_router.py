"""The router over HTTP, in front of the emulated fleet."""

import asyncio
import io
import itertools
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from bfio import Cluster, Workload, read_trace, simulate
from bfio.cli import main
from bfio.common.provenance import version_and_commit
from bfio.decode.option_kinds import PrefillTier
from bfio.decode.options import ArrivalMode, Dispatch, Projection, RunOptions
from bfio.decode.policy_registry import choose
from bfio.decode.run import Run
from bfio.decode.state import DecodeState
from bfio.live.decisions import Decisions
from bfio.live.log import RunLog, read_decisions
from bfio.live.options import RouteOptions
from bfio.live.prefillers import Prefillers
from bfio.live.router import Router
from bfio.live.upstream import LostError, Upstream, addresses
from bfio.live.wire import DONE, event
from formulations.errors import InputError
from tests.browser import WIDTHS, asked_for, chromium, console
from tests.live.servers import Live, live, served, serving, stream


@st.composite
def timed_runs(draw: st.DrawFn) -> tuple[Workload, Cluster]:
    """Draw requests of which the first comes alone and runs throughout."""
    n = draw(st.integers(1, 25))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    outputs = np.append(60, rng.integers(1, 20, n))
    arrivals = np.append(0.0, np.sort(rng.uniform(1e-4, 0.2, n)))
    prompts = rng.integers(1, 40, n + 1)
    cluster = Cluster(workers=draw(st.integers(1, 4)), slots=draw(st.integers(1, 4)))
    return Workload(prompts, outputs, arrivals.tolist()), cluster


async def stepped(workload: Workload, cluster: Cluster, policy: str, run: Run) -> None:
    """Serve the requests on the stepped clock, and compare the loads of every step."""
    async with live(cluster, policy, speed=None, run=run.options, tick_s=60.0) as both:
        router, answers = both.router, []

        async def come(step: int) -> None:
            for row in np.flatnonzero(run.reveal_step == step).tolist():
                fields: dict[str, Any] = {
                    "prompt": [1] * int(workload.prompt_tokens[row]),
                    "max_tokens": int(workload.output_tokens[row]),
                }
                answers.append(asyncio.create_task(both.complete(**fields)))
                await both.until(lambda: router.arrived == len(answers))

        await come(0)
        await both.until(lambda: router.sent == 1)
        for step in range(run.steps):
            # The boundary after this step decides about them.
            await come(step + 1)
            before = router.table.step
            told = await both.order("/bfio/step", received=router.sent)
            assert run.loads is not None
            assert told["loads"] == run.loads[step].tolist(), step
            if step + 1 < run.steps:
                await both.until(lambda: router.table.step > before)  # noqa: B023
        for row, answer in enumerate(answers):
            status, document = await answer
            assert status == 200
            assert document["usage"]["completion_tokens"] == workload.output_tokens[row]


@pytest.mark.parametrize("policy", ["random", "jsq", "br-0", "br-h:horizon=5", "bf-io"])
@given(case=timed_runs())
@settings(max_examples=3)
def test_steps_through_http_equal_the_simulators(policy: str, case: Any) -> None:
    """On the stepped clock every step has the loads of the simulation."""
    workload, cluster = case
    options = RunOptions(
        arrivals=ArrivalMode.TIMED, predictor="oracle", projection=Projection.GROWING
    )
    run = simulate(workload, policy, cluster, options=options)
    asyncio.run(stepped(workload, cluster, policy, run))


PROFILE = os.environ.get("BFIO_TEST_PROFILE", "fast")
SMALL = Cluster(workers=2, slots=2)


async def read_stream(both: Live, url: str = "", **fields: Any) -> list[Any]:
    """Return the events of a streamed completion; the last one is None at ``[DONE]``."""
    async with both.client.post(
        (url or both.url) + "/v1/completions", json={"stream": True} | fields
    ) as answer:
        text = await answer.text()
    data = [line.removeprefix("data: ") for line in text.splitlines() if line]
    return [None if each == "[DONE]" else json.loads(each) for each in data]


def is_error(document: Any) -> bool:
    """Whether a document is an error as the OpenAI API has them."""
    return set(document) == {"error"} and set(document["error"]) == {
        "message", "type", "param", "code",
    }  # fmt: skip


def words(events: list[Any]) -> list[int]:
    """Return the numbers of the words of a stream."""
    text = "".join(c["text"] for each in events if each for c in each.get("choices", []))
    return [int(word) for word in re.findall(r"w(\d+)", text)]


async def is_empty(both: Live) -> None:
    """Wait until nothing is left on either side."""
    table, router = both.router.table, both.router
    await both.until(lambda: not table.status.any() and not router.tickets)
    await both.until(lambda: both.emulator.fleet.is_idle)
    assert sum(router.ends.values()) == router.arrived
    if router.prefill is not None:
        assert router.prefill.held == [0] * len(router.prefill.held)


#: A tier and one of its faults.
_HARMS = [("", name) for name in ("die", "return", "error", "drop", "recompute", "late", "stall")]
_HARMS_OF_PREFILL = [("/prefill", name) for name in ("die", "return", "error")]
#: A worker and its fault, and how long to wait before it [s].
FAULTS = st.tuples(
    st.integers(0, 1), st.sampled_from([*_HARMS, *_HARMS_OF_PREFILL]), st.floats(0, 0.03)
)
#: Two prefill workers; at the speed of the test a prompt takes a millisecond at most.
TIER = PrefillTier(2, token_time_s=0.002, transfer_time_s=1e-4)
#: A request: prompt and output [tokens], and after how long its client leaves [s].
REQUESTS = st.tuples(
    st.integers(1, 20), st.integers(1, 30), st.none() | st.floats(0, 0.05), st.booleans()
)


async def endured(
    requests: list[tuple[int, int, float | None, bool]],
    faults: list[tuple[int, tuple[str, str], float]],
    prefill: PrefillTier | None,
) -> None:
    """Serve requests beside faults, and check that each ends once, with all its tokens."""
    async with live(SMALL, "br-0", speed=50.0, ttl_s=10.0, retries=30, prefill=prefill) as both:

        async def ask(prompt: int, output: int, patience: float | None, streams: bool) -> None:
            fields: dict[str, Any] = {"prompt": [1] * prompt, "max_tokens": output}
            try:
                async with asyncio.timeout(patience):
                    if streams:
                        events = await read_stream(both, **fields)
                        assert events[-1] is None
                        found = words(events)
                        assert all(b in (a + 1, 0) for a, b in itertools.pairwise(found))
                    else:
                        status, document = await both.complete(**fields)
                        assert status == 200, document
                        assert document["usage"]["prompt_tokens"] == prompt
                        found = words([document])
                assert len(found) == output
            except TimeoutError:
                return

        async def harm() -> None:
            for worker, (tier, fault), wait in faults:
                await asyncio.sleep(wait)
                more = {"seconds": 0.5} if fault == "stall" else {}
                await both.order(f"{tier}/bfio/faults", worker=worker, fault=fault, **more)
            for worker in range(2):
                for tier in ("", "/prefill"):
                    await both.order(f"{tier}/bfio/faults", worker=worker, fault="return")

        await asyncio.gather(harm(), *(ask(*request) for request in requests))
        await is_empty(both)
        assert both.router.ends["failed"] == both.router.ends["expired"] == 0


@pytest.mark.parametrize("prefill", [None, TIER])
@given(requests=st.lists(REQUESTS, min_size=1, max_size=12), faults=st.lists(FAULTS, max_size=5))
@settings(max_examples=200 if PROFILE == "deep" else 5)
def test_every_request_ends_once_whatever_happens(
    prefill: PrefillTier | None, requests: Any, faults: Any
) -> None:
    """Tokens pass once and in order, and no slot leaks, whatever workers and clients do."""
    asyncio.run(endured(requests, faults, prefill))


async def handed_on() -> None:
    """Follow requests through both tiers, and lose each kind of thing on the way."""
    tier = PrefillTier(2, token_time_s=0.0, places=10)
    async with live(SMALL, "jsq", speed=None, prefill=tier, retries=2) as both:
        router, prefill = both.router, both.emulator.prefill
        assert prefill is not None

        def held() -> list[int]:
            return [worker["held"] for worker in prefill.state()]

        def ask(**more: Any) -> "asyncio.Task[tuple[int, Any]]":
            fields: dict[str, Any] = {"prompt": "a b c", "max_tokens": 2}
            return asyncio.create_task(both.complete(**fields | more))

        # Four are sent with their handles and two wait with theirs, one on each prefill worker.
        # A handle that a client brings is not passed on.
        bad = {"do_remote_prefill": True, "remote_block_ids": [1], "remote_host": "elsewhere"}
        asked = [ask(kv_transfer_params=bad) for _ in range(6)]
        await both.until(lambda: router.sent == 4 and sum(held()) == 2)
        assert router.prefill is not None
        assert router.prefill.held == [3, 3]
        assert both.emulator.fleet.submitted == 4
        # Their tokens say that the transfer is done.
        await both.order("/bfio/step", received=4)
        await both.until(lambda: router.prefill is not None and router.prefill.held == held())
        # One that waits loses its cache: its worker refuses the handle, and it is prefilled again.
        lost = held().index(1)
        await both.order("/prefill/bfio/faults", worker=lost, fault="die")
        await both.order("/prefill/bfio/faults", worker=lost, fault="return")
        await both.order("/bfio/step", received=4)
        await both.until(lambda: router.sent == 7)
        # After a stop for recomputation, too.
        await both.order("/bfio/step", received=6)
        for worker in range(2):
            await both.order("/bfio/faults", worker=worker, fault="recompute")
        await both.until(lambda: router.sent == 9)
        await both.order("/bfio/step", received=8)
        for status, document in await asyncio.gather(*asked):
            assert (status, document["usage"]["completion_tokens"]) == (200, 2)
        assert held() == [0, 0]
        # With both workers down, a prompt waits until one is up again.
        for worker in range(2):
            await both.order("/prefill/bfio/faults", worker=worker, fault="die")
        late = ask()
        await both.until(lambda: router.state()["prefill"][0]["usage"] == 1.0)
        for worker in range(2):
            await both.order("/prefill/bfio/faults", worker=worker, fault="return")
        await both.order("/bfio/step", received=9)
        late.cancel()
        await is_empty(both)


def test_a_handle_is_passed_on_once() -> None:
    """Prefill, pool, decode; lost caches, refused handles and recomputation begin anew."""
    asyncio.run(handed_on())


#: Bodies that are refused, with the status of the answer.
BAD_BODIES = [
    (b"", 400),
    (b"{", 400),
    (b"[]", 400),
    (b"\xff\xfe", 400),
    (b"[" * 100_000, 400),
    (b'{"prompt": 7}', 400),
    (b'{"prompt": [1, "a"]}', 400),
    (b'{"prompt": "a", "max_tokens": -1}', 400),
    (b'{"prompt": "a", "max_tokens": 1e400}', 400),
    (b'{"prompt": "a", "max_tokens": true}', 400),
    (b'{"prompt": "a", "stream": "yes"}', 400),
    (b'{"prompt": "a", "stream_options": 3}', 400),
    (b'{"prompt": "a", "n": 2}', 400),
    (b'{"prompt": "a", "model": 3}', 400),
    (b'{"prompt": "a", "model": "unknown"}', 404),
    (b'{"prompt": "' + b"a " * 2**23 + b'"}', 413),
]


async def abused() -> None:
    """Send every bad request, and a good one afterwards."""
    async with live(SMALL, "jsq") as both:
        await both.until(lambda: bool(both.router.models))
        for body, status in BAD_BODIES:
            async with both.client.post(
                both.url + "/v1/completions", data=io.BytesIO(body)
            ) as answer:
                assert (answer.status, is_error(await answer.json())) == (status, True), body[:40]
        for verb, path, status in (
            ("GET", "/v1/completions", 405),
            ("POST", "/nowhere", 404),
            ("POST", "/v1/models", 405),
        ):
            async with both.client.request(verb, both.url + path) as answer:
                assert (answer.status, is_error(await answer.json())) == (status, True)
        place = urlsplit(both.url)
        for raw, ends in (
            (b"nonsense\r\n\r\n", True),
            (b"POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{", True),
            # A head without an end is refused though the client would go on.
            (b"GET /health HTTP/1.1\r\nHost: a\r\nX-Long: " + b"a" * 10**6, False),
        ):
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            writer.write(raw)
            if ends:
                writer.write_eof()
            # What the server has not read when it refuses, resets the connection.
            with suppress(ConnectionResetError):
                async with asyncio.timeout(10):
                    await reader.read()
            writer.close()
        # The router chooses the worker: a rank that no worker has does no harm.
        async with both.client.post(
            both.url + "/v1/completions",
            json={"prompt": "a b", "max_tokens": 2},
            headers={"X-data-parallel-rank": "99"},
        ) as answer:
            assert answer.status == 200
        await is_empty(both)


def test_abuse_is_answered_by_errors() -> None:
    """An error as the API has them or a clean end; afterwards all works."""
    asyncio.run(abused())


def broken(state: DecodeState) -> list[int | None]:
    """Raise an error."""
    raise ZeroDivisionError("on purpose")


async def failing(folder: Path) -> None:
    """Ask a router whose policy fails."""
    log = RunLog(folder, {"policy": "broken"})
    async with live(SMALL, broken, log=log) as both:
        status, document = await both.complete(prompt="a", max_tokens=2)
        assert (status, is_error(document)) == (500, True)
        assert "on purpose" in document["error"]["message"]
        await is_empty(both)


def test_a_policy_that_raises_is_answered_at_once(tmp_path: Path) -> None:
    """Status 500 with the reason, which is logged."""
    asyncio.run(failing(tmp_path))
    lines = (tmp_path / "decisions.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["event"] == "error"
    assert ",failed" in (tmp_path / "requests.csv").read_text()


async def full(folder: Path) -> None:
    """Fill the pool, and let requests wait for longer than they may."""
    one, log = Cluster(workers=1, slots=1), RunLog(folder, {"policy": "fcfs"})
    async with live(one, "fcfs", speed=None, log=log, pool=1, ttl_s=0.2) as both:
        answers = []
        for sent in (1, 1):
            answers.append(asyncio.create_task(both.complete(prompt="a", max_tokens=5)))
            await both.until(lambda: both.router.arrived == len(answers))
            await both.until(lambda: both.router.sent == sent)  # noqa: B023
        async with both.client.post(
            both.url + "/v1/completions", json={"prompt": "a", "max_tokens": 5}
        ) as answer:
            assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        status, document = await answers[1]
        assert (status, is_error(document)) == (503, True)
        assert both.router.ends["refused"] == both.router.ends["expired"] == 1
        answers[0].cancel()
        await both.until(lambda: both.router.ends["cancelled"] == 1)
        await is_empty(both)


def test_a_full_pool_refuses_and_old_requests_expire(tmp_path: Path) -> None:
    """Both with status 503, and both in the log; a client that leaves frees its slot."""
    asyncio.run(full(tmp_path))
    rows = (tmp_path / "requests.csv").read_text().splitlines()[1:]
    assert sorted(row.rpartition(",")[2] for row in rows) == ["cancelled", "expired", "refused"]


async def bound() -> None:
    """Send more requests than slots with immediate dispatch."""
    run = RunOptions(dispatch=Dispatch.IMMEDIATE, margin=1)
    async with live(Cluster(workers=1, slots=2), "jsq", speed=None, run=run) as both:
        answers = [
            asyncio.create_task(both.complete(prompt="a b", max_tokens=2)) for _ in range(4)
        ]
        await both.until(lambda: both.router.arrived == 4)
        await both.until(lambda: both.router.sent == 3)
        await both.order("/bfio/step", received=3)
        await both.until(lambda: both.router.tokens == 2)
        state = both.router.state()
        assert (state["workers"][0]["running"], state["workers"][0]["bound"]) == (2, 1)
        for received in (3, 4, 4):
            await both.order("/bfio/step", received=received)
            await both.until(lambda: both.router.sent == 4)
        await both.order("/bfio/step", received=4)
        assert [(await answer)[0] for answer in answers] == [200] * 4
        await is_empty(both)


def test_immediate_dispatch_keeps_to_its_margin() -> None:
    """At most B + M requests are on a worker; those that have begun are told apart."""
    asyncio.run(bound())


def engine_of(complete: Any) -> Starlette:
    """Return an engine that answers completions in one way."""

    async def healthy(request: Request) -> Response:
        return Response()

    return Starlette(
        routes=[
            Route("/v1/completions", complete, methods=["POST"]),
            Route("/health", healthy),
        ]
    )


@asynccontextmanager
async def in_front_of(engine: Starlette, **options: Any) -> AsyncIterator[tuple[Router, Any]]:
    """Serve an engine and a router before it; yield the router and a session with it."""
    async with served(engine) as worker:
        table = Decisions(choose("jsq"), Cluster(workers=1, slots=2), RunOptions())
        router = Router(table, Upstream(addresses([worker])), RouteOptions(**options))
        async with serving(router.app) as session:
            yield router, session


async def like_llama_cpp() -> None:
    """Ask for the usage of an engine that tells it beside the last, empty text."""

    async def complete(request: Request) -> Response:
        texts = [{"index": 0, "text": f" w{k}", "finish_reason": None} for k in range(3)]
        last = {"index": 0, "text": "", "finish_reason": "length"}
        usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
        events = [event({"choices": [each]}) for each in texts]
        return Response(b"".join([*events, event({"choices": [last], "usage": usage}), DONE]))

    async with in_front_of(engine_of(complete)) as (router, session):
        for asks in (True, False):
            fields = {"prompt": "a b", "stream_options": {"include_usage": asks}}
            told = [each async for each in stream(session, fields)]
            usages = [each["usage"] for each in told if "usage" in each]
            assert [usage["completion_tokens"] for usage in usages] == [3] * asks
            # In an event of its own, as the OpenAI API has it.
            assert all(each["choices"] for each in told) != asks
        assert router.tokens == 6


def test_usage_beside_the_last_text_reaches_the_client() -> None:
    """As llama.cpp tells it; and only a client that asked for it gets it."""
    asyncio.run(like_llama_cpp())


async def paused() -> None:
    """Let a request come while a part of the running ones is still to report its token."""
    async with live(SMALL, "jsq", speed=None, tick_s=0.2) as both:
        answers: list[Any] = []

        async def come(count: int) -> None:
            answers.extend(
                asyncio.create_task(both.complete(prompt="a", max_tokens=9)) for _ in range(count)
            )
            await both.until(lambda: both.router.arrived == len(answers))

        async def step(tokens: int) -> None:
            await both.order("/bfio/step", received=2)
            await both.until(lambda: both.router.tokens == tokens)

        await come(2)
        await both.until(lambda: both.router.sent == 2)
        await step(tokens=2)
        await both.order("/bfio/faults", worker=1, fault="late", steps=3)
        await step(tokens=3)
        await come(1)
        await asyncio.sleep(0.4)
        assert both.router.sent == 2
        await step(tokens=6)
        await both.until(lambda: both.router.sent == 3)
        for answer in answers:
            answer.cancel()
        await is_empty(both)


def test_a_pause_within_a_step_is_no_boundary() -> None:
    """A request waits until all that ran before have reported."""
    asyncio.run(paused())


async def passed_on() -> None:
    """Ask router and workers for the same streams, with all that clients can ask for."""
    async with live(SMALL, "jsq") as both:
        for prompt, ids, usage in itertools.product(("a b", [1, 2]), (False, True), range(4)):
            told = {"include_usage": usage % 2 == 1, "continuous_usage_stats": usage > 1}
            fields: dict[str, Any] = {
                "prompt": prompt,
                "return_token_ids": ids,
                "stream_options": told,
            }
            routed, direct = [
                [each and each | {"id": "", "created": 0} for each in events]
                for events in (
                    await read_stream(both, **fields),
                    await read_stream(both, both.fleet_url, **fields),
                )
            ]
            assert routed == direct


def test_streams_are_passed_on_as_clients_asked_for_them() -> None:
    """Event by event: what the router asks for itself is not in them."""
    asyncio.run(passed_on())


async def like_vllm_that_fails() -> None:
    """Ask an engine whose first answer is an error within its stream."""
    answers: Iterator[dict[str, Any]] = iter(
        [
            {"error": {"message": "the cache could not be loaded", "code": 500}},
            {"choices": [{"index": 0, "text": " w0", "finish_reason": "length"}]},
        ]
    )

    async def complete(request: Request) -> Response:
        return Response(event(next(answers)) + DONE)

    async with in_front_of(engine_of(complete), retries=1) as (router, session):
        told = [each async for each in stream(session, {"prompt": "a", "max_tokens": 1})]
        assert words(told) == [0]
        assert (router.sent, router.ends["finished"]) == (2, 1)


def test_an_error_within_a_stream_is_tried_again() -> None:
    """As vLLM says it when a transfer of the cache fails."""
    asyncio.run(like_vllm_that_fails())


@pytest.mark.parametrize(
    ("prefill", "status", "message"),
    [
        # A prefill worker that is an engine without a connector: a whole answer and no handle.
        ({"usage": {"prompt_tokens": 3}, "choices": []}, 502, "start it with a KV connector"),
        ({"error": {"message": "The prompt is too long."}}, 400, "The prompt is too long"),
    ],
)
def test_a_prompt_without_a_handle_is_an_error(prefill: Any, status: int, message: str) -> None:
    """The client is told why; nothing is sent to a worker and nothing is left."""

    async def complete(request: Request) -> Response:
        return JSONResponse(prefill, 400 if "error" in prefill else 200)

    async def metrics(request: Request) -> Response:
        return Response('vllm:kv_cache_usage_perc{engine="0"} 0.5\n')

    async def test() -> None:
        engine = engine_of(complete)
        engine.router.routes.append(Route("/metrics", metrics))
        async with served(engine) as url:
            table = Decisions(choose("jsq"), Cluster(workers=1, slots=2), RunOptions())
            tier = Prefillers(Upstream(addresses([url])))
            workers = Upstream(addresses([url + "/nowhere"]))
            router = Router(table, workers, RouteOptions(), prefill=tier)
            async with (
                serving(router.app) as session,
                session.post("/v1/completions", json={"prompt": "a b"}) as answer,
            ):
                document = await answer.json()
            assert (answer.status, is_error(document)) == (status, True)
            assert message in document["error"]["message"]
            assert (router.sent, tier.held, tier.usage) == (0, [0], [0.5])

    asyncio.run(test())


def test_the_page_shows_the_loads(tmp_path: Path) -> None:
    """In a real browser: numbers and curves of a running router, and nothing from elsewhere."""
    with chromium(tmp_path / "profile") as browser:
        asyncio.run(watched(browser))


async def watched(browser: Any) -> None:
    """Open the page of a router that serves requests."""
    async with live(SMALL, "br-0", speed=1.0) as both:
        answers = [
            asyncio.create_task(both.complete(prompt="a b", max_tokens=2000)) for _ in range(6)
        ]
        await both.until(lambda: both.router.sent == 4)
        await both.until(lambda: len(both.router.points) > 2)
        for width in WIDTHS:
            size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            await asyncio.to_thread(browser.get, both.url + "/")
            found: Any = {}
            for _ in range(200):
                found = await asyncio.to_thread(browser.execute_script, _SEEN)
                if found["curves"]:
                    break
                await asyncio.sleep(0.05)
            assert (found["arrived"], found["waiting"], found["policy"]) == ("6", "2", "br-0")
            # Two workers and the fullest one, and the pool.
            assert (found["curves"], found["rows"], found["problem"]) == (4, 2, "")
            assert found["wide"] <= width
        assert [text for text in console(browser) if "favicon" not in text] == []
        asked = asked_for(browser)
        assert asked
        assert [address for address in asked if not address.startswith(f"{both.url}/")] == []
        for answer in answers:
            answer.cancel()
        await is_empty(both)


_SEEN = """
const text = id => document.getElementById(id).textContent;
return {arrived: text("arrived"), waiting: text("waiting"), policy: text("policy"),
  problem: text("problem"), curves: document.querySelectorAll("path").length,
  rows: document.querySelectorAll("tbody tr").length, wide: document.body.scrollWidth};
"""


async def logged(folder: Path) -> None:
    """Serve requests with a log."""
    log = RunLog(folder, {"policy": "fcfs"})
    async with live(SMALL, "fcfs", log=log) as both:
        asked = [
            both.complete(prompt="secret " * (7 * i % 5 + 1), max_tokens=9) for i in range(20)
        ]
        assert all(status == 200 for status, _ in await asyncio.gather(*asked))
        await is_empty(both)


def test_a_log_is_a_trace_and_has_a_regret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``bfio gap --log`` solves every decision; the requests are a trace; no prompt is kept."""
    asyncio.run(logged(tmp_path / "log"))
    text = (tmp_path / "log" / "decisions.jsonl").read_text()
    assert "secret" not in text
    views = list(read_decisions(tmp_path / "log"))
    assert sum(worker is not None for view in views for worker in view.decision or ()) == 20
    assert main(["gap", "--log", str(tmp_path / "log"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["policy"], document["proven"]) == ("fcfs", len(views))
    assert main(["gap", "--log", str(tmp_path / "log"), "--no-plots"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert f"horizon 0 (gap), {version_and_commit()} " in printed
    assert main(["gap", "--log", str(tmp_path / "log"), "--gap-horizon", "2"]) == 2
    assert "the router looked 0 steps ahead; give at most 0" in capsys.readouterr().err
    requests = read_trace(tmp_path / "log" / "requests.csv")
    assert sorted(requests.prompt_tokens.tolist()) == sorted(7 * i % 5 + 1 for i in range(20))
    assert set(requests.output_tokens.tolist()) == {9}


async def replayable(folder: Path) -> None:
    """Serve requests at full speed with a log that says how it was made."""
    head = {"policy": "jsq", "policy_options": {}, "workers": [0, 1], "run": {"seed": 0}}
    log = RunLog(folder, head | {"machine": {"slots": 2, "memory": None}})
    # Steps long beside the delays of a busy machine.
    cluster = Cluster(2, 2, step_overhead_s=0.02, token_time_s=1e-4)
    async with live(cluster, "jsq", speed=1.0, tick_s=1.0, log=log) as both:
        asked = [both.complete(prompt="a " * (17 * i % 90 + 1), max_tokens=9) for i in range(40)]
        assert all(status == 200 for status, _ in await asyncio.gather(*asked))
        await is_empty(both)


def test_a_log_is_fitted_and_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``bfio fit LOG``: the steps of the emulator, and the same requests on the simulator."""
    asyncio.run(replayable(tmp_path / "log"))
    assert main(["fit", str(tmp_path / "log"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    measured, simulated = told["measured"], told["simulated"]
    assert set(measured) == set(simulated)
    # A busy machine makes steps longer, never shorter than the emulator's.
    assert told["constants"]["step_overhead"]["value"] > 0.015
    assert simulated["avg_imbalance"] == pytest.approx(measured["avg_imbalance"], rel=0.5)
    assert simulated["tpot_p50_s"] == pytest.approx(measured["tpot_p50_s"], rel=0.5)
    assert main(["fit", str(tmp_path / "log")]) == 0
    assert "difference" in capsys.readouterr().out
    assert main(["fit", str(tmp_path / "log"), "--workers", "2"]) == 2
    assert "has no effect on a log" in capsys.readouterr().err


async def impatient(folder: Path) -> None:
    """Serve requests in pairs, the second within a step, by a router that waits half a step."""
    log = RunLog(folder, {"policy": "fcfs"})
    async with live(Cluster(2, 4, 0.12), "fcfs", speed=1.0, tick_s=0.005, log=log) as both:
        for _ in range(2):
            first = asyncio.create_task(both.complete(prompt="a", max_tokens=4))
            await asyncio.sleep(0.03)
            await asyncio.gather(first, both.complete(prompt="a", max_tokens=4))
            await is_empty(both)


def test_a_decision_without_a_token_ends_no_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Times of steps do not go back; if they do, ``bfio fit`` refuses the log."""
    asyncio.run(impatient(tmp_path))
    lines = (tmp_path / "decisions.jsonl").read_text().splitlines()
    steps = [told for told in map(json.loads, lines) if told["event"] == "step"]
    times = [told["t"] for told in steps]
    assert times == sorted(times)
    assert times[0] >= 0
    assert {told["late"] is None for told in steps} == {True, False}
    wrong = json.dumps(steps[-1] | {"t": -4000.0})
    (tmp_path / "decisions.jsonl").write_text("\n".join([*lines, wrong, ""]))
    assert main(["fit", str(tmp_path)]) == 2
    assert "is a step that ends before the one above it" in capsys.readouterr().err


def test_a_damaged_log_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A last line that is cut off is left out; any other damage is an error with its line."""
    head = '{"event":"start","policy":"fcfs"}\n'
    (tmp_path / "decisions.jsonl").write_text(head + '{"event":"decision","st')
    assert list(read_decisions(tmp_path)) == []
    (tmp_path / "decisions.jsonl").write_text(head + '{"event":"decision"}\n')
    with pytest.raises(InputError, match=r"line 2: is not a line of a log"):
        list(read_decisions(tmp_path))
    assert main(["gap", "--log", str(tmp_path), "--pool", "3"]) == 2
    assert "--log has none" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("answer", "is_healthy", "metrics"),
    [
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", True, "ok"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", True, ""),
        (b"HTTP/1.0 200 OK\r\n\r\nok", True, "ok"),  # Its end is that of the connection.
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", False, None),
        (b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", False, None),
        (b"no HTTP\r\n\r\n", False, None),
        (b"", False, None),
    ],
)
def test_answers_end_as_their_workers_say(
    answer: bytes, is_healthy: bool, metrics: str | None
) -> None:
    """By a length, by the end of the connection, or without a body; others are losses."""

    async def told(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    async def asked() -> None:
        server = await asyncio.start_server(told, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            upstream = Upstream(addresses([f"http://127.0.0.1:{port}"]))
            assert await upstream.is_healthy(0) == is_healthy
            if metrics is None:
                with pytest.raises(LostError):
                    await upstream.ask(0, "/metrics")
            else:
                assert await upstream.ask(0, "/metrics") == metrics

    asyncio.run(asked())
