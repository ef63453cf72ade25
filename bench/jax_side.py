# SPDX-License-Identifier: Apache-2.0
"""JAX's half of the benchmark, in a process and a venv of its own.

Reads one JSON request per line and answers with one JSON line, so that the caller can interleave
its measurements with these.
  {"op": "a + b", "jit": false}  ->  {"us": 5.3}
  {"step": 5}                    ->  {"ms": 12.1, "losses": [...]}     5 training steps
"""

import json
import sys
import time

import jax
import llama_jax
import small_ops


def main() -> None:
    jax.config.update("jax_platforms", "cpu")
    cases = {jit: small_ops.jax_cases(jit) for jit in (False, True)}
    calls: dict[tuple[str, bool], int] = {}
    trainer = None
    print(json.dumps({"version": jax.__version__}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        if "op" in request:
            key = request["op"], request["jit"]
            ops, wait = cases[request["jit"]]
            us, calls[key] = small_ops.measure(ops[request["op"]], wait, calls.get(key, 0))
            answer = {"us": us}
        else:
            if trainer is None:
                trainer = llama_jax.Trainer()
                trainer.steps(2)
            began = time.perf_counter()
            losses = trainer.steps(request["step"])
            answer = {"ms": (time.perf_counter() - began) / request["step"] * 1e3, "losses": losses}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
