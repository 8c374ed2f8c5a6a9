#!/usr/bin/env python3
"""A real Prometheus (Debian's package) over emulated replicas, one fault after the other: which alert fires, and when.

    tests/live/prometheus.py PROGRAM [FOLDER [N,N,...]]

PROGRAM is scaleproof, FOLDER (new) keeps packs and logs, N are the faults to make, from 0 on, instead of all. The worked
example's fleet runs at twice its speed and 40 requests/s, the rules every second. Prometheus knows its targets from a file, as
from a service discovery. Prints a table. Exit 0 if in each run the expected alert fired while the fault lasted, and no other;
what fires when it is over is shown too. About eight minutes.
"""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCALE, RATE, INTERVAL_S = 0.5, 40, 1
WARM_UP_S, INJECTED_S, LASTS_S, REQUESTS = 14, 26, 20, 1300
# What is done to replica 1: name, --fault, what the emulator is told, the alert that is expected, further options. The five
# that an operator must be able to tell apart, then the other ways of two of them, then those that no router notices.
FAULTS = [
    ("replica killed, back after 20 s", "kill", {"fault": "stop", "start_up_seconds": 40}, "ReplicaDown", []),
    # Three replicas do not carry it: their queues grow until the fourth, which is ordered early in the run, serves.
    ("cold start of a replica", "cold-start", {"fault": "start", "start_up_seconds": 40}, "QueueSaturated",
     ["--rate", "46", "--at", "16"]),
    ("KV cache cut by 80 %", "kv-cut", {"fault": "kv_cut", "share": 0.8}, "KvPressure", []),
    ("clients give up 80 % of what is in flight", "cancellations", None, "ClientsGiveUp", ["--share", "0.8"]),
    ("300 ms longer to one replica", "link", {"fault": "latency", "request_ms": 600}, "NetworkSlow", []),
    ("a fifth of one replica's answers break", "link", {"fault": "drop", "after_tokens": 1, "probability": 0.2},
     "ConnectionsFail", []),
    ("replica hangs, its server answers", "hang", {"fault": "stall", "health": True}, "ReplicaStuck", []),
    ("steps of one replica take four times as long", "slow", {"fault": "slow", "factor": 4}, "ReplicaSlow", []),
]
# In seconds of the wall clock.
RESILIENCE = """
resilience:
  circuit_breaker: {failures: 10, open_seconds: 6, successes: 3}
  health_check: {interval_seconds: 2, timeout_seconds: 1}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def read(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


def write(path, text):
    """Whole or not at all: Prometheus watches some of these."""
    with open(path + ".new", "w") as file:
        file.write(text)
    os.rename(path + ".new", path)


def write_scenario(folder):
    os.makedirs(folder)
    manifest = read("scenarios/tp2-dp4/workload-manifest.yaml")
    interactive, long_context = REQUESTS * 7 // 10, REQUESTS * 2 // 10
    for old, new in [
        (r"initial_scheduled_requests: \d+", f"initial_scheduled_requests: {REQUESTS}"),
        (r"class_schedule_counts: \{.*\}", f"class_schedule_counts: {{interactive: {interactive}, long_context: "
         f"{long_context}, generation_heavy: {REQUESTS - interactive - long_context}}}"),
        (r"minimum_duration_seconds: \d+", "minimum_duration_seconds: 0"),
        (r"min_successful_samples_per_class: \d+", "min_successful_samples_per_class: 50"),
        (r"warmup_seconds: \d+", f"warmup_seconds: {WARM_UP_S}"),
    ]:
        manifest, count = re.subn(old, new, manifest)
        assert count == 1, old
    scenario = read("scenarios/tp2-dp4/scenario.yaml").replace("../..", ROOT)
    for name, text in [("workload-manifest.yaml", manifest), ("scenario.yaml", scenario + RESILIENCE)]:
        write(os.path.join(folder, name), text)


class Fleet:
    """The emulated replicas, and the file from which Prometheus knows them."""

    def __init__(self, program, folder, log):
        self.process = subprocess.Popen(
            [program, "emulate", os.path.join(folder, "scenario"), "--port", "0", "--admin-port", "0", "--time-scale",
             str(SCALE)], stdout=subprocess.PIPE, stderr=log, text=True)
        self.file, self.targets, self.admin = os.path.join(folder, "targets.json"), [], None
        for line in self.process.stdout:
            if line.startswith("replica "):
                self.targets.append(line.split("http://")[1].strip())
            if line.startswith("faults: "):
                self.admin = line.split("http://")[1].strip()
                break
        if self.admin is None:
            raise SystemExit("the emulator did not start")
        self.know(range(len(self.targets)))

    def groups(self, replicas):
        return json.dumps([{"targets": [self.targets[n]], "labels": {"replica": str(n)}} for n in replicas])

    def know(self, replicas):
        write(self.file, self.groups(replicas))

    def take_away(self, replica):
        """As an autoscaler has it before it orders one: neither there nor known."""
        self.know(n for n in range(len(self.targets)) if n != replica)
        time.sleep(3 * INTERVAL_S)
        self.tell(replica, {"fault": "stop"})

    def tell(self, replica, fault):
        urllib.request.urlopen(urllib.request.Request(
            f"http://{self.admin}/replicas/{replica}/fault", json.dumps(fault).encode(), {"content-type": "application/json"}))

    def command(self, folder, name, replica, fault):
        """A shell command that makes a fault. Once the replica of a cold start serves, Prometheus gets to know it."""
        path = os.path.join(folder, name)
        text = (f"import os, time, urllib.request as u\nu.urlopen(u.Request('http://{self.admin}/replicas/{replica}/fault', "
                f"{json.dumps(fault)!r}.encode(), {{'content-type': 'application/json'}}))\n")
        if fault["fault"] == "start":
            text += (f"while True:\n    try:\n        u.urlopen('http://{self.targets[replica]}/health', timeout=1)\n"
                     f"        break\n    except OSError:\n        time.sleep(0.2)\n"
                     f"open({self.file + '.new'!r}, 'w').write({self.groups(range(len(self.targets)))!r})\n"
                     f"os.rename({self.file + '.new'!r}, {self.file!r})\n")
        write(path, text)
        return f"{sys.executable} {path}"


def start_prometheus(program, folder, fleet, client_port, sink_port, log):
    rules = os.path.join(folder, "observability")
    subprocess.run([program, "observability", "--interval-s", str(INTERVAL_S), "--out", rules],
                   check=True, stdout=subprocess.DEVNULL)
    config = f"""global: {{scrape_interval: {INTERVAL_S}s, evaluation_interval: {INTERVAL_S}s}}
rule_files: [{rules}/alerts/common.yaml, {rules}/alerts/vllm.yaml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{sink_port}']}}]}}]}}
scrape_configs:
  - job_name: engine
    file_sd_configs: [{{files: ['{fleet.file}'], refresh_interval: {INTERVAL_S}s}}]
  - job_name: client
    static_configs: [{{targets: ['127.0.0.1:{client_port}']}}]
"""
    path = os.path.join(folder, "prometheus.yaml")
    write(path, config)
    subprocess.run(["promtool", "check", "config", path], check=True, stdout=subprocess.DEVNULL)
    port = free_port()
    process = subprocess.Popen(
        ["prometheus", f"--config.file={path}", f"--storage.tsdb.path={folder}/tsdb",
         f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)
    for _ in range(100):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=1)
            return process
        except OSError:
            time.sleep(0.2)
    process.kill()
    raise SystemExit("prometheus did not start: see its log")


def test(program, folder, n, fleet, ports):
    name, kind, fault, expected, options = FAULTS[n]
    pack = os.path.join(folder, f"pack-{n}")
    arguments = {"--rate": str(RATE), "--at": str(INJECTED_S), "--fault": kind, "--alert-port": str(ports[1]),
                 "--metrics-port": str(ports[0]), "--out": pack, **dict(zip(options[::2], options[1::2]))}
    if fault is not None:
        arguments |= {"--replica": "1", "--inject": fleet.command(folder, f"inject-{n}.py", 1, fault)}
    if kind not in ("kill", "cold-start", "cancellations"):
        arguments |= {"--for": str(LASTS_S), "--restore": fleet.command(folder, f"heal-{n}.py", 1, {"fault": "heal"})}
    if kind == "cold-start":
        fleet.take_away(1)
    words = [program, "failure-test", os.path.join(folder, "scenario"), "--live", *sum(map(list, arguments.items()), [])]
    for target in fleet.targets:
        words += ["--target", f"http://{target}"]
    run = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if not os.path.exists(os.path.join(pack, "failure-test.json")):
        raise SystemExit(run.stderr)
    with open(os.path.join(pack, "failure-test.json")) as file:
        report = json.load(file)
    with open(os.path.join(pack, "slo-report.json")) as file:
        lag = next(check["value"] for check in json.load(file)["checks"] if check["name"] == "send_lag_p99_ms")
    fired = [(a["name"], a["replica"], a["at_s"] - report["fault"]["at_s"]) for a in report["alarms"]]
    words = [f"{alert}{'' if replica is None else f' of replica {replica}'} after {after:.1f} s"
             for alert, replica, after in fired]
    right = {alert for alert, _, after in fired if 0 <= after <= LASTS_S} == {expected}
    print(f"| {name} | {expected} | {'; '.join(words) or 'none'} | {'yes' if right else 'NO'} | {lag:.1f} |", flush=True)
    return right


def main():
    program = os.path.abspath(sys.argv[1])
    folder = sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="scaleproof-prometheus-")
    folder = os.path.abspath(folder)
    chosen = [int(n) for n in sys.argv[3].split(",")] if len(sys.argv) > 3 else range(len(FAULTS))
    os.makedirs(folder, exist_ok=True)
    write_scenario(os.path.join(folder, "scenario"))
    ports = free_port(), free_port()
    with open(os.path.join(folder, "log"), "w") as log:
        fleet = Fleet(program, folder, log)
        prometheus = None
        try:
            prometheus = start_prometheus(program, folder, fleet, *ports, log)
            print("| fault | expected | fired, after the injection | as expected | send lag P99, ms |\n|---|---|---|---|---|")
            results = [test(program, folder, n, fleet, ports) for n in chosen]
        finally:
            for process in (prometheus, fleet.process):
                if process is not None:
                    process.terminate()
                    process.wait()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
