"""Workers with token budgets: prompts are computed in chunks beside the tokens that are decoded.

A request that starts on a worker has its slot from then on, and no cache. At each step every
worker forms a batch of the requests that it has, by a policy of `bfio.batching` and within its
budget: of a prompt that is not computed yet a chunk, of any other request one token (throughput
paper, 2.5). The barrier is that of all steps here: the next begins when the slowest worker is
done. Who emits nothing at a step, as its prompt is not computed or the batch leaves it out, rests
(`bfio.decode.features.pausing`), so that the phases of a step know nothing of batches either.

What a batch reads is its load: the caches of those that it has something of, as they are before
the step. Policies that route are told of prompts in whole: what a worker has been sent, it will
hold.
"""
