//! Schedules from traces.

use super::*;
use crate::manifest::{TraceFormat, TraceSource};

fn trace_manifest(format: TraceFormat) -> Manifest {
    let mut manifest = small();
    let file = "t".to_owned();
    manifest.client.arrivals =
        ArrivalPattern::Trace(TraceSource { file, format, window_seconds: None, rate_scale: 1.0 });
    manifest.client.initial_scheduled_requests = 0;
    manifest.client.class_schedule_counts.clear();
    manifest.client.warmup_seconds = 0.0;
    let rule = |name: &str, when: &str| {
        let text = format!(
            "cutoff: 2026-08-29\nmodel: {{id: m, revision: r, tokenizer_revision: t, precision: p}}\n\
             engine: {{name: e, version: v, placement: {{tp: 1, pp: 1, dp: 1, replicas: 1, gpus: 1}}, \
             prefix_cache: enabled, speculative_decoding: disabled, disaggregated_prefill: disabled}}\n\
             client: {{location: l, streaming: true, arrival_pattern: trace, trace: {{file: t, format: csv}}, \
             request_schedule_seed: 1, warmup_seconds: 0}}\n\
             workload: [{{name: {name}, request_ttft_cutoff_ms: 1, request_tpot_cutoff_ms: 1{when}}}]\n\
             acceptance: {{class_slo_attainment_min: 0, min_successful_samples_per_class: 0, error_rate_max: 1, \
             queue_trend_required: any, target_utilization: 1}}\n"
        );
        Manifest::parse("m", &text).unwrap().classes.remove(0)
    };
    manifest.classes =
        vec![rule("short", ", when: {input_max: 600}"), rule("long", ", when: {input_max: 5000}")];
    manifest
}

fn source(manifest: &mut Manifest) -> &mut TraceSource {
    let ArrivalPattern::Trace(source) = &mut manifest.client.arrivals else { panic!() };
    source
}

const MOONCAKE: &str =
    "{\"timestamp\": 1000, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [0, 14]}
{\"timestamp\": 3000, \"input_length\": 1024, \"output_length\": 7, \"hash_ids\": [0, 15]}
{\"timestamp\": 5000, \"input_length\": 100, \"output_length\": 9, \"hash_ids\": [3]}
";

#[test]
fn a_trace_is_replayed_row_by_row() {
    let mut manifest = trace_manifest(TraceFormat::Mooncake);
    let trace = Trace::parse("t", TraceFormat::Mooncake, MOONCAKE.as_bytes()).unwrap();
    assert_eq!(trace_rate_rps(source(&mut manifest), &trace), Some(0.5));
    let replay = |manifest: &Manifest, rps, shared| {
        Schedule::generate(manifest, Load::Open { rps }, 0, Some(&trace), shared).unwrap()
    };
    let schedule = replay(&manifest, 0.5, true);
    assert_eq!(arrivals(&schedule.measured), [Nanos(0), Nanos(2_000_000_000), Nanos(4_000_000_000)]);
    assert_eq!(classes(&schedule.measured), [0, 1, 0]);
    let block = |id, len| Segment { stream: TokenStream::trace_block(id), start: 0, len };
    let list = &schedule.measured;
    assert_eq!(list.segments_of(&list.requests[0]), [block(0, 512), block(14, 88)]);
    assert_eq!(list.segments_of(&list.requests[1]), [block(0, 512), block(15, 512)]);
    assert!(schedule.continuation().next().is_none());
    assert!(replay(&manifest, 0.5, false).measured.segments.is_empty());

    source(&mut manifest).rate_scale = 4.0;
    let rps = trace_rate_rps(source(&mut manifest), &trace).unwrap();
    let times = arrivals(&replay(&manifest, rps, true).measured);
    assert_eq!(times, [Nanos(0), Nanos(500_000_000), Nanos(1_000_000_000)]);

    source(&mut manifest).window_seconds = Some((1.0, 4.5));
    manifest.client.warmup_seconds = 100.0;
    let schedule = replay(&manifest, 0.5, true);
    assert_eq!(arrivals(&schedule.measured), [Nanos(101_000_000_000), Nanos(103_000_000_000)]);
    assert!(!schedule.warmup.requests.is_empty() && schedule.warmup.segments.is_empty());
    assert!(schedule.warmup.requests.iter().all(|request| [1024, 100].contains(&request.input_tokens)));
    let closed =
        Schedule::generate(&manifest, Load::Closed { concurrency: 1 }, 0, Some(&trace), true).unwrap();
    assert_eq!((closed.measured.requests.len(), closed.warmup.requests.len()), (2, 2));
}

#[test]
fn a_trace_that_does_not_fit_the_manifest_says_where() {
    let trace = Trace::parse("t", TraceFormat::Mooncake, MOONCAKE.as_bytes()).unwrap();
    let error = |manifest: &Manifest| {
        Schedule::generate(manifest, Load::Open { rps: 0.5 }, 0, Some(&trace), true).unwrap_err().to_string()
    };
    let mut manifest = trace_manifest(TraceFormat::Mooncake);
    manifest.classes.truncate(1);
    assert_eq!(
        error(&manifest),
        "t:2: found 1024 input and 7 output tokens; expected lengths that the `when` of some class takes; a last \
         class without `when` takes the rest"
    );
    let mut manifest = trace_manifest(TraceFormat::Mooncake);
    manifest.client.class_schedule_counts = vec![1, 2];
    assert!(
        error(&manifest).starts_with("t: client.class_schedule_counts.short: found 2 rows; expected 1, as")
    );
    let mut manifest = trace_manifest(TraceFormat::Mooncake);
    source(&mut manifest).window_seconds = Some((9.0, 10.0));
    assert!(
        error(&manifest).contains("found no row in the window; expected a window within the trace's 4 s")
    );
    let mut manifest = trace_manifest(TraceFormat::Mooncake);
    manifest.client.minimum_duration_seconds = 5.0;
    assert!(error(&manifest).contains("found a trace that spans 4 s at this rate"));
    let missing = Schedule::generate(&manifest, OPEN, 0, None, true).unwrap_err();
    assert_eq!(missing.to_string(), "client.trace: found no trace; expected the contents of t");

    let text = "arrival_s,class,input_tokens,output_tokens\n0,short,9000,1\n1,shirt,1,1\n";
    let trace = Trace::parse("t", TraceFormat::Csv, text.as_bytes()).unwrap();
    let manifest = trace_manifest(TraceFormat::Csv);
    let error = Schedule::generate(&manifest, OPEN, 0, Some(&trace), true).unwrap_err();
    let expected = "t:3: class: found \"shirt\"; expected a class of the workload; did you mean short?";
    assert_eq!(error.to_string(), expected);
}

#[test]
#[allow(clippy::disallowed_methods, reason = "a test reads its data")]
fn a_real_trace_is_replayed_whole_at_its_own_rate() {
    let path =
        concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data/traces/mooncake_conversation_trace.jsonl");
    let Ok(bytes) = std::fs::read(path) else { return println!("skipped: ../shared is absent") };
    let trace = Trace::parse("t", TraceFormat::Mooncake, &bytes).unwrap();
    let mut manifest = trace_manifest(TraceFormat::Mooncake);
    manifest.classes[1].rule = None;
    let rps = trace_rate_rps(source(&mut manifest), &trace).unwrap();
    assert!((rps - 3.4).abs() < 0.01, "{rps}");
    let schedule = Schedule::generate(&manifest, Load::Open { rps }, 0, Some(&trace), true).unwrap();
    let list = &schedule.measured;
    assert!(arrivals(list).iter().eq(trace.rows.iter().map(|row| &row.at)));
    for request in &list.requests {
        let described: u32 = list.segments_of(request).iter().map(|segment| segment.len).sum();
        assert_eq!(described, request.input_tokens);
    }
}
