use super::*;
use crate::schedule::PlannedList;

const ENOUGH: Enough = Enough { successes: 0, max_requests: 0 };

fn request(release: Release) -> Planned {
    Planned {
        release,
        class: 0,
        priority: 0,
        input_tokens: 10,
        output_tokens: 1,
        cancel_after: None,
        segments_from: 0,
        segments_len: 0,
    }
}

fn schedule(load: Load, releases: &[Release]) -> Schedule {
    let requests = releases.iter().map(|&release| request(release)).collect();
    Schedule::of(load, PlannedList { requests, segments: Vec::new() })
}

fn measured(index: u64) -> RequestRef {
    RequestRef { warmup: false, index }
}

#[test]
fn an_open_loop_does_not_wait_and_a_turn_follows_the_end_of_the_turn_before_it() {
    let turn = Release::After { predecessor: 0, delay: Nanos(5) };
    let schedule = schedule(Load::Open { rps: 1.0 }, &[Release::At(Nanos(1)), turn, Release::At(Nanos(2))]);
    let mut workload = Workload::new(&schedule, ENOUGH);
    assert_eq!(workload.next_client(), None);
    assert_eq!(workload.next_arrival(), Some((Nanos(1), measured(0))));
    assert_eq!(workload.next_arrival(), Some((Nanos(2), measured(2))));
    assert_eq!(workload.next_arrival(), None);
    assert_eq!(workload.ended(measured(0), Outcome::Error, Nanos(9)), Some((Nanos(14), measured(1))));
    assert_eq!(workload.ended(measured(2), Outcome::Ok, Nanos(9)), None);
}

#[test]
fn a_closed_loops_client_takes_the_next_request_when_its_own_has_ended() {
    let free = Release::WhenFree { think: Nanos(3) };
    let schedule = schedule(Load::Closed { concurrency: 2 }, &[free; 3]);
    let mut workload = Workload::new(&schedule, ENOUGH);
    assert_eq!(workload.next_arrival(), None);
    let begun: Vec<_> = std::iter::from_fn(|| workload.next_client()).collect();
    assert_eq!(begun, [(Nanos(3), measured(0)), (Nanos(3), measured(1))]);
    assert_eq!(workload.ended(measured(1), Outcome::Ok, Nanos(10)), Some((Nanos(13), measured(2))));
    assert_eq!(workload.ended(measured(0), Outcome::Ok, Nanos(11)), None);
}
