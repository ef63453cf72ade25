# SPDX-License-Identifier: Apache-2.0
"""Benchmarks against torch CPU eager and JAX, all in one run: prints a Markdown table.

Every figure is the median of rounds in which all contenders take turns, so that a ratio compares
like with like on a busy machine.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import llama_torch
import small_ops
import torch

import torch_tpu

HERE = pathlib.Path(__file__).parent


class Jax:
    """The JAX process; `ask` sends a request and waits for its answer."""

    def __init__(self, python: str):
        self.process = subprocess.Popen(
            [python, str(HERE / "jax_side.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        )
        self.version = self._read()["version"]

    def _read(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("bench: the JAX process ended. Try: rm -r out/jax-venv; make bench")
        return json.loads(line)

    def ask(self, **request) -> dict:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return self._read()

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=30)


def progress(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def python_ops(jax: Jax, rounds: int) -> tuple[dict, dict]:
    """Microseconds by op, then by contender; and the same for views (torch only)."""
    sides = {device: small_ops.torch_cases(device) for device in ("cpu", "tpu")}
    calls: dict[tuple[str, str], int] = {}
    samples: dict[str, dict[str, list[float]]] = {}

    def add(name, contender, us):
        samples.setdefault(name, {}).setdefault(contender, []).append(us)

    with torch.no_grad():
        for round_ in range(rounds):
            progress(f"small ops, round {round_ + 1} of {rounds}")
            for kind in (0, 1):
                for name in sides["cpu"][kind]:
                    for device, side in sides.items():
                        key = device, name
                        us, calls[key] = small_ops.measure(
                            side[kind][name], side[2], calls.get(key, 0)
                        )
                        add(name, device, us)
                    if kind == 0:
                        add(name, "jax", jax.ask(op=name, jit=False)["us"])
                        add(name, "jit", jax.ask(op=name, jit=True)["us"])
    medians = {
        name: {contender: statistics.median(values) for contender, values in by.items()}
        for name, by in samples.items()
    }
    views = set(sides["cpu"][1])
    return (
        {name: by for name, by in medians.items() if name not in views},
        {name: by for name, by in medians.items() if name in views},
    )


def from_cpp(execute: str, rounds: int) -> tuple[float, float]:
    """Microseconds of PJRT execute alone, and of C++ at::add on the device, both 4x4 float32."""
    plugin = torch_tpu._C._runtime_info()["plugin"]
    floor, adds = [], []
    a, b = torch.randn(4, 4).to("tpu"), torch.randn(4, 4).to("tpu")
    torch_tpu._C._bench_add(a, b, 1000)
    for _ in range(rounds):
        done = subprocess.run([execute, plugin, "5"], capture_output=True, text=True, check=True)
        floor.append(float(done.stdout))
        adds.append(torch_tpu._C._bench_add(a, b, 10_000) * 1e6)
    return statistics.median(floor), statistics.median(adds)


def training(jax: Jax, rounds: int, steps: int = 5) -> dict[str, float]:
    """Milliseconds per training step of the tiny Llama."""
    trainers = {device: llama_torch.Trainer(device) for device in ("cpu", "tpu")}
    samples: dict[str, list[float]] = {"cpu": [], "tpu": [], "jit": []}
    first = {}
    for device, trainer in trainers.items():
        began = time.perf_counter()
        trainer.steps(1)
        first[device] = (time.perf_counter() - began) * 1e3
        trainer.steps(2)
    torch.tpu.reset_metrics()
    for round_ in range(rounds):
        progress(f"Llama training step, round {round_ + 1} of {rounds}")
        for device, trainer in trainers.items():
            began = time.perf_counter()
            trainer.steps(steps)
            samples[device].append((time.perf_counter() - began) / steps * 1e3)
        samples["jit"].append(jax.ask(step=steps)["ms"])
    if fallbacks := torch.tpu.metrics()["fallbacks"]:
        raise SystemExit(f"bench: ops fell back to the CPU: {fallbacks}")
    medians = {name: statistics.median(values) for name, values in samples.items()}
    return medians | {"first": first["tpu"], "compiles": torch.tpu.metrics()["compiles"]}


def verdict(value: float, target: float) -> str:
    return f"{value:.2f} (target {target:g}: {'met' if value <= target else 'missed'})"


def report(jax: Jax, execute: str, rounds: int) -> str:
    ops, views = python_ops(jax, rounds)
    floor, add = from_cpp(execute, max(3, rounds // 3))
    step = training(jax, max(3, rounds // 3))
    lines = [
        f"# Benchmarks ({torch.tpu.get_device_name()}; torch {torch.__version__}, "
        f"JAX {jax.version}, {os.cpu_count()} cores, {platform.machine()})",
        "",
        "## Small ops from Python, microseconds per call",
        "",
        "| op | torch cpu | torch tpu | JAX eager | JAX jit | tpu / cpu | tpu / JAX eager |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, us in ops.items():
        lines.append(
            f"| `{name}` | {us['cpu']:.2f} | {us['tpu']:.2f} | {us['jax']:.1f} | {us['jit']:.1f} "
            f"| {us['tpu'] / us['cpu']:.2f} | {us['tpu'] / us['jax']:.2f} |"
        )
    means = {
        other: statistics.geometric_mean(us["tpu"] / us[other] for us in ops.values())
        for other in ("cpu", "jax", "jit")
    }
    ratios = [us["tpu"] / us["cpu"] for us in views.values()]
    lines += [
        "",
        f"Geometric mean of the ten: tpu / cpu {verdict(means['cpu'], 3.5)}, "
        f"tpu / JAX eager {verdict(means['jax'], 0.5)}, tpu / JAX jit {means['jit']:.2f}.",
        "",
        "## Views from Python, microseconds per call",
        "",
        "| view | torch cpu | torch tpu | tpu / cpu |",
        "|---|---|---|---|",
        *(
            f"| `{name}` | {us['cpu']:.2f} | {us['tpu']:.2f} | {us['tpu'] / us['cpu']:.2f} |"
            for name, us in views.items()
        ),
        "",
        f"Geometric mean: {verdict(statistics.geometric_mean(ratios), 1.5)}.",
        "",
        "## From C++, 4x4 float32 add",
        "",
        f"PJRT execute alone {floor:.2f} us, `at::add` {add:.2f} us: "
        f"{verdict(add - floor, 1.0)} us above.",
        "",
        "## Training step of a tiny Llama (forward, backward, AdamW), milliseconds",
        "",
        "| torch cpu | torch tpu, strict | JAX jit | tpu / cpu | tpu / JAX jit |",
        "|---|---|---|---|---|",
        f"| {step['cpu']:.1f} | {step['tpu']:.1f} | {step['jit']:.1f} "
        f"| {step['tpu'] / step['cpu']:.2f} | {step['tpu'] / step['jit']:.2f} |",
        "",
        f"First step on tpu {step['first'] / 1e3:.1f} s; compiles after the third step: "
        f"{step['compiles']:.0f}.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jax-python", required=True, help="a Python with jax")
    parser.add_argument("--execute", default="build/pjrt_execute", help="the C++ benchmark")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out/bench.md"))
    arguments = parser.parse_args()
    jax = Jax(arguments.jax_python)
    text = report(jax, arguments.execute, arguments.rounds)
    jax.close()
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text)
    print(text)
    print(f"written to {arguments.out}")


if __name__ == "__main__":
    main()
