"""Which blocks the prompts of requests consist of, so that shared prefixes can be told."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from formulations.arrays import BoolArray, IntArray, integer_vector
from formulations.errors import InputError

#: Tokens of a block; that of Mooncake's traces, the only public ones with hashes.
BLOCK_TOKENS = 512


@dataclass(frozen=True, eq=False)
class BlockHashes:
    """The hashes of the blocks of each prompt, as arrays.

    A hash stands for its block and all before it, as serving engines take them: equal hashes at
    some block are equal prompts up to its end.

    Parameters
    ----------
    ids : IntArray
        Shape (m,): the hashes of all requests, one request after the other.
    first : IntArray
        Shape (n + 1,): those of request i are ``ids[first[i]:first[i + 1]]``, none if its source
        does not tell.
    """

    ids: IntArray
    first: IntArray

    @classmethod
    def of(cls, value: "Sequence[Sequence[int]] | BlockHashes", where: str) -> "BlockHashes":
        """Return hashes from a list for each request.

        Raises
        ------
        InputError
            If some are no integers, naming the request.
        """
        if isinstance(value, BlockHashes):
            return value
        rows = [integer_vector(row, f"{where}[{i}]") for i, row in enumerate(value)]
        return cls.joined(rows)

    @classmethod
    def joined(cls, rows: Sequence[IntArray]) -> Self:
        """Return hashes from an array for each request."""
        first = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=first[1:])
        return cls(np.concatenate([np.zeros(0, dtype=np.int64), *rows]), first)

    def __len__(self) -> int:
        return len(self.first) - 1

    def __getitem__(self, request: int) -> IntArray:
        """Return the hashes of one request."""
        return self.ids[self.first[request] : self.first[request + 1]]

    def part(self, which: IntArray | BoolArray | slice) -> "BlockHashes":
        """Return those of some requests: their indices in the order wanted, a mask or a slice."""
        order = np.arange(len(self))[which]
        return BlockHashes.joined([self[request] for request in order.tolist()])

    def repeated(self, times: int) -> "BlockHashes":
        """Return those of the same requests several times over; passes share no block."""
        counts = np.tile(np.diff(self.first), times)
        first = np.concatenate(([0], np.cumsum(counts, dtype=np.int64)))
        return BlockHashes(apart(self.ids, times), first)

    def check(self, prompt_tokens: IntArray, where: str) -> None:
        """Refuse hashes that do not fit the prompts.

        Raises
        ------
        InputError
            If there are not as many lists as prompts, or a list is neither empty nor as long as
            its prompt has blocks.
        """
        if len(self) != len(prompt_tokens):
            what = f"{len(self)} lists for {len(prompt_tokens)} prompts"
            raise InputError(where, what, "give one per request or none at all")
        counts = np.diff(self.first)
        wrong = np.flatnonzero((counts > 0) & (counts != num_blocks(prompt_tokens)))
        if len(wrong):
            i = int(wrong[0])
            what = wrong_length(int(counts[i]), int(prompt_tokens[i]))
            raise InputError(f"{where}[{i}]", what, "give one hash per block, or none")


def apart(names: IntArray, times: int) -> IntArray:
    """Return names several times over, shape (times·n,), so that no two passes share one."""
    kinds, numbered = np.unique(names, return_inverse=True)
    passes = np.repeat(np.arange(times, dtype=np.int64), len(names))
    return np.tile(numbered.reshape(-1), times) + passes * len(kinds)


def num_blocks(prompt_tokens: IntArray) -> IntArray:
    """Return how many blocks prompts have; the last one may be shorter."""
    return -(-prompt_tokens // BLOCK_TOKENS)


def wrong_length(count: int, prompt: int) -> str:
    """Return what is wrong with so many hashes of a prompt of that length [tokens]."""
    blocks = -(-prompt // BLOCK_TOKENS)
    return f"{count} hashes for the {blocks} blocks of {BLOCK_TOKENS} of {prompt} prompt tokens"
