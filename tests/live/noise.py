#!/usr/bin/env python3
"""How far identical runs differ, beside the goals of a validation; and the tolerance that both make.

    noise.py PACK PACK ... [--full PACK PACK ...]          packs of `scaleproof live` of one schedule; --full: of one whose rate is
                                                           more than the engine can serve, for the throughput

Of each number the noise is twice the standard deviation over the runs, as a share of their mean, the largest of any class: 95 %
of runs lie within it. Where it is wider than the goal, it is the goal. The table goes to standard error, the argument of
`validate --tolerance` to standard output. Standard library only.
"""

import csv
import json
import math
import pathlib
import statistics
import sys

# Shares of the predicted value, by the keys of --tolerance (docs/validation.md).
GOALS = {
    "ttft_p50": 0.10, "ttft_p90": 0.15, "ttft_p95": 0.15,
    "tpot_p50": 0.05, "tpot_p90": 0.10, "tpot_p95": 0.15,
    "e2e_p50": 0.05, "e2e_p90": 0.10, "e2e_p95": 0.15,
    "throughput": 0.03,
}


def percentile(values, share):
    """The nearest rank, as the analyzer takes it."""
    values = sorted(values)
    return values[max(math.ceil(share * len(values)), 1) - 1]


def numbers(pack):
    """Of a run: the key of a tolerance and the class, and the value."""
    found = {}
    with open(pack / "requests.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["status"] == "ok"]
    for name in {row["class"] for row in rows}:
        for metric in ["ttft", "tpot", "e2e"]:
            values = [float(row[f"{metric}_ms"]) for row in rows if row["class"] == name and row[f"{metric}_ms"]]
            for percent in [50, 90, 95]:
                # As `validate`: a percentile needs five values beyond it.
                if values and len(values) * (100 - percent) >= 500:
                    found[f"{metric}_p{percent}", name] = percentile(values, percent / 100)
    report = json.loads((pack / "slo-report.json").read_text())
    found["throughput", "all"] = report["request_throughput_rps"]
    return found


def main():
    words = sys.argv[1:]
    full = words.index("--full") if "--full" in words else len(words)
    groups = [[numbers(pathlib.Path(word)) for word in group] for group in (words[:full], words[full + 1 :])]
    if len(groups[0]) < 2 or len(groups[1]) == 1:
        sys.exit("usage: noise.py PACK PACK ... [--full PACK PACK ...]: expected two packs of each at least")
    tolerance = []
    print(f"| number | goal | noise of {len(groups[0])} identical runs | tolerance |\n|---|---|---|---|", file=sys.stderr)
    for key, goal in GOALS.items():
        # Below what the engine can serve the throughput is that of the arrivals.
        runs = groups[1] if groups[1] and key == "throughput" else groups[0]
        noise = 0.0
        for known in runs[0]:
            values = [run[known] for run in runs if known in run]
            if known[0] == key and len(values) == len(runs):
                noise = max(noise, 2 * statistics.stdev(values) / statistics.mean(values))
        wider = max(goal, math.ceil(1000 * noise) / 1000)
        print(f"| {key} | {goal:.1%} | {noise:.1%} | {wider:.1%} |", file=sys.stderr)
        tolerance.append(f"{key}={wider:.3f}")
        if key == "tpot_p50":
            # The reference point is decode steps: it cannot be steadier.
            tolerance.append(f"drift={wider:.3f}")
    print(",".join(tolerance))


main()
