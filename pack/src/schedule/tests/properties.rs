//! What holds for every manifest.

use super::*;
use proptest::prelude::*;

fn any_lengths() -> impl Strategy<Value = Distribution> {
    prop_oneof![
        (1..3000_u32).prop_map(|tokens| Distribution::Fixed(f64::from(tokens))),
        (1..50_u32, 50..3000_u32)
            .prop_map(|(min, max)| Distribution::Uniform { min: f64::from(min), max: f64::from(max) }),
        (1.0..500.0).prop_map(|mean| Distribution::Geometric { mean }),
        (1.0..500.0, 0.0..3.0).prop_map(|(median, sigma)| Distribution::Lognormal {
            median,
            sigma,
            min: 1.0,
            max: 1e7
        }),
    ]
}

fn any_pattern() -> impl Strategy<Value = ArrivalPattern> {
    let piece =
        (0.1..50.0, 0.0..5.0, 0.1..5.0).prop_map(|(seconds, from, to)| RatePiece { seconds, from, to });
    prop_oneof![
        Just(ArrivalPattern::Constant),
        Just(ArrivalPattern::Poisson),
        (0.05..20.0).prop_map(|shape| ArrivalPattern::Gamma { shape }),
        prop::collection::vec(piece, 1..5).prop_map(|pieces| ArrivalPattern::Piecewise { pieces }),
    ]
}

prop_compose! {
    fn any_manifest()(
        counts in prop::array::uniform3(0..60_u64),
        turns in prop::array::uniform3(1..6_u32),
        lengths in prop::array::uniform3((any_lengths(), any_lengths())),
        pattern in any_pattern(),
        tokens in 0..4000_u32,
        probability in 0.0..1.0,
        minimum in 0.0..5.0,
    ) -> Manifest {
        let mut manifest = small();
        manifest.client.class_schedule_counts = counts.to_vec();
        manifest.client.arrivals = pattern;
        manifest.client.minimum_duration_seconds = minimum;
        let after_seconds = Distribution::Fixed(1.0);
        manifest.client.cancellation = Some(Cancellation { probability, after_seconds });
        manifest.prefix_groups = vec![group("a", tokens, 1.0, &["interactive"]), group("b", 100, 1.0, &[])];
        for ((class, (input, output)), turns) in manifest.classes.iter_mut().zip(lengths).zip(turns) {
            (class.input_tokens, class.output_tokens) = (input, output);
            let think_seconds = Distribution::Fixed(0.5);
            class.session = (turns > 1).then_some(Session { turns, think_seconds });
        }
        manifest
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn every_schedule_is_consistent(manifest in any_manifest(), rps in 0.5..100.0, open: bool, shared: bool) {
        let load = if open { Load::Open { rps } } else { Load::Closed { concurrency: 3 } };
        let schedule = Schedule::generate(&manifest, load, 0, None, shared).unwrap();
        let total: u64 = manifest.client.class_schedule_counts.iter().sum();
        let mut first = schedule.measured.clone();
        first.requests.truncate(total as usize);
        for (count, planned) in manifest.client.class_schedule_counts.iter().zip(counts(&first)) {
            prop_assert_eq!(*count, planned as u64);
        }
        let last = arrivals(&schedule.measured).last().map_or(5.0, |at| at.since(schedule.window_from).seconds());
        prop_assert!(!open || last >= manifest.client.minimum_duration_seconds);
        for list in [&schedule.warmup, &schedule.measured] {
            prop_assert!(arrivals(list).windows(2).all(|pair| pair[0] <= pair[1]));
            for (id, request) in (0..).zip(&list.requests) {
                let segments = list.segments_of(request);
                let described: u64 = segments.iter().map(|segment| u64::from(segment.len)).sum();
                prop_assert!(described <= u64::from(request.input_tokens) && request.output_tokens > 0);
                prop_assert!(shared || segments.is_empty());
                if let Release::After { predecessor, .. } = request.release {
                    let before = &list.requests[predecessor as usize];
                    prop_assert_eq!((predecessor + 1, before.class), (id, request.class));
                    prop_assert!(request.input_tokens > before.input_tokens + before.output_tokens);
                }
            }
        }
    }
}
