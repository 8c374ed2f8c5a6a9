#!/usr/bin/env python3
"""How much `scaleproof live` can send, against `scaleproof emulate` on another core (docs/performance.md).

    tests/live/generator_limits.py --scaleproof target/release/scaleproof [--cores 0 1] [--seconds 10]

Looks for the highest rate at which 99 % of the requests are sent within 5 ms of their time, doubling and then bisecting
it; then holds 1,000 streams in a closed loop, where answers end and requests begin by the hundred at once: these are late by
what it takes to send so many. Prints for each run the rate or clients, how late it sent, the tokens it
read a second, the microseconds of processor time of the whole client a token, and how late the emulator's steps were:
where those are late, the server was the limit and not the client. Wants Linux, and a core for each of the two.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import tempfile
from pathlib import Path

SEND_LAG_P99_MAX_MS = 5.0
FIRST_RATE_RPS = 50
HIGHEST_RATE_RPS = 6400
BISECTIONS = 3
CLIENTS = 1000
REPLICAS = 2
INPUT_TOKENS, OUTPUT_TOKENS = 256, 64

# Steps of 20 ms whatever is in them, and room for everybody: the engine must not be the limit.
PROFILE = """\
profile: roomy
kind: fixture
model: {id: roomy, revision: r1, precision: bf16}
placement: {tp: 1, pp: 1}
scheduler:
  num_blocks: 200000
  block_size: 16
  max_num_batched_tokens: 65536
  max_num_seqs: 4096
  max_model_len: 1024
front_end: {request_ms: 0, prompt_token_us: 0, output_token_ms: 0}
step_time:
  base_us: 20000
  batch_token_knots: [[64, 0], [65536, 0]]
  decode_context_token_us: 0
  prefill_pair_us: 0
  prefill_context_token_us: 0
  row_us: 0
  sampled_row_us: 0
  host: {base_us: 0, row_us: 0}
validity: {batch_tokens: [1, 65536], rows: [1, 4096], context_tokens: [1, 4194304]}
provenance: {method: by hand, sources: [none]}
"""

MANIFEST = """\
cutoff: 2026-01-02
model: {{id: roomy, revision: r1, tokenizer_revision: t1, precision: bf16}}
engine:
  name: roomy
  version: "1.0"
  placement: {{tp: 1, pp: 1, dp: {replicas}, replicas: {replicas}, gpus: {replicas}}}
  prefix_cache: enabled
  speculative_decoding: disabled
  disaggregated_prefill: disabled
client:
  location: here
  streaming: true
  arrival_pattern: poisson
  minimum_duration_seconds: {seconds}
  initial_scheduled_requests: {requests}
  request_schedule_seed: 1
  class_schedule_counts: {{all: {requests}}}
  warmup_seconds: 1
workload:
  - {{name: all, mix: 1, input_tokens: {input}, output_tokens: {output}, request_ttft_cutoff_ms: 500, request_tpot_cutoff_ms: 50}}
acceptance:
  class_slo_attainment_min: 0.95
  min_successful_samples_per_class: 1
  error_rate_max: 0.01
  queue_trend_required: flat
  target_utilization: 0.75
"""


def scenario(folder, requests, seconds):
    """Writes a scenario of so many requests at least."""
    folder.mkdir(parents=True)
    folder.joinpath("profile.yaml").write_text(PROFILE)
    folder.joinpath("scenario.yaml").write_text("profile: profile.yaml\nrouter: {policy: round_robin}\nexperiment: {rates_rps: [50]}\n")
    values = {"replicas": REPLICAS, "requests": requests, "seconds": seconds}
    lengths = {"input": INPUT_TOKENS, "output": OUTPUT_TOKENS}
    folder.joinpath("workload-manifest.yaml").write_text(MANIFEST.format(**values, **lengths))


def pinned(core, command):
    return ["taskset", "-c", str(core), *command]


def run(arguments, load, requests, seconds):
    """One live run against a fresh emulator. Prints its line. Whether it was sent in time, and whether all was answered."""
    with tempfile.TemporaryDirectory() as place:
        place = Path(place)
        scenario(place / "scenario", requests, seconds)
        serve = [arguments.scaleproof, "emulate", str(place / "scenario"), "--port", "0", "--admin-port", "0"]
        emulator = subprocess.Popen(pinned(arguments.cores[0], serve), stdout=subprocess.PIPE, text=True)
        targets = []
        for line in emulator.stdout:
            if line.startswith("replica "):
                targets += ["--target", line.split()[-1]]
            if line.startswith("faults: "):
                break
        pack = str(place / "pack")
        command = [arguments.scaleproof, "live", str(place / "scenario"), *targets, *load, "--out", pack]
        client = subprocess.Popen(
            pinned(arguments.cores[1], command), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        said = client.stderr.read()
        _, status, used = os.wait4(client.pid, 0)
        emulator.send_signal(signal.SIGINT)
        summary = emulator.stdout.read()
        emulator.wait()
        if not Path(pack, "slo-report.json").exists():
            raise SystemExit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}: {said}")
        report = json.loads(Path(pack, "slo-report.json").read_text())
    checks = {check["name"]: check["value"] for check in report["checks"]}
    ok = report["outcomes"]["ok"]
    tokens = sum(of["output_tokens"] for of in report["classes"].values())
    # Those of the warm-up were read too.
    tokens *= 1 + report["warmup_attempts"] / max(1, report["attempted"])
    step_lag = re.search(r"p99 ([0-9.]+) ms", summary)
    print(
        f"{' '.join(load):>18}  {ok:6} of {report['attempted']:6} ok  sent late p99 {checks['send_lag_p99_ms']:7.2f} ms  "
        f"{report['output_throughput_tps']:7.0f} tokens/s  {1e6 * (used.ru_utime + used.ru_stime) / max(1, tokens):5.1f} us/token  "
        f"emulator's steps late p99 {step_lag.group(1) if step_lag else '-'} ms",
        flush=True,
    )
    return checks["send_lag_p99_ms"] <= SEND_LAG_P99_MAX_MS, ok == report["attempted"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scaleproof", required=True)
    parser.add_argument("--cores", nargs=2, type=int, default=[0, 1], help="of the emulator, and of the client")
    parser.add_argument("--seconds", type=int, default=10, help="of each run")
    arguments = parser.parse_args()
    print(f"load average before: {' '.join(f'{load:.1f}' for load in os.getloadavg())}")

    def at(rate):
        return all(run(arguments, ["--rps", str(rate)], 100, arguments.seconds))

    good, bad, rate = 0, None, FIRST_RATE_RPS
    while bad is None and rate <= HIGHEST_RATE_RPS:
        if at(rate):
            good, rate = rate, 2 * rate
        else:
            bad = rate
    for _ in range(BISECTIONS if bad and good else 0):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if at(middle) else (good, middle)
    print(f"highest rate sent in time: {good} requests/s")
    # Ten answers a client.
    _, held = run(arguments, ["--concurrency", str(CLIENTS)], 10 * CLIENTS, 0)
    print(f"{CLIENTS} streams: {'held' if held else 'not held'}")
    print(f"load average after: {' '.join(f'{load:.1f}' for load in os.getloadavg())}")


if __name__ == "__main__":
    main()
