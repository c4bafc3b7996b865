"""The prefill tier: what stands between the arrival of a request and the pool it is decoded from.

A request that arrives waits for one of ``workers`` prefill workers, oldest first, and takes
``overhead_s + token_time_s·prompt`` there. It is handed on if fewer than ``places`` requests wait
to be decoded or are on their way there; otherwise it keeps its prefill worker until one has left
(back-pressure). After ``transfer_time_s·prompt`` it is ready, which is when the policy first sees
it. A request that is ready and not sent to a decode worker within ``ttl_s`` loses its cache, and
goes through prefill again, behind all others.
"""
