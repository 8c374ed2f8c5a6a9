#![allow(missing_docs, clippy::all, clippy::pedantic)]
use rand::seq::SliceRandom;
use rand_distr::Distribution;
use scaleproof_pack::{chance, experiment::*, record::*, schedule::*, time::Nanos, timeline::*};
use scaleproof_sim::{
    engine::{vllm::VllmScheduler, *},
    step_time::*,
    *,
};
struct Obs {
    r: Vec<Record>,
    rows: Vec<TimelineRow>,
}
impl Observer for Obs {
    fn record(&mut self, r: &Record) {
        self.r.push(r.clone())
    }
    fn sample(&mut self, r: &TimelineRow) {
        self.rows.push(*r)
    }
}
fn main() {
    let a: Vec<f64> = std::env::args().skip(1).map(|x| x.parse().unwrap()).collect();
    let (base, tok, kdec, kpair, row, budget, blocks) =
        (a[0], a[1], a[2], a[3], a[4], a[5] as u32, a[6] as u32);
    let fe = a[7];
    for rps in [16.0, 20.0, 24.0, 28.0] {
        let seed = a.get(8).map_or(20260829, |s| *s as u64);
        let mut order: Vec<u16> =
            [(0u16, 15400), (1, 4400), (2, 2200)].iter().flat_map(|&(c, n)| vec![c; n]).collect();
        order.shuffle(&mut chance::stream(seed, 0, "class order"));
        let mut arr = chance::stream(seed, 0, "arrivals");
        let mk = |order: &[u16], t: &mut f64, arr: &mut chance::Stream| {
            let mut l = PlannedList::default();
            for &c in order {
                let e: f64 = rand_distr::Exp1.sample(arr);
                *t += e / rps;
                if *t >= 60.0 && l.segments.is_empty() && order.len() < 2000 {
                    break;
                }
                let (i, o) = [(1024, 128), (8192, 256), (512, 1024)][c as usize];
                l.requests.push(Planned {
                    release: Release::At(Nanos::from_seconds(*t).unwrap()),
                    class: c,
                    priority: 0,
                    input_tokens: i,
                    output_tokens: o,
                    cancel_after: None,
                    segments_from: 0,
                    segments_len: 0,
                });
            }
            l
        };
        let mut t = 0.0;
        let mut wo = order[..(60.0 * rps) as usize].to_vec();
        wo.shuffle(&mut chance::stream(seed, 0, "w"));
        let warm = mk(&wo, &mut t, &mut chance::stream(seed, 0, "warmup"));
        let mut t = 60.0f64;
        let meas = mk(&order, &mut t, &mut arr);
        let s = Schedule {
            seed,
            run: 0,
            load: Load::Open { rps },
            warmup: warm,
            measured: meas,
            window_from: Nanos::from_seconds(60.0).unwrap(),
            hash: String::new(),
        };
        let engine = EngineConfig {
            num_blocks: blocks,
            block_size: 16,
            max_num_batched_tokens: budget,
            max_num_seqs: a.get(9).map_or(256, |x| *x as u32),
            max_model_len: 16384,
            async_scheduling: true,
            ..EngineConfig::default()
        };
        let cfg = RunConfig {
            replicas: 4,
            step_time: StepTime {
                coefficients: Coefficients {
                    base_us: base,
                    batch_token_knots: vec![(256.0, 0.0), (8192.0, tok * (8192.0 - 256.0))],
                    decode_context_token_us: kdec,
                    prefill_pair_us: kpair,
                    prefill_context_token_us: 0.0,
                    row_us: row,
                    sampled_row_us: 0.0,
                },
                host: HostCost::default(),
            },
            front_end: FrontEnd {
                request: Nanos::from_millis(fe).unwrap(),
                prompt_token_us: 0.0,
                output_token: Nanos::ZERO,
            },
            limits: ServerLimits {
                max_request_tokens: 16384,
                max_queued_requests: None,
                max_queued_tokens: None,
            },
            router: scaleproof_policy::RouterPolicy::LeastOutstanding,
            poll_interval: None,
            timeout: None,
            ttft_timeout: None,
            sample_interval: Nanos::from_seconds(1.0).unwrap(),
            enough: Enough { successes: 2000, max_requests: 22000 },
        };
        let mut o = Obs { r: vec![], rows: vec![] };
        let t0 = std::time::Instant::now();
        let sum = run(&cfg, &s, &|| Box::new(VllmScheduler::new(&engine).unwrap()), &mut o).unwrap();
        let el = t0.elapsed().as_secs_f64();
        let pct = |mut v: Vec<f64>, p: f64| {
            v.sort_by(f64::total_cmp);
            if v.is_empty() { 0.0 } else { v[((p * v.len() as f64).ceil() as usize).max(1) - 1] }
        };
        let cut = [(500.0, 40.0), (2500.0, 50.0), (800.0, 45.0)];
        let m: Vec<&Record> = o.r.iter().filter(|r| !r.warmup).collect();
        print!(
            "{rps}: {el:.2}s ev {} steps {} ",
            sum.events,
            sum.replicas.iter().map(|r| r.steps).sum::<u64>()
        );
        for c in 0..3u16 {
            let rc: Vec<_> = m.iter().filter(|r| r.class == c && r.outcome == Outcome::Ok).collect();
            let ok = rc
                .iter()
                .filter(|r| {
                    r.ttft().unwrap().millis() <= cut[c as usize].0
                        && r.tpot_ms().unwrap() <= cut[c as usize].1
                })
                .count();
            let tt: Vec<f64> = rc.iter().map(|r| r.ttft().unwrap().millis()).collect();
            let tp: Vec<f64> = rc.iter().map(|r| r.tpot_ms().unwrap()).collect();
            print!(
                "| c{c} att {:.2}% p95 ttft {:.0} tpot {:.1} (p50 {:.0} {:.1}) ",
                100.0 * ok as f64 / rc.len() as f64,
                pct(tt.clone(), 0.95),
                pct(tp.clone(), 0.95),
                pct(tt, 0.5),
                pct(tp, 0.5)
            );
        }
        println!(
            "busy {:.2} maxwait {} pre {}",
            sum.replicas.iter().map(|r| r.busy.seconds()).sum::<f64>() / 4.0 / sum.ended.seconds(),
            o.rows.iter().map(|r| r.waiting).max().unwrap(),
            o.r.iter().map(|r| r.preemptions).sum::<u32>()
        );
    }
}
