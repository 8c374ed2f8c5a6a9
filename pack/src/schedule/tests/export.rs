//! The schedule in other tools' formats, read back.

use super::*;
use crate::manifest::TraceFormat;
use crate::trace::Trace;
use serde_json::Value;

fn export(schedule: &Schedule, tool: ReplayTool, block_tokens: u32) -> (String, Exported) {
    let mut out = Vec::new();
    let exported = write_replay(schedule, tool, block_tokens, &mut out).unwrap();
    (String::from_utf8(out).unwrap(), exported)
}

fn grouped(tokens: u32) -> Manifest {
    let mut manifest = small();
    let group = |name: &str| PrefixGroup {
        name: name.into(),
        tokens,
        weight: 1.0,
        classes: vec!["interactive".into(), "long_context".into()],
    };
    manifest.prefix_groups = vec![group("a"), group("b")];
    manifest
}

/// Warm-up and measured requests in the order of the file.
fn requests(schedule: &Schedule) -> Vec<(Part, u64, Planned, &PlannedList)> {
    let lists = [(Part::Warmup, &schedule.warmup), (Part::Measured, &schedule.measured)];
    let of = |(part, list): (Part, &'_ PlannedList)| {
        let numbered: Vec<_> = (0..).zip(list.requests.clone()).collect();
        numbered.into_iter().map(move |(id, request)| (part, id, request))
    };
    let lists_of = |part| if part == Part::Warmup { &schedule.warmup } else { &schedule.measured };
    lists.into_iter().flat_map(of).map(|(part, id, request)| (part, id, request, lists_of(part))).collect()
}

/// Every token of a prompt.
fn prompt((part, id, request, list): &(Part, u64, Planned, &PlannedList)) -> Vec<(u64, u32)> {
    let segments = list.segments_of(request).iter();
    let mut tokens: Vec<_> =
        segments.flat_map(|s| (s.start..s.start + s.len).map(|index| (s.stream.0, index))).collect();
    let rest = tokens.len() as u32..request.input_tokens;
    tokens.extend(rest.map(|index| (part.unique(*id).0, index)));
    tokens
}

#[test]
fn milliseconds_come_back_to_the_nanosecond() {
    let schedule = generate(&grouped(700), OPEN);
    let (text, exported) = export(&schedule, ReplayTool::Aiperf, 512);
    let trace = Trace::parse("t", TraceFormat::Mooncake, text.as_bytes()).unwrap();
    let planned = requests(&schedule);
    let first = match planned[0].2.release {
        Release::At(at) => at,
        _ => panic!(),
    };
    assert_eq!(trace.rows.len(), planned.len());
    for (row, (_, _, request, _)) in trace.rows.iter().zip(&planned) {
        assert_eq!(Release::At(first + row.at), request.release);
        assert_eq!((row.input_tokens, row.output_tokens), (request.input_tokens, request.output_tokens));
    }
    assert_eq!(exported.requests, planned.len() as u64);
    assert_eq!(exported.warmup_requests, schedule.warmup.requests.len() as u64);
    assert!(exported.unshared_tokens > 0, "188 tokens of a prefix lie in a block with others");
}

#[test]
fn two_prompts_share_ids_exactly_as_far_as_they_share_blocks() {
    for (manifest, block) in [(grouped(700), 512), (grouped(700), 16), (grouped(640), 64), (small(), 16)] {
        let schedule = generate(&manifest, OPEN);
        let (text, _) = export(&schedule, ReplayTool::VllmBench, block);
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let planned = requests(&schedule);
        let step = planned.len() / 40;
        for i in (0..planned.len()).step_by(step) {
            for j in (0..i).step_by(step) {
                let same = |a: &[(u64, u32)], b: &[(u64, u32)]| a == b;
                let (a, b) = (prompt(&planned[i]), prompt(&planned[j]));
                let (a, b) = (a.chunks(block as usize), b.chunks(block as usize));
                let shared = a.zip(b).take_while(|(a, b)| same(a, b)).count();
                let (a, b) =
                    (rows[i]["hash_ids"].as_array().unwrap(), rows[j]["hash_ids"].as_array().unwrap());
                assert_eq!(a.iter().zip(b).take_while(|(a, b)| a == b).count(), shared, "{i} and {j}");
                assert!(a[shared..].iter().all(|id| !b.contains(id)), "{i} and {j}");
            }
        }
    }
}

#[test]
fn guidellm_counts_seconds() {
    let schedule = generate(&small(), OPEN);
    let (milliseconds, _) = export(&schedule, ReplayTool::VllmBench, 16);
    let (seconds, _) = export(&schedule, ReplayTool::Guidellm, 16);
    for (ms, s) in milliseconds.lines().zip(seconds.lines()) {
        let time = |line: &str| serde_json::from_str::<Value>(line).unwrap()["timestamp"].as_f64().unwrap();
        assert!((time(ms) / 1e3 - time(s)).abs() < 1e-9, "{ms} {s}");
    }
}

#[test]
fn cold_prompts_share_no_id_and_lose_nothing() {
    let schedule = Schedule::generate(&grouped(700), OPEN, 0, None, false).unwrap();
    let (text, exported) = export(&schedule, ReplayTool::Guidellm, 512);
    let ids: Vec<u64> = text
        .lines()
        .flat_map(|line| serde_json::from_str::<Value>(line).unwrap()["hash_ids"].as_array().unwrap().clone())
        .map(|id| id.as_u64().unwrap())
        .collect();
    assert_eq!(ids, (0..ids.len() as u64).collect::<Vec<u64>>());
    assert_eq!(exported.unshared_tokens, 0);
}

#[test]
fn what_has_no_time_of_its_own_is_refused() {
    let schedule = generate(&small(), Load::Closed { concurrency: 3 });
    let result = write_replay(&schedule, ReplayTool::Aiperf, 512, Vec::new());
    assert!(matches!(result, Err(ExportError::Untimed)));
}
