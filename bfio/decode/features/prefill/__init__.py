"""The prefill tier: the stage between the arrival of a request and the pool for decoding.

A request that arrives waits for one of ``workers`` prefill workers, oldest first. Its prefill
takes ``overhead_s + token_time_s·prompt``. Its transfer starts if fewer than ``places`` requests
wait in the pool or are in transfer. Otherwise it blocks its prefill worker until a place is free
(back-pressure). After ``transfer_time_s·prompt`` it is ready, and the policy first sees it. A
ready request that is not sent to a decode worker within ``ttl_s`` loses its cache, and joins the
end of the prefill queue again.
"""
