"""Chat sessions: prompts that repeat what was said before, so that prefixes are shared."""

from dataclasses import dataclass

import numpy as np

from bfio.workloads.block_hashes import BLOCK_TOKENS, BlockHashes, num_blocks
from bfio.workloads.lengths import Geometric, Lognormal
from bfio.workloads.workload import Workload
from formulations.arrays import IntArray

#: System prompts, each of so many blocks, and how often the k-th is used: as 1/k.
_SYSTEM_PROMPTS, _SYSTEM_BLOCKS = 8, 2
#: Mean turns of a session, and what a user adds at each turn and gets for it [tokens].
_MEAN_TURNS = 5
_MESSAGES, _ANSWERS = Lognormal(median=250, sigma=1.0, maximum=8_192), Geometric(200)
#: Mean time between turns [s], and sessions that begin per second: 300 requests/s in the long run.
_THINKING_S, _SESSIONS_PER_S = 2.0, 60.0


@dataclass(frozen=True)
class _Turns:
    """All turns of all sessions, session after session; arrays of shape (n,)."""

    session: IntArray
    first: IntArray
    system: IntArray

    def sums_within(self, increments: IntArray) -> IntArray:
        """Return the sums of the increments of a session up to each turn, its own included."""
        sums = np.cumsum(increments)
        before = sums[self.first] - increments[self.first]
        within: IntArray = sums - before
        return within


def sessions(num_requests: int, rng: np.random.Generator) -> Workload:
    """Return the first requests that chat sessions send, with the hashes of their blocks.

    The prompt of a turn is the system prompt, then all messages and answers of the session before
    it, then the message of the turn. Sessions begin as a Poisson process and have a geometric
    number of turns; the time between two is exponential, whatever serving takes (an open loop).

    Parameters
    ----------
    num_requests : int
        Number of requests, >= 1.
    rng : numpy.random.Generator
        Source of randomness.
    """
    # No later session can be among the first requests, as each sends one when it begins.
    turns = _draw_turns(num_requests, rng)
    answers = _ANSWERS.sample(len(turns.session), rng)
    said = turns.sums_within(_MESSAGES.sample(len(answers), rng) + answers)
    prompts = _SYSTEM_BLOCKS * BLOCK_TOKENS + said - answers
    begins = np.cumsum(rng.exponential(1 / _SESSIONS_PER_S, num_requests))
    pauses = rng.exponential(_THINKING_S, len(answers))
    pauses[turns.first] = 0
    since = np.cumsum(pauses)
    times = begins[turns.session] + since - since[turns.first]
    order = np.argsort(times, kind="stable")[:num_requests]
    return Workload(
        prompts[order],
        answers[order],
        times[order].tolist(),
        "sessions",
        {"generator": "sessions", "sessions": len(np.unique(turns.session[order]))},
        block_hashes=_hashes(turns, prompts).part(order),
    )


def _draw_turns(num_sessions: int, rng: np.random.Generator) -> _Turns:
    counts = Geometric(_MEAN_TURNS).sample(num_sessions, rng)
    popularity = 1 / np.arange(1, _SYSTEM_PROMPTS + 1)
    systems = rng.choice(_SYSTEM_PROMPTS, num_sessions, p=popularity / popularity.sum())
    firsts = np.cumsum(counts) - counts
    return _Turns(
        np.repeat(np.arange(num_sessions), counts),
        np.repeat(firsts, counts),
        np.repeat(systems, counts),
    )


def _hashes(turns: _Turns, prompts: IntArray) -> BlockHashes:
    """Return the hashes: of a system prompt, of a full block of a session, or of one turn alone.

    The block at the end of a prompt is filled further at the next turn, so that it is another one
    then.
    """
    blocks = num_blocks(prompts)
    own = _SYSTEM_PROMPTS * _SYSTEM_BLOCKS
    stride = int(blocks.max()) + 1
    rows = []
    for turn, (session, system) in enumerate(
        zip(turns.session.tolist(), turns.system.tolist(), strict=True)
    ):
        row = own + session * stride + np.arange(int(blocks[turn]))
        row[:_SYSTEM_BLOCKS] = system * _SYSTEM_BLOCKS + np.arange(_SYSTEM_BLOCKS)
        if prompts[turn] % BLOCK_TOKENS:
            row[-1] = own + (int(turns.session[-1]) + 1) * stride + turn
        rows.append(row)
    return BlockHashes.joined(rows)
