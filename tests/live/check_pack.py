#!/usr/bin/env python3
"""Whether a live pack is what a live pack must be; see docs/live-engines.md. Prints a line a pack, exit 1 if one is not.

usage: check_pack.py cold|warm PACK...
"""

import csv
import json
import pathlib
import sys

FILES = ["workload-manifest.yaml", "requests.csv", "slo-report.json", "timeline.csv", "report.html"]
# Hits of a warm run against those scheduled, relative: the first requests of a group may come before its blocks are full.
HITS_APART = 0.05


def rows_of(path):
    with open(path, encoding="utf8") as file:
        return list(csv.DictReader(file))


def faults(pack, cache):
    missing = [name for name in FILES if not (pack / name).is_file()]
    if missing:
        return [f"no {', '.join(missing)}"], ""
    report = json.loads((pack / "slo-report.json").read_text())
    rows = [row for row in rows_of(pack / "requests.csv") if row["request_id"].startswith("r-")]
    timeline = rows_of(pack / "timeline.csv")
    ok = [row for row in rows if row["status"] == "ok"]
    found = [f"invalid: {why}" for why in report["invalid"]]

    def expect(holds, text):
        if not holds:
            found.append(text)

    expect(report["origin"] == "live" and report["complete"], "not a whole live run")
    expect(len(rows) == report["attempted"], f"{len(rows)} rows, {report['attempted']} attempts")
    expect(len({row["request_id"] for row in rows}) == len(rows), "a request has two rows")
    expect(len(ok) == len(rows), f"{len(rows) - len(ok)} requests failed")
    wrong = [row for row in ok if row["usage_input_tokens"] != row["input_tokens"]]
    expect(not wrong, f"{len(wrong)} prompts have another length by the server's count")
    wrong = [row for row in ok if row["output_tokens"] != row["requested_tokens"]]
    expect(not wrong, f"{len(wrong)} answers have another length than asked for")
    expect(len(timeline) >= 2, "no timeline")
    queries = hits = 0
    if timeline:
        queries, hits = (int(timeline[-1][name]) - int(timeline[0][name]) for name in ("prefix_queries", "prefix_hits"))
    expect(queries > 0, "no prefix look-ups in the timeline")
    share = hits / max(queries, 1)
    if cache == "cold":
        expect(share < 0.01, f"a cold run with {100 * share:.2f} % hits")
    else:
        scheduled = sum(int(row["cached_tokens"] or 0) for row in ok) / max(sum(int(row["input_tokens"]) for row in ok), 1)
        expect(share > 0 and abs(share - scheduled) <= HITS_APART * share, f"{100 * share:.2f} % hits by the counters, {100 * scheduled:.2f} % by usage")
    says = f"{len(rows)} attempts, {len(ok)} ok, hits {100 * share:.2f} %, weakest attainment "
    attainments = [entry["attainment"] for entry in report["classes"].values() if entry["attainment"] is not None]
    return found, says + f"{100 * min(attainments, default=0):.1f} %"


def main():
    cache, packs = sys.argv[1], [pathlib.Path(name) for name in sys.argv[2:]]
    if cache not in ("cold", "warm") or not packs:
        sys.exit(__doc__)
    good = True
    for pack in packs:
        found, says = faults(pack, cache)
        print(f"{pack}: {says}{'' if found else ': good'}")
        for fault in found:
            print(f"  {fault}")
        good &= not found
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
