#![allow(clippy::unwrap_used, reason = "a test may panic")]

use super::*;
use crate::posterior::{Measured, fit};
use crate::testing::engine;
use crate::trial::{Metric, Statistic};
use scaleproof_pack::import::import;
use scaleproof_pack::schedule::Release;
use scaleproof_sim::profile::uncertainty::{Correction, Knob};

fn assumed() -> Assumed {
    Assumed {
        input_tokens: None,
        output_tokens: None,
        spread: Spread::Fixed,
        draws: 2,
        workload: None,
        prefix_caching: true,
    }
}

fn points(text: &str) -> Vec<Run> {
    import("points.yaml", text.as_bytes(), None).unwrap()
}

const POINTS: &str = "\
label: small
points:
  - {concurrency: 4, input_tokens: {distribution: uniform, min: 100, max: 300}, output_tokens: 20, requests: 40, ttft_mean_ms: 20}
  - {rate: 5, input_tokens: 200, output_tokens: 20, requests: 50, tpot_mean_ms: 8}
  - {rate: inf, input_tokens: 200, output_tokens: 20, requests: 30, tpot_mean_ms: 8}
";

fn trials(text: &str, assumed: &Assumed) -> Vec<PointTrial> {
    points(text).iter().map(|run| point_trial(run, assumed).unwrap()).collect()
}

#[test]
fn a_point_gives_the_load_that_it_had() {
    let trials = trials(POINTS, &assumed());
    let [closed, open, burst] = &trials[..] else { panic!("{trials:?}") };
    let schedules = &closed.measured.trial.schedules;
    assert_eq!(schedules.len(), 2, "lengths are drawn");
    assert_eq!(schedules[0].load, Load::Closed { concurrency: 4 });
    assert!(schedules[0].measured.requests.iter().all(|r| (100..=300).contains(&r.input_tokens)));
    assert_ne!(schedules[0].measured.requests, schedules[1].measured.requests);
    assert_eq!(open.measured.trial.label, "5 requests/s, 200 in, 20 out");
    let last = open.measured.trial.schedules[0].measured.requests.last().unwrap();
    assert_eq!(last.release, Release::At(scaleproof_pack::time::Nanos::from_seconds(10.0).unwrap()));
    let first = |t: &PointTrial| {
        t.measured.trial.schedules[0]
            .measured
            .requests
            .iter()
            .all(|r| r.release == Release::At(scaleproof_pack::time::Nanos::ZERO))
    };
    assert!(first(burst) && burst.measured.trial.schedules.len() == 1, "nothing is drawn");
    assert!(
        burst.notes.iter().any(|note| note.contains("all prompts have the mean length, 200")),
        "{:?}",
        burst.notes
    );
}

#[test]
fn a_spread_keeps_the_mean() {
    for spread in [Spread::Uniform(0.5), Spread::Lognormal(1.0)] {
        let lengths = Side::Mean(400.0).lengths(40_000, spread, 0, "test");
        let mean = lengths.iter().map(|l| f64::from(*l)).sum::<f64>() / 40_000.0;
        assert!((mean / 400.0 - 1.0).abs() < 0.02, "{spread:?}: {mean}");
        assert!(lengths.iter().any(|l| *l != 400));
    }
}

#[test]
fn requests_that_are_listed_are_taken_as_they_were_sent() {
    let text = "request_id,class,ttft_ms,tpot_ms,e2e_ms,output_tokens,status,scheduled_s,sent_s,input_tokens\n\
                a,c,10,2,30,11,ok,0,1.5,100\nb,c,12,2,52,21,ok,0,1,200\nc,c,0,0,0,0,error,0,2,300\n";
    let mut run = import("requests.csv", text.as_bytes(), None).unwrap().remove(0);
    run.requests[0].sent = Some(scaleproof_pack::time::Nanos::from_seconds(0.5).unwrap());
    run.requests[1].sent = Some(scaleproof_pack::time::Nanos::ZERO);
    for (request, tokens) in run.requests.iter_mut().zip([100, 200, 300]) {
        request.input_tokens = Some(tokens);
    }
    let trial = point_trial(&run, &assumed()).unwrap().measured.trial;
    let lengths: Vec<(u32, u32)> =
        trial.schedules[0].measured.requests.iter().map(|r| (r.input_tokens, r.output_tokens)).collect();
    assert_eq!(lengths, [(200, 21), (100, 11)], "by time, failures left out");
    assert_eq!(trial.schedules.len(), 1);
}

#[test]
fn what_is_not_known_is_said() {
    let fault = |row: &str| {
        let runs = points(&format!("points:\n  - {{{row}}}\n"));
        point_trial(&runs[0], &assumed()).unwrap_err().to_string()
    };
    assert!(fault("concurrency: 2, input_tokens: 9, output_tokens: 9").starts_with("latencies: found none"));
    assert!(fault("input_tokens: 9, output_tokens: 9, ttft_mean_ms: 9").starts_with("load: found neither"));
    assert!(
        fault("rate: 1, output_tokens: 9, ttft_mean_ms: 9").starts_with("input_tokens: found no lengths")
    );
    assert!(
        fault("rate: 1, input_tokens: 0, output_tokens: 9, ttft_mean_ms: 9")
            .contains("expected a mean from 1")
    );
    let many = "rate: 1, requests: 9000000000, input_tokens: 9, output_tokens: 9, ttft_mean_ms: 9";
    assert!(fault(many).starts_with("requests: found 9000000000"));
    assert!(
        fault("concurrency: 4000000000, input_tokens: 9, output_tokens: 9, ttft_mean_ms: 9")
            .contains("concurrency")
    );
}

#[test]
fn prefix_hits_of_a_point_are_simulated_and_no_cold_engine_takes_them() {
    let trial = |share: &str, assumed: &Assumed| {
        let row = format!(
            "points:\n  - {{concurrency: 2, input_tokens: 2000, output_tokens: 8, requests: 40, ttft_mean_ms: 9{share}}}\n"
        );
        point_trial(&points(&row)[0], assumed)
    };
    let ttft_ms = |share: &str| {
        let served = trial(share, &assumed()).unwrap().measured.trial.serve(&engine()).unwrap();
        Trial::mean(&served, Metric::Ttft(Statistic::Mean)).unwrap()
    };
    let [cold, half, most] =
        ["0", "0.5", "0.9"].map(|share| ttft_ms(&format!(", prefix_hit_share: {share}")));
    assert!(half < 0.8 * cold && most < 0.8 * half, "{cold}, {half}, {most}");
    assert_eq!(ttft_ms("").to_bits(), cold.to_bits(), "cold, where the point does not say");
    let said = |share: &str| trial(share, &assumed()).unwrap().notes.join("\n");
    assert!(said("").contains("the cache is taken as cold"), "{}", said(""));
    assert!(!said(", prefix_hit_share: 0").contains("prefix_hit_share"));
    let without = Assumed { prefix_caching: false, ..assumed() };
    assert!(trial("", &without).unwrap().notes.iter().all(|note| !note.contains("prefix_hit_share")));
    let refused = trial(", prefix_hit_share: 0.5", &without).unwrap_err().to_string();
    assert!(refused.starts_with("prefix_hit_share: found 0.5; expected 0 of an engine without"), "{refused}");
}

/// Points that the simulator itself made with other factors: the fit finds them.
#[test]
fn known_factors_are_recovered() {
    let prior = engine();
    let truth = Correction { factors: vec![(Knob::Weights, 1.12), (Knob::FrontEnd, 2.0)] };
    let real = prior.corrected(&truth).unwrap();
    let table = "\
points:
  - {concurrency: 1, input_tokens: 300, output_tokens: 24, requests: 6, ttft_mean_ms: 1, tpot_mean_ms: 1}
  - {concurrency: 16, input_tokens: 300, output_tokens: 24, requests: 48, ttft_mean_ms: 1, tpot_mean_ms: 1}
  - {rate: 20, input_tokens: 1200, output_tokens: 24, requests: 60, ttft_mean_ms: 1, tpot_mean_ms: 1}
";
    let mut measured: Vec<Measured> = trials(table, &assumed()).into_iter().map(|t| t.measured).collect();
    for m in &mut measured {
        let served = m.trial.serve(&real).unwrap();
        for observation in &mut m.observations {
            observation.value = Trial::mean(&served, observation.metric).unwrap();
        }
        widen_by_draws(m, &prior).unwrap();
    }
    let wide = &measured[2].observations[0];
    assert!(wide.relative_sd > noise_of(wide.metric).unwrap(), "arrivals are drawn");
    let fitted = fit(&prior, &measured).unwrap();
    for (knob, factor) in truth.factors {
        let found = fitted.profile.provenance.factors.factor(knob);
        assert!((found / factor).ln().abs() < 0.04, "{}: {found}, not {factor}", knob.word());
    }
    let factors = &fitted.profile.uncertainty.as_ref().unwrap().factors;
    assert!(factors.iter().find(|f| f.knob == Knob::Weights).unwrap().identified());
    let context = factors.iter().find(|f| f.knob == Knob::DecodeContext).unwrap();
    assert!(!context.identified(), "contexts this short say nothing: {}", context.sd());
    assert!(fitted.misfit < 0.5, "{}", fitted.misfit);
}
