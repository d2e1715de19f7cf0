"""llama.cpp's own server in this process: `serve.py MODEL.gguf PORT`. Ends at SIGTERM."""

import signal
import sys

import xllamacpp

SLOTS = 4


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.model_alias = {"tiny"}
    params.hostnames, params.port = ["127.0.0.1"], int(sys.argv[2])
    params.n_parallel, params.n_ctx, params.kv_unified = SLOTS, SLOTS * 8192, True
    # Threads wait for one another by spinning: more of them than idle cores bring the server to a halt.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.endpoint_metrics, params.warmup, params.ui = True, False, False
    server = xllamacpp.Server(params)
    print("ready", server.listening_address, flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})


if __name__ == "__main__":
    main()
