//! The rules: what each is called, why it stands, how a configuration is repaired.

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name, which never changes.
    pub id: &'static str,
    /// Why a configuration that breaks it measures nothing.
    pub reason: &'static str,
    /// What to write instead.
    pub repair: &'static str,
}

/// Declares the rules and the list of all of them.
macro_rules! rules {
    ($($name:ident: $id:literal, $reason:literal, $repair:literal;)*) => {
        $(
            #[doc = concat!("The rule `", $id, "`.")]
            pub const $name: Rule = Rule { id: $id, reason: $reason, repair: $repair };
        )*
        /// All rules, in the order of docs/lint.md.
        pub const RULES: &[Rule] = &[$($name),*];
    };
}

rules! {
    CONCURRENCY_ONLY: "concurrency-only",
        "a fixed number of clients waits for answers before it sends more: a slow server is offered less, so no \
         queue can grow, and the result says nothing about an arrival rate that users choose",
        "offer a rate (request_rate with poisson gaps); keep the concurrency test apart, to find the saturation point";
    TOO_FEW_REQUESTS: "too-few-requests",
        "the tail it reports rests on a handful of values, and moves with chance from run to run",
        "measure at least 2,000 successes of each class for a P95, 10,000 for a P99";
    SHORT_WINDOW: "short-window",
        "a queue that grows slowly, a burst or a cache that fills shows only after minutes",
        "measure for at least 300 s after the warm-up";
    REPEATED_PROMPTS: "repeated-prompts",
        "after the first request the cache has the prompt's prefill, which production does not have: it measures the \
         cache and not the model",
        "send different prompts for a cold test; for a warm one, prefix groups with a stated frequency; clear the \
         cache between runs";
    CACHE_NOT_CLEARED: "cache-not-cleared",
        "what an earlier run left in the cache decides the prefill time, so that two runs of the same file differ",
        "clear the cache before each run, or prime it with a stated set of prefixes, and say which";
    NO_WARM_UP: "no-warm-up",
        "the first requests pay for compilation, graph capture, connections and an empty system, and are counted",
        "send traffic before the measured window, in addition to it: 60 s at the offered rate";
    MEANS_ONLY: "means-only",
        "a mean hides the tail: a tenth of the users may wait ten times as long while it stays inside its target",
        "report P50, P95 and P99 of TTFT and TPOT by class, and the share of requests inside both cutoffs";
    MOVABLE_VERSION: "movable-version",
        "what it names today is something else tomorrow: the result can be neither repeated nor compared",
        "write the commit, digest or exact version that was measured";
    NO_ERROR_STATE: "no-error-state",
        "failed and timed-out requests leave the averages, so an overloaded server looks faster the more it drops",
        "report the error rate over all attempts, and gate it (1 %)";
    NO_QUEUE_STATE: "no-queue-state",
        "latencies of a run whose queue still grows depend on when it was stopped: the rate is above capacity and \
         nothing says so",
        "record the queue's depth over time, and require that it does not grow";
    NO_CANCELLATION_STATE: "no-cancellation-state",
        "requests that the client gave up hold their seats and KV memory, or free them early: uncounted, they are \
         either load that nobody sees or successes that nobody got",
        "count cancelled and timed-out attempts apart from errors and successes";
    NO_CACHE_STATE: "no-cache-state",
        "without the hit rate nobody can tell whether prefill was computed or remembered: a warm result is read as \
         a cold one",
        "say whether the run was cold or warm, and report the prefix hit rate and evictions";
    NO_STREAMING: "no-streaming",
        "an answer that comes whole has no first token: TTFT and TPOT cannot be measured",
        "set streaming to true";
    EVEN_ARRIVALS: "even-arrivals",
        "equal gaps let a server run almost full without a queue; independent users arrive in bunches, and the \
         capacity found is one that they will never see",
        "use arrival_pattern poisson, gamma with a shape below 1 for bursts, or a trace";
    SMALL_CLASS: "small-class",
        "the class cannot reach the successes that its gate asks for, even if every request is answered",
        "schedule more requests: the gate's successes over (1 - error_rate_max) for the rarest class, and a tenth more";
    BEYOND_CONTEXT: "beyond-context",
        "the engine refuses a request that its context or KV pool cannot hold: each is an error, and more of them than \
         error_rate_max fail every rate",
        "take a trace or window without them, or a profile with a longer context";
    SMALL_GATE: "small-gate",
        "below 2,000 successes the interval of an attainment near 95 % is wider than two points: a class passes or \
         fails by chance",
        "set min_successful_samples_per_class to 2000 or more";
    SLO_NOT_GATED: "slo-not-gated",
        "every run passes, however slow",
        "set class_slo_attainment_min to what was promised, as 0.95";
    NO_HEADROOM: "no-headroom",
        "a fleet planned to run at its capacity has nothing left for a burst or a lost replica",
        "set target_utilization below 1, as 0.75";
    WARM_SHARES_NOTHING: "warm-shares-nothing",
        "the experiment is called warm, and no two prompts can share a prefix: its hit rate is zero",
        "write prefix_groups with tokens and weights, enable the prefix cache, or set cache to cold";
}
