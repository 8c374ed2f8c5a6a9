#!/usr/bin/env python3
"""A real Prometheus (Debian's package) over emulated replicas, each fault injected in turn: which alert fires, and when.

    tests/live/prometheus.py PROGRAM [FOLDER [N,N,...]]

PROGRAM is scaleproof, FOLDER (new) keeps packs and logs, N are the faults to inject, from 0 on, instead of all. The worked example's fleet runs at twice its speed and 40
requests/s, the rules every second. Exit 0 if in each run the expected alert fired while the fault
lasted, and no other; what fires when it is over is shown too.
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
# Name, --fault, what the emulator is told, and the alert that is expected. The kill comes last: after it, rules that
# want a whole fleet hold nothing for a while.
FAULTS = [
    ("replica hangs, its server answers", "hang", {"fault": "stall", "health": True}, "ReplicaStuck"),
    ("KV cache cut by 80 %", "kv-cut", {"fault": "kv_cut", "share": 0.8}, "KvPressure"),
    ("300 ms longer to one replica", "link", {"fault": "latency", "request_ms": 600}, "NetworkSlow"),
    ("a fifth of one replica's answers break", "link", {"fault": "drop", "after_tokens": 1, "probability": 0.2},
     "ConnectionsFail"),
    ("replica killed, back after 20 s", "kill", {"fault": "stop", "start_up_seconds": 40}, "ReplicaDown"),
]
# In seconds of the wall clock.
RESILIENCE = """
resilience:
  circuit_breaker: {failures: 10, open_seconds: 6, successes: 3}
  health_check: {interval_seconds: 30, timeout_seconds: 5}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def read(path):
    with open(os.path.join(ROOT, path)) as file:
        return file.read()


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
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)


def start_emulator(program, scenario, log):
    process = subprocess.Popen(
        [program, "emulate", scenario, "--port", "0", "--admin-port", "0", "--time-scale", str(SCALE)],
        stdout=subprocess.PIPE, stderr=log, text=True)
    targets = []
    for line in process.stdout:
        if line.startswith("replica "):
            targets.append(line.split("http://")[1].strip())
        if line.startswith("faults: "):
            return process, targets, line.split("http://")[1].strip()
    raise SystemExit("the emulator did not start")


def start_prometheus(program, folder, targets, client_port, sink_port, log):
    rules = os.path.join(folder, "observability")
    subprocess.run([program, "observability", "--interval-s", str(INTERVAL_S), "--out", rules],
                   check=True, stdout=subprocess.DEVNULL)
    replicas = "".join(f"      - {{targets: ['{target}'], labels: {{replica: '{n}'}}}}\n"
                       for n, target in enumerate(targets))
    config = f"""global: {{scrape_interval: {INTERVAL_S}s, evaluation_interval: {INTERVAL_S}s}}
rule_files: [{rules}/alerts/common.yaml, {rules}/alerts/vllm.yaml]
alerting: {{alertmanagers: [{{static_configs: [{{targets: ['127.0.0.1:{sink_port}']}}]}}]}}
scrape_configs:
  - job_name: engine
    static_configs:
{replicas}  - job_name: client
    static_configs: [{{targets: ['127.0.0.1:{client_port}']}}]
"""
    path = os.path.join(folder, "prometheus.yaml")
    with open(path, "w") as file:
        file.write(config)
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


def test(program, folder, n, targets, admin, ports):
    name, kind, fault, expected = FAULTS[n]
    script = os.path.join(folder, f"inject-{n}.py")
    for path, told in [(script, fault), (script + ".heal", {"fault": "heal"})]:
        with open(path, "w") as file:
            file.write(f"import urllib.request as u\nu.urlopen(u.Request('http://{admin}/replicas/1/fault', "
                       f"{json.dumps(told)!r}.encode(), {{'content-type': 'application/json'}}))\n")
    arguments = [program, "failure-test", os.path.join(folder, "scenario"), "--live", "--rate", str(RATE), "--fault", kind,
                 "--replica", "1", "--at", str(INJECTED_S), "--for", str(LASTS_S), "--inject", f"{sys.executable} {script}",
                 "--alert-port", str(ports[1]), "--metrics-port", str(ports[0]), "--out", os.path.join(folder, f"pack-{n}")]
    for target in targets:
        arguments += ["--target", f"http://{target}"]
    if kind != "kill":
        arguments += ["--restore", f"{sys.executable} {script}.heal"]
    run = subprocess.run(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    path = os.path.join(folder, f"pack-{n}", "failure-test.json")
    if not os.path.exists(path):
        raise SystemExit(run.stderr)
    with open(path) as file:
        report = json.load(file)
    fired = [(a["name"], a["replica"], a["at_s"] - report["fault"]["at_s"]) for a in report["alarms"]]
    words = [f"{alert}{'' if replica is None else f' of replica {replica}'} after {after:.1f} s"
             for alert, replica, after in fired]
    lag = next(c["value"] for c in json.load(open(os.path.join(folder, f"pack-{n}", "slo-report.json")))["checks"]
               if c["name"] == "send_lag_p99_ms")
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
        emulator, targets, admin = start_emulator(program, os.path.join(folder, "scenario"), log)
        prometheus = None
        try:
            prometheus = start_prometheus(program, folder, targets, *ports, log)
            print("| fault | expected | fired, after the injection | as expected | send lag P99, ms |\n|---|---|---|---|---|")
            results = [test(program, folder, n, targets, admin, ports) for n in chosen]
        finally:
            for process in (prometheus, emulator):
                if process is not None:
                    process.terminate()
                    process.wait()
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
