#!/usr/bin/env python3
"""Whether an engine is slower after a pause: requests one at a time, with pauses between them.

    idle.py URL [ROUNDS]           URL of a vLLM, for example http://127.0.0.1:8100; ROUNDS 3

Prints medians over the rounds, for prompts of 64 and of 512 tokens. Standard library only. About a minute and a half.
"""

import json
import random
import statistics
import sys
import time
import urllib.request

PAUSES_S = [0.0, 0.3, 1.0]
# Tokens of the prompt, and requests a round.
PROMPTS = [(64, 12), (512, 4)]
OUTPUT_TOKENS = 16


def request(url, prompt_tokens):
    """Milliseconds to the first token, and from each to the next."""
    body = dict(
        model="m", prompt=[random.randrange(4, 4000) for _ in range(prompt_tokens)], max_tokens=OUTPUT_TOKENS,
        ignore_eos=True, temperature=0, stream=True,
    )
    sent = time.perf_counter()
    answer = urllib.request.urlopen(
        urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    )
    times = [time.perf_counter() for line in answer if line.startswith(b"data: {")]
    return 1e3 * (times[0] - sent), 1e3 * (times[-1] - times[0]) / (len(times) - 1)


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: idle.py URL [ROUNDS]")
    url, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 3
    found = {}
    for _ in range(rounds):
        for pause_s in PAUSES_S:
            for prompt_tokens, count in PROMPTS:
                for _ in range(count):
                    time.sleep(pause_s)
                    found.setdefault((pause_s, prompt_tokens), []).append(request(url, prompt_tokens))
    print("| pause, s | prompt | TTFT p50, ms | TPOT p50, ms |\n|---|---|---|---|")
    for (pause_s, prompt_tokens), values in found.items():
        ttft, tpot = (statistics.median(column) for column in zip(*values))
        print(f"| {pause_s} | {prompt_tokens} | {ttft:.1f} | {tpot:.2f} |")


main()
