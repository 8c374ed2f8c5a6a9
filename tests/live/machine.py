#!/usr/bin/env python3
"""Is this machine's memory steady? Times products of a matrix and a vector whose weights lie in the core's own cache, in the cache
that cores (and neighbours on the host) share, and in memory: what a step of a small model on a CPU is made of.

    taskset -c 0 DIR/venv/bin/python tests/live/machine.py [SECONDS]

DIR: of setup_vllm.sh, for torch. SECONDS (60) are shared by the sizes. Prints a table; the spread is that of a model's steps.
"""

import sys
import time

import torch

MEGABYTES = [1, 4, 20, 117, 256]
COLUMNS = 1024


def times_ms(megabytes, seconds):
    rows = megabytes * 1024 * 1024 // 4 // COLUMNS
    weights, vector = torch.randn(rows, COLUMNS), torch.randn(COLUMNS)
    repeats = max(1, 600 // megabytes)
    found, until = [], time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        for _ in range(repeats):
            torch.mv(weights, vector)
        found.append(1e3 * (time.perf_counter() - began) / repeats)
        time.sleep(0.1)
    return sorted(found)


def main():
    torch.set_num_threads(1)
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60
    print("| weights, MB | median ms | 5th to 95th percentile of the median |\n|---|---|---|")
    for megabytes in MEGABYTES:
        found = times_ms(megabytes, seconds / len(MEGABYTES))
        median, low, high = (found[int(share * (len(found) - 1))] for share in (0.5, 0.05, 0.95))
        print(f"| {megabytes} | {median:.3f} | {100 * low / median:.0f} % to {100 * high / median:.0f} % |", flush=True)


main()
