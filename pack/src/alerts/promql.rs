//! The conditions as PromQL.
//!
//! Every target has the label `replica`, which the scrape configuration gives it; engines are the job `engine`.

use super::client_metrics::{ATTEMPTS, CONNECTION_FAILED, TRIES, TRY_TTFT};
use super::names::Names;
use super::{
    Alert, CLIENTS_GIVE_UP_SHARE, CONNECTIONS_FAIL_SHARE, Condition, Engine, KV_FULL_SHARE, NETWORK_SLOW_S,
    REPLICA_SLOW_SHARE, REPLICA_SLOW_TOKENS, Timing,
};
use crate::time::Nanos;

/// A duration as PromQL has it.
#[must_use]
pub fn duration(duration: Nanos) -> String {
    let millis = duration.0 / 1_000_000;
    if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") }
}

/// An alert's condition on an engine's metrics, as a PromQL expression.
#[must_use]
pub fn expression(alert: &Alert, engine: Engine, timing: Timing) -> String {
    let names = engine.names();
    let (w, whole) = (duration(timing.window()), whole(names, timing));
    let Names { waiting, kv_share, preemptions, ttft, failed_transfers, .. } = names;
    let always_waiting = format!("sum by (replica) (min_over_time({waiting}[{w}])) > 0");
    let kv_share = format!("max by (replica) (avg_over_time({kv_share}[{w}]))");
    let slow = || format!("{}\nand ({kv_share} <= {KV_FULL_SHARE})", slow(names, timing));
    match alert.condition {
        Condition::QueueSaturated => {
            let slow = slow().replace('\n', " ");
            format!("({always_waiting})\nand ({kv_share} <= {KV_FULL_SHARE})\n{whole}\nunless on () ({slow})")
        }
        Condition::KvPressure => format!(
            "({kv_share} > {KV_FULL_SHARE})\nand (sum by (replica) (increase({preemptions}[{w}])) > 0 or \
             {always_waiting})\n{whole}"
        ),
        Condition::ReplicaDown => format!("max by (replica) ({UP}) == 0"),
        Condition::ReplicaStuck => stuck(names, timing),
        Condition::ReplicaSlow => format!("{}\n{whole}", slow()),
        Condition::GpuError => format!("changes(DCGM_FI_DEV_XID_ERRORS[{}]) > 0", duration(timing.whole())),
        Condition::NetworkSlow => {
            let mean = |name: &str| {
                let rate = |suffix: &str| format!("sum by (replica) (rate({name}{suffix}[{w}]))");
                format!("{} / {}", rate("_sum"), rate("_count"))
            };
            format!("({} - {} > {NETWORK_SLOW_S})\n{whole}", mean(TRY_TTFT), mean(ttft))
        }
        Condition::ConnectionsFail => {
            let rise = |name: &str| format!("sum(increase({name}[{w}]))");
            format!("({} / {} > {CONNECTIONS_FAIL_SHARE})\n{whole}", rise(CONNECTION_FAILED), rise(TRIES))
        }
        Condition::KvTransferFails => format!("sum by (replica) (increase({failed_transfers}[{w}])) > 0"),
        Condition::ClientsGiveUp => {
            let cancelled = format!("sum(increase({ATTEMPTS}{{result=\"cancelled\"}}[{w}]))");
            let all = format!("sum(increase({ATTEMPTS}[{w}]))");
            format!("({cancelled} / {all} > {CLIENTS_GIVE_UP_SHARE})\n{whole}")
        }
    }
}

const UP: &str = "up{job=\"engine\"}";

/// The replica has requests, and no token came out of it. `unless`, and not `and ... == 0`: the counter may be absent.
fn stuck(names: &Names, timing: Timing) -> String {
    let Names { waiting, running, generation_tokens, .. } = names;
    format!(
        "(sum by (replica) ({running}) + sum by (replica) ({waiting}) > 0) unless (sum by (replica) \
         (increase({generation_tokens}[{}])) > 0)",
        duration(timing.window())
    )
}

/// The replica gives a running request far fewer tokens a second than the others do, and not because it gives more in all.
fn slow(names: &Names, timing: Timing) -> String {
    let Names { running, generation_tokens, .. } = names;
    let w = duration(timing.window());
    let tokens = format!("sum by (replica) (rate({generation_tokens}[{w}]))");
    let running = format!("sum by (replica) (avg_over_time({running}[{w}]))");
    format!(
        "({tokens} / ({running} >= 1) < {REPLICA_SLOW_SHARE} * (scalar(sum({tokens})) - {tokens}) / \
         (scalar(sum({running})) - {running} >= 1))\n\
         and ({tokens} <= {REPLICA_SLOW_TOKENS} * scalar(avg({tokens})))"
    )
}

/// Every replica has been up for a while, and none is stuck.
fn whole(names: &Names, timing: Timing) -> String {
    let stuck = stuck(names, timing);
    format!("and on () (min(min_over_time({UP}[{}])) == 1)\nunless on () ({stuck})", duration(timing.whole()))
}
