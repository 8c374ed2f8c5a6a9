use crate::engine::vllm::VllmScheduler;
use crate::engine::{EngineConfig, EngineRequest};
use crate::replica::Replica;
use crate::step_time::{Coefficients, HostCost, StepTime};
use scaleproof_pack::prompt::{Segment, TokenStream};
use scaleproof_pack::time::Nanos;

const MS: u64 = 1_000_000;

fn model() -> StepTime {
    let eager = Coefficients {
        base_us: 10_000.0,
        batch_token_knots: vec![(16.0, 0.0), (512.0, 4_000.0)],
        decode_context_token_us: 0.37,
        prefill_pair_us: 0.01,
        prefill_context_token_us: 0.0,
        row_us: 11.3,
        sampled_row_us: 0.0,
        launch_us: 0.0,
        decode_wave_rows: 0.0,
    };
    StepTime { graphs: None, eager, host: HostCost::default(), hardware: None }
}

/// A replica whose steps are handled one event at a time, with or without looking ahead.
struct Driven {
    replica: Replica,
    ahead: bool,
    events: u32,
}

impl Driven {
    fn new(engine: &EngineConfig, ahead: bool) -> Driven {
        Driven { replica: Replica::new(Box::new(VllmScheduler::grouping(engine).unwrap())), ahead, events: 0 }
    }

    fn launch(&mut self, now: Nanos) {
        while self.replica.launch(now, &model()).unwrap().is_some_and(|launched| launched.span.is_some()) {}
        if self.ahead {
            self.replica.look_ahead(&model());
        }
    }

    fn add(&mut self, id: u64, max_tokens: u32, now: Nanos) {
        self.until(now);
        self.replica.forget_foreseen();
        let prompt = vec![Segment { stream: TokenStream::unique(id), start: 0, len: 20 + id as u32 }];
        let output = TokenStream::output(id);
        self.replica.add(EngineRequest { id, prompt, output, max_tokens, priority: 0 });
        if self.replica.is_idle() {
            self.launch(now);
        }
    }

    fn until(&mut self, now: Nanos) {
        while let Some(end) = self.replica.next_end().filter(|end| end.at <= now) {
            self.replica.catch_up_whole();
            assert_eq!(self.replica.end_at(0), Some(end));
            self.replica.complete(&mut Vec::new());
            self.launch(end.at);
            self.events += 1;
        }
        self.replica.catch_up(now, true);
    }
}

#[test]
fn whoever_looks_sees_what_steps_one_by_one_would_show() {
    for async_scheduling in [false, true] {
        for num_blocks in [400, 40] {
            let engine = EngineConfig { async_scheduling, num_blocks, ..EngineConfig::default() };
            let (mut plain, mut ahead) = (Driven::new(&engine, false), Driven::new(&engine, true));
            for look in 0..250 {
                let now = Nanos(look * 23 * MS);
                for driven in [&mut plain, &mut ahead] {
                    match look {
                        0 | 3 | 60 | 61 => driven.add(look, 150 + look as u32, now),
                        _ => driven.until(now),
                    }
                }
                let seen = |driven: &Driven| {
                    let replica = &driven.replica;
                    (replica.totals(), replica.engine().load(), replica.engine_totals(), replica.end_at(0))
                };
                assert_eq!(seen(&plain), seen(&ahead), "at {now:?}");
            }
            assert!(plain.replica.is_idle() && plain.events > 250, "{} steps", plain.events);
            assert!(num_blocks < 400 || ahead.events * 4 < plain.events, "{} events", ahead.events);
        }
    }
}
