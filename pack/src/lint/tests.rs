use super::*;
use rules::RULES;

const FOREIGN: &str = "\
load_mode: concurrency_only
concurrency: 128
request_count: 100
prompts: repeat_the_same_prompt
prefix_cache: enabled
clear_cache_before_run: false
warmup_requests: 0
report: [mean_latency, total_tokens_per_second]
model_revision: latest
engine_version: latest
";
const MANIFEST: &str = include_str!("../../../scenarios/tp2-dp4/workload-manifest.yaml");
const SCENARIO: &str = "router: {policy: random}\nexperiment: {rates_rps: [1]}\n";

/// `rule@line` of each finding.
fn found(text: &str) -> Vec<String> {
    let read = lint("f.yaml", text).unwrap();
    read.findings.iter().map(|finding| format!("{}@{}", finding.rule, finding.line)).collect()
}

/// The findings of the worked example with one text in it replaced.
fn with(from: &str, to: &str) -> Vec<String> {
    assert!(MANIFEST.contains(from), "{from}");
    found(&MANIFEST.replace(from, to))
}

#[test]
fn every_fault_of_the_foreign_file_is_found() {
    assert_eq!(
        found(FOREIGN),
        [
            "concurrency-only@1",
            "too-few-requests@3",
            "repeated-prompts@4",
            "no-warm-up@7",
            "means-only@8",
            "no-error-state@8",
            "no-queue-state@8",
            "no-cancellation-state@8",
            "no-cache-state@8",
            "movable-version@9",
            "movable-version@10",
        ]
    );
}

#[test]
fn the_arithmetic_of_the_tail_is_shown() {
    let findings = lint("f", FOREIGN).unwrap().findings;
    assert_eq!(
        findings[1].found,
        "100 requests of at least 2000 for a P95: only 5 values lie beyond it, and its 95 % interval reaches \
         from value 90 of 100 in order to 100"
    );
    let p99 = "request_rate: 3\nrequest_count: 9999\nreport: [p99_ttft]";
    assert!(lint("f", p99).unwrap().findings.iter().any(|f| f.found.contains("of at least 10000 for a P99")));
    for (count, is_found) in [("1999", true), ("2000", false), ("0", true), ("-5", true)] {
        let text = format!("request_rate: 3\nrequest_count: {count}\nreport: [p95]");
        assert_eq!(found(&text).iter().any(|f| f.starts_with("too-few")), is_found, "{count}");
    }
}

#[test]
fn rate_and_duration_make_a_count() {
    let text = |seconds: u32| format!("request_rate: 5\nduration_seconds: {seconds}\nreport: [p95]");
    assert!(found(&text(399)).contains(&"too-few-requests@2".to_owned()), "1,995 of 2,000");
    assert!(!found(&text(400)).iter().any(|finding| finding.starts_with("too-few")));
    let unread = lint("f", "request_rate: inf\nrequest_count: many\n").unwrap().unread_fields;
    assert_eq!(unread, ["request_rate", "request_count"], "what cannot be judged is said");
}

#[test]
fn settings_without_a_fault_have_no_finding() {
    let text = "\
request_rate: 8
concurrency: 500
request_count: 10000
duration_seconds: 600
prompts: sampled
prefix_cache: enabled
clear_cache_before_run: true
warmup_seconds: 60
report: [p99_ttft, error_rate, queue_depth, cancelled, prefix_hit_rate]
model_revision: 4f2a91c
engine_version: 0.11.2
seed: 3
";
    let read = lint("f", text).unwrap();
    assert_eq!(read.findings, []);
    assert_eq!(read.unread_fields, ["seed"], "what no rule reads is said");
}

#[test]
fn settings_that_say_nothing_are_not_taken_for_good() {
    assert_eq!(
        found("request_rate: 8\n"),
        [
            "too-few-requests@1",
            "no-warm-up@1",
            "means-only@1",
            "no-error-state@1",
            "no-queue-state@1",
            "no-cancellation-state@1",
            "no-cache-state@1",
            "movable-version@1",
            "movable-version@1",
        ]
    );
}

#[test]
fn cached_prompts() {
    let rules = |lines: &str| -> Vec<String> {
        let all = found(&format!("request_rate: 8\n{lines}"));
        all.into_iter().filter(|f| f.contains("prompts") || f.contains("cleared")).collect()
    };
    assert_eq!(rules("prompts: identical\nprefix_cache: disabled\n"), Vec::<String>::new());
    assert_eq!(rules("prompts: identical\nclear_cache_before_run: true\n"), ["repeated-prompts@2"]);
    assert_eq!(rules("prompts: random\nclear_cache_before_run: false\n"), ["cache-not-cleared@3"]);
    assert_eq!(rules("prompts: random\nclear_cache_before_run: true\n"), Vec::<String>::new());
}

#[test]
fn the_worked_example_has_no_finding() {
    assert_eq!(found(MANIFEST), Vec::<String>::new());
    assert_eq!(lint_scenario(("m", MANIFEST), ("s", SCENARIO)), Ok(Vec::new()));
}

#[test]
fn each_rule_of_a_manifest_finds_its_fault() {
    assert_eq!(with("version: \"1.0\"", "version: nightly"), ["movable-version@5"]);
    assert_eq!(with("revision: dense-70b-fixture-r1,", "revision: refs/heads/main,"), ["movable-version@2"]);
    assert_eq!(with("minimum_duration_seconds: 300", "minimum_duration_seconds: 299"), ["short-window@14"]);
    assert_eq!(with("warmup_seconds: 60", "warmup_seconds: 0"), ["no-warm-up@18"]);
    assert_eq!(with("streaming: true", "streaming: false"), ["no-streaming@12"]);
    assert_eq!(with("arrival_pattern: poisson", "arrival_pattern: constant"), ["even-arrivals@13"]);
    assert_eq!(with("attainment_min: 0.95", "attainment_min: 0"), ["slo-not-gated@24"]);
    assert_eq!(with("error_rate_max: 0.01", "error_rate_max: 1"), ["no-error-state@26"]);
    assert_eq!(with("required: flat", "required: any"), ["no-queue-state@27"]);
    assert_eq!(with("utilization: 0.75", "utilization: 1"), ["no-headroom@28"]);
    assert_eq!(with("per_class: 2000", "per_class: 1999"), ["small-gate@25"]);
    assert_eq!(with("per_class: 2000", "per_class: 2179"), ["small-class@17"], "2,179 / 0.99 is above 2,200");
    assert_eq!(with("per_class: 2000", "per_class: 2178"), Vec::<String>::new());
}

#[test]
fn a_warm_experiment_must_share_something() {
    let warm = SCENARIO.replace("]}", "], cache: warm}");
    let rules = |manifest: &str, scenario: &str| -> Vec<&str> {
        lint_scenario(("m", manifest), ("s", scenario)).unwrap().iter().map(|finding| finding.rule).collect()
    };
    assert_eq!(rules(MANIFEST, &warm), ["warm-shares-nothing"]);
    let groups = format!("{warm}prefix_groups: [{{name: g, tokens: 64, weight: 1}}]\n");
    assert_eq!(rules(MANIFEST, &groups), Vec::<&str>::new());
    let uncached = MANIFEST.replace("prefix_cache: enabled", "prefix_cache: disabled");
    assert_eq!(rules(&uncached, &groups), ["warm-shares-nothing"]);
    let chats =
        MANIFEST.replace("output_tokens: 128,", "output_tokens: 128, session: {turns: 3, think_seconds: 1},");
    assert_eq!(rules(&chats, &warm), Vec::<&str>::new());
}

#[test]
fn what_would_not_load_is_no_configuration() {
    let faulty = MANIFEST.replace("mix: 0.70", "mix: 0.60").replace("version: \"1.0\"", "version: latest");
    let faults = lint("m.yaml", &faulty).unwrap_err().to_string();
    assert!(faults.contains("mixes that sum to 0.9") && !faults.contains("immutable"), "{faults}");
    for text in ["", "- 1", "colour: red", "a: [", SCENARIO] {
        assert!(lint("f.yaml", text).is_err(), "{text}");
    }
}

#[test]
fn rules_have_names_of_their_own_and_say_why() {
    for (i, rule) in RULES.iter().enumerate() {
        assert!(RULES[..i].iter().all(|earlier| earlier.id != rule.id), "{}", rule.id);
        assert!(rule.reason.len() > 20 && rule.repair.len() > 20, "{}", rule.id);
    }
}

#[test]
fn every_rule_is_documented() {
    let text = include_str!("../../../docs/lint.md");
    let headings: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`')).collect();
    let ids: Vec<&str> = RULES.iter().map(|rule| rule.id).collect();
    assert_eq!(headings, ids, "docs/lint.md has a heading for each rule, in their order");
    let flowing = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for rule in RULES {
        for (word, said) in [("Why", rule.reason), ("Repair", rule.repair)] {
            assert!(
                flowing.contains(&format!("{word}: {said}.")),
                "docs/lint.md says of {}: {said}",
                rule.id
            );
        }
    }
}
