//! The worked example loads; broken variants of it say what is wrong, and where.

use super::*;
use proptest::prelude::*;

/// The worked example's manifest.
const WORKED: &str = include_str!("../../../scenarios/tp2-dp4/workload-manifest.yaml");

fn parse(text: &str) -> Result<Manifest, String> {
    Manifest::parse("m", text).map_err(|faults| faults.to_string())
}

/// The worked example with each `from` replaced by its `to`.
fn edited(edits: &[(&str, &str)]) -> String {
    edits.iter().fold(WORKED.to_owned(), |text, (from, to)| {
        assert!(text.contains(from), "{from} is not in the manifest");
        text.replacen(from, to, 1)
    })
}

#[test]
fn the_worked_example_loads_as_printed() {
    let manifest = parse(WORKED).unwrap();
    assert_eq!(manifest.cutoff, "2026-08-29");
    assert_eq!(manifest.engine.version, "1.0");
    assert_eq!(manifest.engine.placement, Placement { tp: 2, pp: 1, dp: 4, replicas: 4, gpus: 8 });
    assert!(manifest.engine.prefix_cache && !manifest.engine.disaggregated_prefill);
    assert_eq!(manifest.client.arrivals, ArrivalPattern::Poisson);
    assert_eq!(manifest.client.request_schedule_seed, 20_260_829);
    assert_eq!(manifest.client.class_schedule_counts, [15_400, 4_400, 2_200]);
    assert_eq!((manifest.client.timeout, manifest.client.ignore_eos), (None, true));
    let lengths = |class: &Class| (class.input_tokens.clone(), class.output_tokens.clone());
    assert_eq!(lengths(&manifest.classes[2]), (Distribution::Fixed(512.0), Distribution::Fixed(1024.0)));
    assert!(manifest.acceptance.queue_trend_flat_required);
}

#[test]
fn the_additions_load() {
    let manifest = parse(&edited(&[
        ("cutoff: 2026-08-29", "cutoff: 2026-08-29\nworkload_revision: w-7"),
        ("precision: bf16", "precision: bf16, chat_template_revision: t-3"),
        ("  version: \"1.0\"", "  version: \"1.0\"\n  scheduler_revision: abc123"),
        (
            "arrival_pattern: poisson",
            "arrival_pattern: piecewise\n  pieces: [{seconds: 60, rate: 1}, {seconds: 30, from: 1, to: 3}]\n  \
             timeout_seconds: 120\n  ttft_timeout_seconds: 10\n  ignore_eos: false\n  \
             cancellation: {probability: 0.01, after_seconds: {distribution: uniform, min: 0.5, max: 2}}\n  \
             think_time_seconds: {distribution: lognormal, median: 5, sigma: 1}\n  \
             sampling: {temperature: 0.7, top_p: 1}",
        ),
        (
            "input_tokens: 1024, output_tokens: 128",
            "priority: -2, session: {turns: 4, think_seconds: 8}, \
             input_tokens: {distribution: lognormal, median: 900, sigma: 0.6, min: 16, max: 8000}, \
             output_tokens: {distribution: empirical, values: [10, 20], weights: [1, 3]}",
        ),
        (
            "acceptance:",
            "prefix_groups:\n  - {name: a, tokens: 600, weight: 2, classes: [interactive]}\n  - {name: b, \
             tokens: 0, weight: 0}\nacceptance:",
        ),
    ]))
    .unwrap();
    assert_eq!(manifest.workload_revision.as_deref(), Some("w-7"));
    let pieces =
        [RatePiece { seconds: 60.0, from: 1.0, to: 1.0 }, RatePiece { seconds: 30.0, from: 1.0, to: 3.0 }];
    assert_eq!(manifest.client.arrivals, ArrivalPattern::Piecewise { pieces: pieces.to_vec() });
    assert_eq!(manifest.client.ttft_timeout, Some(Nanos(10_000_000_000)));
    assert_eq!(manifest.client.sampling, [("temperature".to_owned(), 0.7), ("top_p".to_owned(), 1.0)]);
    let class = &manifest.classes[0];
    assert_eq!((class.priority, class.session.as_ref().unwrap().turns), (-2, 4));
    let lognormal = Distribution::Lognormal { median: 900.0, sigma: 0.6, min: 16.0, max: 8000.0 };
    assert_eq!(class.input_tokens, lognormal);
    assert_eq!(manifest.prefix_groups[0].classes, ["interactive"]);
    assert_eq!(manifest.prefix_groups.len(), 2);
}

#[test]
fn a_trace_states_only_what_its_rows_cannot() {
    let text = "
cutoff: 2026-08-29
model: {id: m, revision: r1, tokenizer_revision: t1, precision: bf16}
engine:
  name: e
  version: v0.19.0
  placement: {tp: 1, pp: 1, dp: 8, replicas: 8, gpus: 8}
  prefix_cache: enabled
  speculative_decoding: disabled
  disaggregated_prefill: disabled
client:
  location: here
  streaming: true
  arrival_pattern: trace
  trace: {file: t.jsonl, format: mooncake, window_seconds: [0, 600], rate_scale: 2}
  request_schedule_seed: 1
  warmup_seconds: 0
workload:
  - {name: short, when: {input_max: 4000}, request_ttft_cutoff_ms: 500, request_tpot_cutoff_ms: 40}
  - {name: long, request_ttft_cutoff_ms: 5000, request_tpot_cutoff_ms: 50}
acceptance: {class_slo_attainment_min: 0.95, min_successful_samples_per_class: 0, error_rate_max: 0.01,
  queue_trend_required: any, target_utilization: 1}
";
    let manifest = parse(text).unwrap();
    let ArrivalPattern::Trace(source) = &manifest.client.arrivals else { panic!() };
    assert_eq!((source.window_seconds, source.rate_scale), (Some((0.0, 600.0)), 2.0));
    assert_eq!(manifest.client.initial_scheduled_requests, 0);
    assert!(manifest.client.class_schedule_counts.is_empty());
    assert_eq!(manifest.classes[0].rule.unwrap().input_max, 4000);
    assert_eq!(manifest.classes[1].rule, None);

    let faulty = text
        .replace("rate_scale: 2", "rate_scale: 0")
        .replace("[0, 600]", "[9, 9]")
        .replace("{name: long,", "{name: long, input_tokens: 9, session: {turns: 2},")
        .replace("acceptance:", "prefix_groups: [{name: g, tokens: 1, weight: 1}]\nacceptance:");
    let faults = [
        "m:15:60: client.trace.window_seconds: found [9, 9]; expected a window that ends after it begins",
        "m:15:80: client.trace.rate_scale: found 0; expected a number above 0 and at most 1000000",
        "m:20:32: workload[1].input_tokens: found a value; expected none, since each row of a trace has its own",
        "m:20:44: workload[1].session: found a value; expected none, since the rows of a trace stand alone",
        "m:21:16: prefix_groups: found a value; expected none, since the trace's block hashes name what is shared",
    ];
    assert_eq!(parse(&faulty).unwrap_err(), faults.join("\n"));
}

#[test]
fn a_class_nobody_sends_and_an_empty_schedule_are_accepted() {
    let unsent = edited(&[
        ("mix: 0.70", "mix: 0.8"),
        ("mix: 0.10", "mix: 0"),
        (
            "15400, long_context: 4400, generation_heavy: 2200",
            "17600, long_context: 4400, generation_heavy: 0",
        ),
    ]);
    assert_eq!(parse(&unsent).unwrap().client.class_schedule_counts, [17_600, 4_400, 0]);
    let empty = edited(&[
        ("initial_scheduled_requests: 22000", "initial_scheduled_requests: 0"),
        ("15400, long_context: 4400, generation_heavy: 2200", "0, long_context: 0, generation_heavy: 0"),
    ]);
    assert_eq!(parse(&empty).unwrap().client.initial_scheduled_requests, 0);
}

/// Edits of the worked example, and all that must be said about each.
const BROKEN: &[(&str, &str, &str)] = &[
    (
        "mix: 0.20",
        "mix: 0.25",
        "m:17:61: client.class_schedule_counts.long_context: found 4400; expected 5500 = mix x total, give or take one\nm:20:3: workload: found mixes that sum to 1.05; expected a sum of 1",
    ),
    (
        "long_context: 4400",
        "long_context: 4401",
        "m:17:26: client.class_schedule_counts: found counts that sum to 22001; expected 22000 = initial_scheduled_requests",
    ),
    (
        "interactive: 15400, long_context: 4400",
        "interactive: 15000, long_context: 4800",
        "m:17:40: client.class_schedule_counts.interactive: found 15000; expected 15400 = mix x total, give or take one\nm:17:61: client.class_schedule_counts.long_context: found 4800; expected 4400 = mix x total, give or take one",
    ),
    (
        "generation_heavy: 2200}",
        "generation_heavie: 2200}",
        "m:17:26: client.class_schedule_counts: found no count for class generation_heavy; expected a count for each class\nm:17:86: client.class_schedule_counts.generation_heavie: found a count for an unknown class; did you mean generation_heavy?",
    ),
    ("gpus: 8", "gpus: 16", "m:6:55: engine.placement.gpus: found 16; expected 8 = replicas x tp x pp"),
    (
        "dp: 4",
        "dp: 2",
        "m:6:33: engine.placement.dp: found 2; expected 4, as replicas; dp counts independent replicas",
    ),
    ("tp: 2", "tp: 0", "m:6:19: engine.placement.tp: found 0; expected a whole number from 1 to 1024"),
    (
        "request_ttft_cutoff_ms: 2500",
        "request_ttft_cutoff_ms: 0",
        "m:21:101: workload[1].request_ttft_cutoff_ms: found 0; expected a number above 0 and at most 1000000000",
    ),
    (
        "request_tpot_cutoff_ms: 45",
        "request_tpot_cutoff_ms: -45",
        "m:22:134: workload[2].request_tpot_cutoff_ms: found -45; expected a number above 0 and at most 1000000000",
    ),
    (
        "revision: dense-70b-fixture-r1",
        "revision: latest",
        "m:2:40: model.revision: found \"latest\"; expected an immutable revision; write the commit, digest or exact version that it stands for today",
    ),
    (
        "tokenizer_revision: dense-70b-tokenizer-fixture-r1",
        "tokenizer_revision: refs/heads/Main",
        "m:2:82: model.tokenizer_revision: found \"refs/heads/Main\"; expected an immutable revision; write the commit, digest or exact version that it stands for today",
    ),
    (
        "version: \"1.0\"",
        "version: 1.0",
        "m:5:12: engine.version: found 1.0; expected text; put it in quotes",
    ),
    (
        "version: \"1.0\"",
        "version: \">=1.0\"",
        "m:5:12: engine.version: found \">=1.0\"; expected an immutable revision; write the commit, digest or exact version that it stands for today",
    ),
    (
        "name: generation_heavy",
        "name: interactive",
        "m:22:12: workload[2].name: found \"interactive\"; expected a name that no other has",
    ),
    (
        "request_tpot_cutoff_ms: 40",
        "request_tpot_cutof_ms: 40",
        "m:20:5: workload[0].request_tpot_cutoff_ms: found nothing; expected a number above 0 and at most 1000000000\nm:20:105: workload[0].request_tpot_cutof_ms: found an unknown field; did you mean request_tpot_cutoff_ms?",
    ),
    (
        "prefix_cache: enabled",
        "prefix_cache: enable",
        "m:7:17: engine.prefix_cache: found \"enable\"; expected one of: enabled, disabled; did you mean enabled?",
    ),
    (
        "prefix_cache: enabled",
        "prefix_cache: true",
        "m:7:17: engine.prefix_cache: found true; expected one of: enabled, disabled",
    ),
    (
        "input_tokens: 1024",
        "input_tokens: 1000000000000000000",
        "m:20:50: workload[0].input_tokens: found 1000000000000000000; expected a whole number from 1 to 10000000",
    ),
    (
        "input_tokens: 1024",
        "input_tokens: 10.5",
        "m:20:50: workload[0].input_tokens: found 10.5; expected a whole number from 1 to 10000000",
    ),
    (
        "input_tokens: 1024",
        "input_tokens: {distribution: uniform, min: 10, max: 5}",
        "m:20:88: workload[0].input_tokens.max: found 5; expected at least min, 10",
    ),
    (
        "input_tokens: 1024",
        "input_tokens: {distribution: normal, mean: 100, sd: 1e6, min: 90, max: 110}",
        "m:20:88: workload[0].input_tokens.sd: found 1000000.0; expected at most a hundred times max - min; write a uniform distribution",
    ),
    (
        "input_tokens: 1024",
        "input_tokens: {distribution: lognormal, median: 100, sigma: 1, min: 200}",
        "m:20:84: workload[0].input_tokens.median: found 100; expected a number from min (200) to max (10000000)",
    ),
    (
        "input_tokens: 1024",
        "input_tokens: {distribution: empirical, values: [1, 2], weights: [0, 0]}",
        "m:20:101: workload[0].input_tokens.weights: found weights that sum to 0; expected a sum above 0",
    ),
    (
        "input_tokens: 1024",
        "input_tokens: {distribution: geometric, mean: 0.5, max: 9}",
        "m:20:82: workload[0].input_tokens.mean: found 0.5; expected a number from 1 to 10000000\nm:20:87: workload[0].input_tokens.max: found an unknown field; did you mean mean?",
    ),
    (
        "warmup_seconds: 60",
        "warmup_seconds: .nan",
        "m:18:19: found non-finite float `.nan`; expected a finite number",
    ),
    (
        "warmup_seconds: 60",
        "warmup_seconds: -1",
        "m:18:19: client.warmup_seconds: found -1; expected a number from 0 to 10000000",
    ),
    (
        "initial_scheduled_requests: 22000",
        "initial_scheduled_requests: 1e18",
        "m:15:31: client.initial_scheduled_requests: found 1e18; expected a whole number from 0 to 10000000",
    ),
    (
        "initial_scheduled_requests: 22000",
        "initial_scheduled_requests: 22001",
        "m:17:26: client.class_schedule_counts: found counts that sum to 22000; expected 22001 = initial_scheduled_requests",
    ),
    (
        "arrival_pattern: poisson",
        "arrival_pattern: gamma",
        "m:11:3: client.gamma_shape: found nothing; expected a number from 0.01 to 10000",
    ),
    (
        "arrival_pattern: poisson",
        "arrival_pattern: poisson\n  gamma_shape: 2",
        "m:14:16: client.gamma_shape: found a value; expected none, since arrival_pattern is not gamma",
    ),
    (
        "arrival_pattern: poisson",
        "arrival_pattern: piecewise\n  pieces: [{seconds: 5, rate: 0}]",
        "m:14:11: client.pieces: found only rates of 0; expected a rate above 0 in some piece",
    ),
    (
        "arrival_pattern: poisson",
        "arrival_pattern: poisson\n  timeout_seconds: 5\n  ttft_timeout_seconds: 6",
        "m:15:25: client.ttft_timeout_seconds: found 6; expected at most timeout_seconds, 5",
    ),
    (
        "acceptance:",
        "prefix_groups: [{name: g, tokens: 5, weight: 1, classes: [interactiv]}]\nacceptance:",
        "m:23:59: prefix_groups[0].classes[0]: found \"interactiv\"; expected a class of the workload; did you mean interactive?",
    ),
    (
        "cutoff: 2026-08-29",
        "cutoff: 2026-02-30",
        "m:1:9: cutoff: found \"2026-02-30\"; expected a date as 2026-08-29",
    ),
    (
        "queue_trend_required: flat",
        "queue_trend_required: growing",
        "m:27:25: acceptance.queue_trend_required: found \"growing\"; expected one of: flat, any",
    ),
    (
        "target_utilization: 0.75",
        "target_utilization: 1.5",
        "m:28:23: acceptance.target_utilization: found 1.5; expected a number above 0 and at most 1",
    ),
    ("  streaming: true\n", "", "m:11:3: client.streaming: found nothing; expected true or false"),
    (
        "workload:\n",
        "workload: []\nunused:\n",
        "m:19:11: workload: found a list of 0; expected a list of 1 to 1000\nm:20:1: unused: found an unknown field; known are cutoff, workload_revision, model, engine, client, workload, prefix_groups, acceptance",
    ),
    (
        "cutoff: 2026-08-29",
        "cutoff: 2026-08-29\ncutoff: 2026-08-29",
        "m:2:1: found the key cutoff a second time; expected each key once in a mapping",
    ),
];

#[test]
fn every_fault_names_its_line() {
    for (from, to, expected) in BROKEN {
        let found = parse(&edited(&[(from, to)])).err().unwrap_or_default();
        assert_eq!(&found, expected, "after {from} became {to}");
    }
}

/// Values that someone may write anywhere.
const ODD: &[&str] = &[
    "~",
    "[]",
    "{}",
    "-1",
    "0",
    "1e308",
    "-0.0",
    "18446744073709551616",
    "99999999999999999999999",
    ".inf",
    "''",
    "[1, [2]]",
    "{a: {b: 1}}",
    "*x",
    "&x 1",
    "\u{0}",
    "\u{1F600}",
    "true",
    "2000000000",
    "{distribution: uniform}",
];

proptest! {
    #[test]
    fn any_text_is_read_or_refused(text in ".{0,200}") {
        let _ = Manifest::parse("m", &text);
    }

    #[test]
    fn a_manifest_with_any_bytes_changed_is_read_or_refused(
        edits in prop::collection::vec((0..WORKED.len(), any::<u8>()), 1..6),
    ) {
        let mut bytes = WORKED.as_bytes().to_vec();
        for (at, byte) in edits {
            bytes[at] = byte;
        }
        let _ = Manifest::parse("m", &String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn a_manifest_with_odd_values_is_read_or_refused(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..ODD.len()), 1..4),
    ) {
        let mut text = WORKED.to_owned();
        for (at, odd) in edits {
            let colons: Vec<usize> = text.match_indices(": ").map(|(i, _)| i + 2).collect();
            let from = colons[at.index(colons.len())];
            let len = text[from..].find([',', '}', '\n']).unwrap_or(0);
            text.replace_range(from..from + len, ODD[odd]);
        }
        if let Err(faults) = Manifest::parse("m", &text) {
            prop_assert!(!faults.0.is_empty());
            prop_assert!(faults.0.iter().all(|fault| fault.line.is_some()), "{}", faults);
        }
    }
}
