"""Workers with token budgets: prompts are computed in chunks, together with decoding.

A request that starts on a worker takes a slot, and has no cache at first. At each step every
worker forms a batch from its requests, by a policy of `bfio.batching` and within its budget. A
prompt that is not yet computed contributes a chunk, any other request one token (throughput paper,
2.5). The barrier is that of all steps: the next step begins when the slowest worker is done. A
request that emits no token in a step, because its prompt is not computed or the batch omits it,
rests (`bfio.decode.features.pausing`). The phases of a step therefore need no knowledge of
batches.

The load of a batch is the KV cache that it reads: the caches of the requests in it, as they are
before the step. Routing policies see whole prompts, since a worker will eventually hold all that
it has been sent.
"""
