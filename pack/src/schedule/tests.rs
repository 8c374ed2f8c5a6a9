mod export;
mod properties;
mod replay;

use super::*;
use crate::manifest::{Cancellation, Distribution, PrefixGroup, RatePiece, Session};

const WORKED: &str = include_str!("../../../scenarios/tp2-dp4/workload-manifest.yaml");

fn worked() -> Manifest {
    Manifest::parse("m", WORKED).unwrap()
}

/// The worked example with a hundredth of its requests: 154, 44, 22.
fn small() -> Manifest {
    let mut manifest = worked();
    manifest.client.initial_scheduled_requests = 220;
    manifest.client.class_schedule_counts = vec![154, 44, 22];
    manifest.client.minimum_duration_seconds = 0.0;
    manifest.client.warmup_seconds = 2.0;
    manifest
}

const OPEN: Load = Load::Open { rps: 24.0 };

fn generate(manifest: &Manifest, load: Load) -> Schedule {
    Schedule::generate(manifest, load, 0, None, true).unwrap()
}

fn counts(list: &PlannedList) -> [usize; 3] {
    [0, 1, 2].map(|class| list.requests.iter().filter(|request| request.class == class).count())
}

fn classes(list: &PlannedList) -> Vec<u16> {
    list.requests.iter().map(|request| request.class).collect()
}

fn arrivals(list: &PlannedList) -> Vec<Nanos> {
    let at = |request: &Planned| match request.release {
        Release::At(at) => Some(at),
        _ => None,
    };
    list.requests.iter().filter_map(at).collect()
}

#[test]
fn the_worked_example_is_the_schedule_it_always_was() {
    let schedule = Schedule::generate(&worked(), OPEN, 0, None, false).unwrap();
    assert_eq!(counts(&schedule.measured), [15_400, 4_400, 2_200]);
    assert_eq!(schedule.measured.segments, []);
    let times = arrivals(&schedule.measured);
    assert!(times[0] >= Nanos(60_000_000_000) && times.windows(2).all(|pair| pair[0] <= pair[1]));
    let rate = 22_000.0 / times[21_999].since(schedule.window_from).seconds();
    assert!((rate - 24.0).abs() < 0.5, "{rate}");
    let warm = arrivals(&schedule.warmup);
    assert!(
        warm.last().unwrap() < &schedule.window_from && warm.len().abs_diff(1_440) < 120,
        "{}",
        warm.len()
    );
    // Pinned: a new generator, shuffle, sampler or encoding shows here, and is a change of every result.
    assert_eq!(schedule.hash, "76192f29181c9c15716c556090b7f678856e9eb4b181bc4964911ef86dad8688");
}

#[test]
fn whatever_decides_a_run_changes_the_hash() {
    let base = generate(&small(), OPEN);
    assert_eq!(base.hash, generate(&small(), OPEN).hash);
    let mut reseeded = small();
    reseeded.client.request_schedule_seed += 1;
    let others = [
        generate(&small(), Load::Open { rps: 25.0 }).hash,
        generate(&small(), Load::Closed { concurrency: 24 }).hash,
        generate(&reseeded, OPEN).hash,
        Schedule::generate(&small(), OPEN, 1, None, true).unwrap().hash,
        Schedule::generate(&small(), OPEN, 0, None, false).unwrap().hash,
    ];
    for other in &others {
        assert_ne!(*other, base.hash);
        assert_eq!(others.iter().filter(|hash| *hash == other).count(), 1);
    }
}

#[test]
fn rates_share_classes_and_lengths_do_not_move_arrivals() {
    let slow = generate(&small(), Load::Open { rps: 2.0 });
    let fast = generate(&small(), Load::Open { rps: 8.0 });
    assert_eq!(classes(&slow.measured), classes(&fast.measured));
    let (window, pairs) =
        (slow.window_from, arrivals(&slow.measured).into_iter().zip(arrivals(&fast.measured)));
    for (slow, fast) in pairs {
        assert!((slow.since(window).seconds() / 4.0 - fast.since(window).seconds()).abs() < 1e-8);
    }

    let mut longer = small();
    longer.classes[0].input_tokens =
        Distribution::Lognormal { median: 900.0, sigma: 1.0, min: 1.0, max: 1e5 };
    let longer = generate(&longer, Load::Open { rps: 2.0 });
    assert_ne!(longer.measured.requests, slow.measured.requests);
    assert_eq!(arrivals(&longer.measured), arrivals(&slow.measured));
    assert_eq!(classes(&longer.measured), classes(&slow.measured));
    assert_eq!(arrivals(&longer.warmup), arrivals(&slow.warmup));
}

#[test]
fn repeats_are_independent() {
    let other = Schedule::generate(&small(), OPEN, 1, None, true).unwrap();
    let base = generate(&small(), OPEN);
    assert_ne!(classes(&other.measured), classes(&base.measured));
    assert_ne!(arrivals(&other.measured), arrivals(&base.measured));
    assert_eq!(counts(&other.measured), counts(&base.measured));
}

#[test]
fn the_continuation_is_the_same_however_it_is_taken() {
    let schedule = generate(&small(), OPEN);
    let chunks = |count| schedule.continuation().take(count).collect::<Result<Vec<_>, _>>().unwrap();
    let ten = chunks(10);
    assert_eq!(chunks(3), ten[..3]);
    assert_eq!(schedule.clone().continuation().next().unwrap().unwrap(), ten[0]);
    assert_eq!(counts(&ten[0]), [15, 4, 2]);
    assert_eq!(counts(&ten[4]), [16, 5, 3]);
    let mut all = schedule.measured.clone();
    for chunk in ten {
        all.append(chunk).unwrap();
    }
    assert_eq!(counts(&all), [308, 88, 44]);
    let times = arrivals(&all);
    assert!(times.windows(2).all(|pair| pair[0] <= pair[1]));
}

#[test]
fn a_class_with_one_request_comes_back() {
    let mut manifest = small();
    manifest.client.class_schedule_counts = vec![0, 0, 1];
    let chunk = generate(&manifest, OPEN).continuation().next().unwrap().unwrap();
    assert_eq!(counts(&chunk), [0, 0, 1]);
}

#[test]
fn an_empty_schedule_stays_empty() {
    let mut manifest = small();
    manifest.client.class_schedule_counts = vec![0, 0, 0];
    manifest.client.minimum_duration_seconds = 300.0;
    let schedule = generate(&manifest, OPEN);
    assert_eq!((schedule.measured.requests.len(), schedule.warmup.requests.len()), (0, 0));
    assert!(schedule.continuation().next().is_none());
}

#[test]
fn a_short_schedule_is_extended_by_its_continuation() {
    let short = generate(&small(), OPEN);
    let mut manifest = small();
    manifest.client.minimum_duration_seconds = 14.0;
    let long = generate(&manifest, OPEN);
    let (count, more) = (short.measured.requests.len(), long.measured.requests.len());
    assert_eq!(long.measured.requests[..count], short.measured.requests);
    assert!(
        more > count && arrivals(&long.measured)[more - 1].since(long.window_from) >= Nanos(14_000_000_000)
    );
    let mut continued = short.measured.clone();
    let mut chunks = short.continuation();
    while continued.requests.len() < more {
        continued.append(chunks.next().unwrap().unwrap()).unwrap();
    }
    assert_eq!(continued, long.measured);
    assert_eq!(chunks.next(), long.continuation().next());
}

#[test]
fn closed_loops_have_no_times_but_pauses() {
    let mut manifest = small();
    manifest.client.think_time = Some(Distribution::Uniform { min: 1.0, max: 2.0 });
    let schedule = generate(&manifest, Load::Closed { concurrency: 5 });
    assert_eq!((schedule.window_from, schedule.warmup.requests.len()), (Nanos::ZERO, 10));
    assert_eq!(classes(&schedule.measured), classes(&generate(&manifest, OPEN).measured));
    for request in &schedule.measured.requests {
        let Release::WhenFree { think } = request.release else { panic!("{request:?}") };
        assert!((1.0..=2.0).contains(&think.seconds()));
    }
    manifest.client.warmup_seconds = 0.0;
    assert_eq!(generate(&manifest, Load::Closed { concurrency: 5 }).warmup.requests.len(), 0);
}

fn group(name: &str, tokens: u32, weight: f64, classes: &[&str]) -> PrefixGroup {
    PrefixGroup {
        name: name.into(),
        tokens,
        weight,
        classes: classes.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn prefix_groups_share_their_beginning_when_warm_only() {
    let mut manifest = worked();
    manifest.prefix_groups = vec![
        group("a", 600, 3.0, &["interactive"]),
        group("never", 900, 0.0, &[]),
        group("b", 100_000, 1.0, &["interactive", "generation_heavy"]),
    ];
    let schedule = generate(&manifest, OPEN);
    let mut of_group = [0_u32; 3];
    for request in &schedule.measured.requests {
        let segments = schedule.measured.segments_of(request);
        match (request.class, segments) {
            (1, []) => {}
            (0 | 2, [Segment { stream, start: 0, len }]) => {
                let group = stream.as_group().unwrap();
                of_group[group as usize] += 1;
                assert_eq!(*len, if group == 0 { 600 } else { request.input_tokens - 1 });
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((of_group[1], of_group.iter().sum::<u32>()), (0, 17_600));
    let share = f64::from(of_group[0]) / 15_400.0;
    assert!((share - 0.75).abs() < 0.015, "{share}");
    assert!(!schedule.warmup.segments.is_empty());

    let cold = Schedule::generate(&manifest, OPEN, 0, None, false).unwrap();
    assert!(cold.measured.segments.is_empty() && cold.warmup.segments.is_empty());
    assert_eq!(arrivals(&cold.measured), arrivals(&schedule.measured));
    assert_eq!(cold.measured.requests[7].input_tokens, schedule.measured.requests[7].input_tokens);
}

fn with_sessions(turns: u32) -> Manifest {
    let mut manifest = small();
    manifest.classes[0].session = Some(Session { turns, think_seconds: Distribution::Fixed(8.0) });
    manifest
}

#[test]
fn a_session_carries_its_history() {
    let mut manifest = with_sessions(4);
    manifest.prefix_groups = vec![group("system", 24, 1.0, &["interactive"])];
    let schedule = generate(&manifest, OPEN);
    let list = &schedule.measured;
    assert_eq!(counts(list), [154, 44, 22]);
    let (unique, output) = (TokenStream::unique, TokenStream::output);
    let first = list.requests.iter().position(|request| request.class == 0).unwrap();
    let id = first as u64;
    let turn = &list.requests[first + 2];
    let delay = Nanos(8_000_000_000);
    assert_eq!(turn.release, Release::After { predecessor: id + 1, delay });
    assert_eq!(turn.input_tokens, 3 * 1024 + 2 * 128);
    let part = |stream, len| Segment { stream, start: 0, len };
    let whole = [
        part(TokenStream::group(0), 24),
        part(unique(id), 1000),
        part(output(id), 128),
        part(unique(id + 1), 1024),
        part(output(id + 1), 128),
        part(unique(id + 2), 1024),
    ];
    assert_eq!(list.segments_of(turn), whole);
    assert_eq!(list.segments_of(&list.requests[first]), &whole[..2]);
    // 154 turns are 38 sessions of four and one of two.
    let opened = list.requests.iter().filter(|r| r.class == 0 && matches!(r.release, Release::At(_))).count();
    assert_eq!(opened, 39);
    for (id, request) in (0..).zip(&list.requests) {
        if let Release::After { predecessor, .. } = request.release {
            assert_eq!(predecessor + 1, id);
        }
        let lens: u32 = list.segments_of(request).iter().map(|segment| segment.len).sum();
        assert!(lens <= request.input_tokens);
    }
    for chunk in schedule.continuation().take(3) {
        let chunk = chunk.unwrap();
        assert_eq!(counts(&chunk)[0] % 4, 0);
    }
}

#[test]
fn sessions_keep_the_offered_rate() {
    let mut manifest = with_sessions(4);
    manifest.client.class_schedule_counts = vec![154_000, 44_000, 22_000];
    let times = arrivals(&generate(&manifest, OPEN).measured);
    let rate = 220_000.0 / times.last().unwrap().since(Nanos(2_000_000_000)).seconds();
    assert!((rate - 24.0).abs() < 0.3, "{rate}");
}

#[test]
fn cancellations_have_their_share_and_move_nothing_else() {
    let mut manifest = worked();
    let base = generate(&manifest, OPEN);
    let after_seconds = Distribution::Uniform { min: 0.5, max: 2.0 };
    manifest.client.cancellation = Some(Cancellation { probability: 0.25, after_seconds });
    let schedule = generate(&manifest, OPEN);
    let cancelled: Vec<Nanos> = schedule.measured.requests.iter().filter_map(|r| r.cancel_after).collect();
    assert!((cancelled.len() as f64 / 22_000.0 - 0.25).abs() < 0.01, "{}", cancelled.len());
    assert!(cancelled.iter().all(|after| (0.5..=2.0).contains(&after.seconds())));
    let without = |r: &Planned| Planned { cancel_after: None, ..*r };
    assert!(schedule.measured.requests.iter().map(without).eq(base.measured.requests));
}

#[test]
fn what_cannot_be_scheduled_is_an_error() {
    let error = |manifest: &Manifest, load| Schedule::generate(manifest, load, 0, None, true).unwrap_err();
    for rps in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e7] {
        assert!(matches!(error(&small(), Load::Open { rps }), ScheduleError::Rate { .. }), "{rps}");
    }
    assert!(matches!(error(&small(), Load::Open { rps: 1e-9 }), ScheduleError::Time(_)));
    assert!(matches!(error(&worked(), Load::Open { rps: 1e6 }), ScheduleError::TooManyRequests { .. }));
    for concurrency in [0, u32::MAX] {
        let load = Load::Closed { concurrency };
        assert_eq!(error(&small(), load), ScheduleError::Concurrency { concurrency });
    }
    let mut manifest = with_sessions(100);
    manifest.classes[0].input_tokens = Distribution::Fixed(1e6);
    assert_eq!(
        error(&manifest, OPEN),
        ScheduleError::SessionTooLong { class: "interactive".into(), turn: 10 }
    );
}

#[test]
fn a_piecewise_manifest_keeps_its_mean_rate() {
    let mut manifest = worked();
    let pieces = vec![
        RatePiece { seconds: 50.0, from: 1.0, to: 1.0 },
        RatePiece { seconds: 10.0, from: 5.0, to: 5.0 },
    ];
    manifest.client.arrivals = ArrivalPattern::Piecewise { pieces };
    let schedule = generate(&manifest, OPEN);
    let times = arrivals(&schedule.measured);
    let rate = times.len() as f64 / times.last().unwrap().since(schedule.window_from).seconds();
    assert!((rate - 24.0).abs() < 0.7, "{rate}");
    let peak = |at: &&Nanos| at.since(schedule.window_from).seconds() % 60.0 >= 50.0;
    let share = times.iter().filter(peak).count() as f64 / times.len() as f64;
    assert!((share - 0.5).abs() < 0.02, "{share}");
}

#[test]
fn the_table_says_all_there_is() {
    let mut manifest = with_sessions(2);
    manifest.client.class_schedule_counts = vec![3, 1, 0];
    manifest.client.warmup_seconds = 0.0;
    manifest.prefix_groups = vec![group("system", 24, 1.0, &["interactive"])];
    let mut bytes = Vec::new();
    write_csv(&generate(&manifest, OPEN), &manifest, &mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let expected = "\
request_id,phase,class,release,at_s,predecessor,delay_s,input_tokens,output_tokens,priority,cancel_after_s,\
prefix_group,shared_tokens
0,measured,long_context,at,0.104938678,,,8192,256,0,,,0
1,measured,interactive,at,0.112448111,,,1024,128,0,,system,24
2,measured,interactive,after,,1,8.000000000,2176,128,0,,system,1152
3,measured,interactive,at,0.121218743,,,1024,128,0,,system,24
";
    assert_eq!(text, expected);
}

#[test]
fn a_request_stays_small() {
    // Ten million of them, each with a segment, must fit in well under a GiB.
    assert!(size_of::<Planned>() <= 64 && size_of::<Segment>() <= 16);
}
