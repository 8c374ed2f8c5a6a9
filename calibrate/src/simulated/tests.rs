#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;
use crate::loads::Builder;
use crate::testing::engine;
use scaleproof_pack::record::Record;
use scaleproof_pack::time::Nanos;

#[derive(Default)]
struct Kept(Vec<Record>);

impl Observer for Kept {
    fn record(&mut self, record: &Record) {
        self.0.push(record.clone());
    }
}

fn list(gap_s: Option<f64>) -> Builder {
    let mut list = Builder::default();
    for i in 0..40 {
        list.add(gap_s.map(|gap_s| gap_s * f64::from(i)), (300, 20), &[]).unwrap();
    }
    list
}

fn run(simulated: SimulatedEngine) -> Vec<Record> {
    run_on(simulated, &list(None).closed(3))
}

fn run_on(mut simulated: SimulatedEngine, schedule: &Schedule) -> Vec<Record> {
    let mut kept = Kept::default();
    simulated.run(schedule, Enough { successes: 0, max_requests: 0 }, &mut kept).unwrap();
    kept.0
}

fn records(quirks: Quirks) -> Vec<Record> {
    run(SimulatedEngine::alone(engine(), quirks).telling_tokens())
}

fn ends(quirks: Quirks) -> Vec<Nanos> {
    records(quirks).iter().map(|record| record.ended).collect()
}

#[test]
fn every_token_has_its_time() {
    for quirks in [Quirks::default(), Quirks { network_ms: 7.0, request_sd: 0.1, ..Quirks::default() }] {
        for record in records(quirks) {
            let wire = record.wire.as_ref().unwrap();
            assert_eq!(wire.chunks.len(), 20);
            assert_eq!(Some(wire.chunks[0].0), record.first_token);
            assert_eq!(wire.chunks[19].0, record.ended);
            assert!(wire.chunks.is_sorted());
            let delay_ms = wire.headers.unwrap().since(record.sent).millis();
            assert!((delay_ms - quirks.network_ms).abs() < 1e-6, "{delay_ms}");
        }
    }
}

#[test]
fn an_engine_without_quirks_does_what_the_simulator_does_tokens_told_or_not() {
    let silent = run(SimulatedEngine::alone(engine(), Quirks::default()));
    let told = ends(Quirks::default());
    assert_eq!(silent.iter().map(|record| record.ended).collect::<Vec<_>>(), told);
    assert!(silent.iter().all(|record| record.wire.as_ref().unwrap().chunks.is_empty()));
}

#[test]
fn noise_moves_the_times_and_repeats_by_its_seed() {
    let still = ends(Quirks::default());
    for quirks in [
        Quirks { step_sd: 0.05, seed: 3, ..Quirks::default() },
        Quirks { run_sd: 0.05, seed: 3, ..Quirks::default() },
        Quirks { request_sd: 0.05, seed: 3, ..Quirks::default() },
        Quirks { hiccups: 0.2, seed: 3, ..Quirks::default() },
    ] {
        assert_eq!(ends(quirks), ends(quirks));
        assert_ne!(ends(quirks), still, "{quirks}");
        assert_ne!(ends(quirks), ends(Quirks { seed: 4, ..quirks }), "{quirks}");
    }
    for slow in [
        Quirks { drift_per_hour: 3600.0, ..Quirks::default() },
        Quirks { speed: 1.1, ..Quirks::default() },
        Quirks { steps: 1.1, ..Quirks::default() },
    ] {
        assert!(ends(slow)[0] > still[0], "{slow}");
    }
    let drifting = Quirks { drift_per_run: 0.1, ..Quirks::default() };
    let later = run(SimulatedEngine::alone(engine(), drifting).telling_tokens().after_runs(5));
    assert_eq!(ends(drifting), still);
    assert!(later[0].ended > still[0]);
}

#[test]
fn a_pinning_router_keeps_to_its_share_and_one_target_hides_it() {
    let run = |quirks: Quirks, schedule: &Schedule| {
        let mut simulated = SimulatedEngine::alone(engine(), quirks);
        (simulated.config.replicas, simulated.facts.replicas) = (4, if quirks.one_target { 1 } else { 4 });
        run_on(simulated, schedule)
    };
    let open = list(Some(0.1)).open(10.0);
    let on_first = |records: &[Record]| records.iter().filter(|record| record.replica == Some(0)).count();
    let pinned = Quirks { pinned: 0.75, ..Quirks::default() };
    let (usual, bent) = (run(Quirks::default(), &open), run(pinned, &open));
    assert_eq!(on_first(&usual), 10, "round robin");
    // Thirty of forty, and of the others those that come round to it.
    assert!((30..35).contains(&on_first(&bent)), "{}", on_first(&bent));
    assert_eq!(on_first(&run(pinned, &list(None).closed(4))), 10, "no open loop");
    let hidden = run(Quirks { one_target: true, ..pinned }, &open);
    assert!(hidden.iter().all(|record| record.replica.is_none()));
}
