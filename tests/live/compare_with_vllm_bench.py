#!/usr/bin/env python3
"""`scaleproof live` and `vllm bench serve` on one engine, in alternating pairs; see docs/live-engines.md.

usage: compare_with_vllm_bench.py --root DIR --scaleproof PROGRAM --out DIR [--url URL] [--rps R] [--requests N] ...

Both send N requests of the same lengths at the same mean rate in Poisson gaps, each pair with a seed of its own, to an empty
prefix cache. Of each pair the ratio of the mean TTFTs and of the mean TPOTs is taken (scaleproof over vllm bench). Printed are
the geometric mean of the ratios, its 95 % interval (Student's t over the logarithms), and how far five runs of the same tool
lie apart: largest minus smallest mean over their mean. Exit 1 if an interval lies neither inside 3 % nor inside that spread.
Beside them stand the engine's own means of the same run, from its histograms: where these differ too, the tools put another load
on the engine or on its machine.
Standard library only; the engine must be up (serve.sh, on another core).
"""

import argparse
import csv
import json
import math
import pathlib
import statistics
import subprocess
import sys
import urllib.request

# Two-sided 95 % points of Student's t by degrees of freedom.
STUDENT = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}
# The ratio that counts as equal, if runs of one tool do not lie further apart.
CLOSE = 0.03
# Requests before the measured ones.
WARMUP = 10

MANIFEST = """\
cutoff: 2026-11-30
model: {{id: tiny-random-llama, revision: make-model-tiny-r1, tokenizer_revision: make-model-tiny-r1, precision: fp32}}
engine:
  name: vllm
  version: 0.32.0+cpu
  placement: {{tp: 1, pp: 1, dp: 1, replicas: 1, gpus: 1}}
  prefix_cache: enabled
  speculative_decoding: disabled
  disaggregated_prefill: disabled
client:
  location: the same machine, another core
  streaming: true
  arrival_pattern: poisson
  minimum_duration_seconds: 0
  initial_scheduled_requests: {requests}
  request_schedule_seed: {seed}
  class_schedule_counts: {{all: {requests}}}
  warmup_seconds: {warmup_s}
workload:
  - {{name: all, mix: 1, input_tokens: {input}, output_tokens: {output}, request_ttft_cutoff_ms: 100000, request_tpot_cutoff_ms: 100000}}
acceptance:
  class_slo_attainment_min: 0
  min_successful_samples_per_class: 1
  error_rate_max: 0
  queue_trend_required: flat
  target_utilization: 0.75
"""


def arguments():
    given = argparse.ArgumentParser(description="scaleproof live against vllm bench serve, in alternating pairs")
    given.add_argument("--root", required=True, help="where setup_vllm.sh installed the engine")
    given.add_argument("--scaleproof", required=True, help="the program")
    given.add_argument("--out", required=True, help="a new directory for what both write")
    given.add_argument("--url", default="http://127.0.0.1:8100")
    given.add_argument("--model", default="tiny", help="the model's directory under ROOT/models")
    given.add_argument("--core", default="1", help="the core that both clients run on")
    given.add_argument("--rps", type=float, default=2.0)
    given.add_argument("--requests", type=int, default=120)
    given.add_argument("--input", type=int, default=128)
    given.add_argument("--output", type=int, default=32)
    given.add_argument("--pairs", type=int, default=5, choices=range(2, 11))
    return given.parse_args()


def run(command, log):
    with open(log, "w", encoding="utf8") as out:
        ended = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT, check=False)
    return ended.returncode


def empty_cache(url):
    urllib.request.urlopen(urllib.request.Request(url + "/reset_prefix_cache", method="POST")).read()


def engine_sums(url):
    """Sum in milliseconds and count of the engine's own first-token times and gaps between tokens."""
    text = urllib.request.urlopen(url + "/metrics").read().decode()
    wanted = ("vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds")
    of = {line.split("{")[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(wanted)}
    return [(1e3 * of[name + "_sum"], of[name + "_count"]) for name in wanted]


def vllm_bench(given, out, seed):
    """Mean TTFT and TPOT in milliseconds."""
    root = pathlib.Path(given.root)
    command = ["taskset", "-c", given.core, root / "venv/bin/vllm", "bench", "serve", "--backend", "openai"]
    command += ["--base-url", given.url, "--endpoint", "/v1/completions", "--model", "m"]
    command += ["--tokenizer", root / "models" / given.model, "--dataset-name", "random"]
    command += ["--random-input-len", str(given.input), "--random-output-len", str(given.output)]
    command += ["--num-prompts", str(given.requests), "--request-rate", str(given.rps), "--ignore-eos"]
    command += ["--seed", str(seed), "--num-warmups", str(WARMUP), "--disable-tqdm"]
    command += ["--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,95,99"]
    command += ["--save-result", "--save-detailed", "--result-dir", out, "--result-filename", "bench.json"]
    if run(command, out / "bench.log") != 0:
        sys.exit(f"vllm bench serve failed: see {out / 'bench.log'}")
    result = json.loads((out / "bench.json").read_text())
    if result["completed"] != given.requests:
        sys.exit(f"vllm bench serve completed {result['completed']} of {given.requests} requests")
    return result["mean_ttft_ms"], result["mean_tpot_ms"]


def scaleproof_live(given, out, seed):
    """Mean TTFT and TPOT in milliseconds."""
    scenario = out / "scenario"
    scenario.mkdir()
    profile = pathlib.Path(__file__).resolve().parents[2] / "models/fixture/tiny-llama-vllm-cpu.yaml"
    manifest = MANIFEST.format(
        requests=given.requests, seed=seed, warmup_s=WARMUP / given.rps, input=given.input, output=given.output
    )
    (scenario / "workload-manifest.yaml").write_text(manifest)
    (scenario / "scenario.yaml").write_text(
        f"profile: {profile}\nrouter: {{policy: least_outstanding}}\nexperiment: {{rates_rps: [{given.rps}], cache: cold}}\n"
    )
    pack = out / "pack"
    command = ["taskset", "-c", given.core, given.scaleproof, "live", scenario, "--target", given.url]
    command += ["--rps", str(given.rps), "--cache", "cold", "--out", pack]
    code = run(command, out / "live.log")
    written = pack / "slo-report.json"
    report = json.loads(written.read_text()) if written.exists() else {}
    if report.get("invalid") != []:
        sys.exit(f"scaleproof live ended with exit {code}, invalid: {report.get('invalid')}: see {out / 'live.log'}")
    with open(pack / "requests.csv", encoding="utf8") as file:
        rows = [row for row in csv.DictReader(file) if row["request_id"].startswith("r-")]
    if len(rows) != given.requests or any(row["status"] != "ok" for row in rows):
        sys.exit(f"scaleproof live: not all of {given.requests} requests are ok: see {pack}")
    return tuple(statistics.mean(float(row[column]) for row in rows) for column in ("ttft_ms", "tpot_ms"))


def interval(ratios):
    """Geometric mean and its 95 % interval."""
    logs = [math.log(ratio) for ratio in ratios]
    mean = statistics.mean(logs)
    half = STUDENT[len(logs) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def spread(means):
    return (max(means) - min(means)) / statistics.mean(means)


def main():
    given = arguments()
    out = pathlib.Path(given.out).resolve()
    out.mkdir(parents=True)
    tools = {"scaleproof live": scaleproof_live, "vllm bench serve": vllm_bench}
    means = {name: [] for name in tools}
    for pair in range(given.pairs):
        # Who begins alternates, so that a slow drift of the machine favours nobody.
        order = list(tools.items())
        for name, measure in order if pair % 2 == 0 else reversed(order):
            place = out / f"{pair + 1}-{name.split()[0]}"
            place.mkdir()
            empty_cache(given.url)
            before = engine_sums(given.url)
            measured = measure(given, place, 1000 + pair)
            own = [(b[0] - a[0]) / (b[1] - a[1]) for a, b in zip(before, engine_sums(given.url))]
            means[name].append(measured)
            print(
                f"pair {pair + 1}, {name}: mean TTFT {measured[0]:.2f} ms (the engine says {own[0]:.2f}), "
                f"mean TPOT {measured[1]:.3f} ms (its gaps {own[1]:.3f})",
                flush=True,
            )
    close = True
    ours, theirs = means.values()
    for metric, name in enumerate(("mean TTFT", "mean TPOT")):
        ratio, low, high = interval([a[metric] / b[metric] for a, b in zip(ours, theirs)])
        spreads = {tool: spread([run[metric] for run in runs]) for tool, runs in means.items()}
        allowed = max(CLOSE, *spreads.values())
        inside = 1 - allowed <= low and high <= 1 + allowed
        close &= inside
        apart = ", ".join(f"{tool} {100 * value:.1f} %" for tool, value in spreads.items())
        print(
            f"{name}: ratio {ratio:.4f}, 95 % interval {low:.4f} to {high:.4f}; {given.pairs} runs of one tool lie apart by "
            f"{apart}; {'inside' if inside else 'OUTSIDE'} {100 * allowed:.1f} %"
        )
    sys.exit(0 if close else 1)


if __name__ == "__main__":
    main()
