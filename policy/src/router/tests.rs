use super::*;
use crate::fleet::Polled;
use crate::request::{Alone, Content};
use scaleproof_pack::chance::stream;
use scaleproof_pack::fields::Reader;
use scaleproof_pack::prompt::{Segment, TokenStream};
use scaleproof_pack::time::Nanos;

const REQUEST: RouteRequest<'_> = RouteRequest {
    now: Nanos::ZERO,
    class: 0,
    priority: 0,
    input_tokens: 1,
    output_tokens: 1,
    content: &Alone(0),
};

/// A router by its mapping.
fn read(text: &str) -> RouterPolicy {
    Reader::read("f", text, RouterPolicy::read).unwrap()
}

/// Every router, with its defaults.
fn all() -> Vec<RouterPolicy> {
    Kind::WORDS.iter().map(|(word, _)| read(&format!("policy: {word}"))).collect()
}

/// A request with a session and a prompt.
struct Asked {
    session: u64,
    prompt: Vec<Segment>,
}

impl Content for Asked {
    fn session(&self) -> u64 {
        self.session
    }

    fn prompt(&self) -> Vec<Segment> {
        self.prompt.clone()
    }
}

/// What `router` chooses for a request of `session`, whose prompt begins with `shared` tokens that others have too.
fn ask(router: &mut dyn Router, fleet: &Fleet, session: u64, shared: u32, at_s: u64) -> u32 {
    let own = Segment { stream: TokenStream::unique(session), start: 0, len: 1000 - shared };
    let group = Segment { stream: TokenStream::group(1), start: 0, len: shared };
    let content = Asked { session, prompt: vec![group, own] };
    let now = Nanos(at_s * 1_000_000_000);
    let request = RouteRequest { now, input_tokens: 1000, content: &content, ..REQUEST };
    router.choose(&request, fleet, &mut stream(session, at_s, "router")).unwrap()
}

fn choices(policy: RouterPolicy, fleet: &Fleet, count: usize) -> Vec<u32> {
    let (mut router, mut chance) = (build(policy), stream(1, 0, "router"));
    (0..count).map(|_| router.choose(&REQUEST, fleet, &mut chance).unwrap()).collect()
}

#[test]
fn round_robin_goes_round_and_least_outstanding_breaks_ties_in_turn() {
    let fleet = Fleet::new(3, LoadSource::InFlight);
    assert_eq!(choices(RouterPolicy::RoundRobin, &fleet, 5), [0, 1, 2, 0, 1]);
    assert_eq!(choices(RouterPolicy::LeastOutstanding, &fleet, 5), [0, 1, 2, 0, 1]);
}

#[test]
fn least_connections_remembers_ties_as_nginx_does() {
    let mut fleet = Fleet::new(3, LoadSource::InFlight);
    let (mut router, mut chance) = (build(RouterPolicy::LeastConnections), stream(1, 0, "router"));
    let mut choose = |fleet: &Fleet| router.choose(&REQUEST, fleet, &mut chance).unwrap();
    // Of three alike: sums 1, 1, 1 and so on, by hand.
    assert_eq!([choose(&fleet), choose(&fleet), choose(&fleet)], [0, 1, 2]);
    fleet.sent(0);
    assert_eq!(choose(&fleet), 1, "1 and 2 tie: sums 0, -1, 1");
    fleet.sent(1);
    assert_eq!(choose(&fleet), 2, "alone, and no sum moves");
    fleet.sent(2);
    assert_eq!(choose(&fleet), 2, "the last choice again: sums 1, 0, 2 before");
    assert_eq!(choose(&fleet), 0, "sums 2, 1, 0 before");
}

#[test]
fn least_outstanding_sees_what_its_source_sees() {
    let mut own = Fleet::new(3, LoadSource::InFlight);
    let mut polled = Fleet::new(3, LoadSource::Polled);
    for fleet in [&mut own, &mut polled] {
        fleet.sent(0);
        fleet.sent(1);
        fleet.polled(2, Polled { waiting: 4, running: 5, kv_usage: 0.5 });
    }
    assert_eq!(choices(RouterPolicy::LeastOutstanding, &own, 2), [2, 2]);
    assert_eq!(choices(RouterPolicy::LeastOutstanding, &polled, 3), [0, 1, 0]);
}

#[test]
fn power_of_two_never_takes_the_most_loaded_of_all() {
    let mut fleet = Fleet::new(4, LoadSource::InFlight);
    fleet.sent(3);
    let chosen = choices(RouterPolicy::PowerOfTwo, &fleet, 400);
    assert!(chosen.iter().all(|&r| r < 3));
    assert!((0..3).all(|r| chosen.iter().filter(|&&c| c == r).count() > 80));
}

#[test]
fn a_replica_that_takes_no_work_is_never_chosen_and_comes_back() {
    for policy in all() {
        let mut fleet = Fleet::new(3, LoadSource::InFlight);
        fleet.set_available(1, false);
        fleet.sent(1);
        assert!(choices(policy, &fleet, 50).iter().all(|&r| r != 1), "{policy:?}");
        fleet.ended(1);
        fleet.set_available(1, true);
        let mut router = build(policy);
        let asked: Vec<u32> = (0..90).map(|session| ask(router.as_mut(), &fleet, session, 0, 1)).collect();
        assert!(asked.contains(&1), "{policy:?}");
    }
}

#[test]
fn no_replica_no_choice() {
    let fleet = Fleet::new(0, LoadSource::InFlight);
    for policy in all() {
        assert_eq!(build(policy).choose(&REQUEST, &fleet, &mut stream(1, 0, "router")), None);
    }
}

#[test]
fn words_name_routers_and_name_them_back() {
    let words: Vec<&str> = all().iter().map(|policy| policy.word()).collect();
    assert_eq!(words, Kind::WORDS.map(|(word, _)| word));
    let faults =
        Reader::read("f", "policy: weighted\nqueue_weight: -1", RouterPolicy::read).unwrap_err().to_string();
    assert!(faults.starts_with("f:2:15: queue_weight: found -1; expected a number from 0"), "{faults}");
    assert!(
        Reader::read("f", "policy: random\nqueue_weight: 1", RouterPolicy::read).is_err(),
        "not random's"
    );
}

#[test]
fn a_session_keeps_its_replica_until_that_is_gone() {
    for word in ["consistent_hash", "session_affinity"] {
        let mut fleet = Fleet::new(4, LoadSource::InFlight);
        let mut router = build(read(&format!("policy: {word}")));
        let homes: Vec<u32> = (0..40).map(|session| ask(router.as_mut(), &fleet, session, 0, 0)).collect();
        assert!((0..4).all(|replica| homes.contains(&replica)), "{word}");
        fleet.set_available(2, false);
        let moved: Vec<u32> = (0..40).map(|session| ask(router.as_mut(), &fleet, session, 0, 1)).collect();
        let stayed = homes.iter().zip(&moved).all(|(home, now)| *home == 2 || home == now);
        assert!(stayed && !moved.contains(&2), "{word}");
    }
}

#[test]
fn an_affinity_ends_an_hour_after_the_last_request() {
    let mut fleet = Fleet::new(2, LoadSource::InFlight);
    let mut router = build(read("policy: session_affinity"));
    let home = ask(router.as_mut(), &fleet, 1, 0, 0);
    fleet.sent(home);
    assert_eq!(ask(router.as_mut(), &fleet, 1, 0, 3600), home);
    assert_eq!(ask(router.as_mut(), &fleet, 1, 0, 7200), home);
    assert_ne!(ask(router.as_mut(), &fleet, 1, 0, 10_801), home, "the other one is idle");
}

#[test]
fn cache_aware_goes_by_the_prefix_until_the_loads_are_unbalanced() {
    let mut fleet = Fleet::new(3, LoadSource::InFlight);
    let mut router = build(read("policy: cache_aware"));
    let home = ask(router.as_mut(), &fleet, 0, 600, 0);
    assert!((1..9).all(|session| ask(router.as_mut(), &fleet, session, 600, 0) == home));
    // 300 of 1,000 are not more than the threshold's 0.3.
    assert_ne!(ask(router.as_mut(), &fleet, 10, 300, 0), home);
    (0..64).for_each(|_| fleet.sent(home));
    assert_eq!(ask(router.as_mut(), &fleet, 11, 600, 0), home, "64 more are balanced still");
    fleet.sent(home);
    assert_ne!(ask(router.as_mut(), &fleet, 12, 600, 0), home);
}

#[test]
fn scorers_weigh_queue_cache_and_prefix() {
    let mut fleet = Fleet::new(3, LoadSource::Polled);
    let polled = |waiting, kv_usage| Polled { waiting, running: 9, kv_usage };
    fleet.polled(0, polled(5, 0.1));
    fleet.polled(1, polled(0, 0.9));
    fleet.polled(2, polled(5, 0.5));
    let chosen = |text: &str, fleet: &Fleet| ask(build(read(text)).as_mut(), fleet, 0, 0, 0);
    assert_eq!(chosen("policy: weighted", &fleet), 1, "2 x 1 + 2 x 0.1 against 2 x 0.9");
    assert_eq!(chosen("{policy: weighted, kv_weight: 4}", &fleet), 0);
    let mut router = build(read("policy: weighted"));
    assert_eq!(ask(router.as_mut(), &fleet, 0, 500, 0), 1);
    fleet.polled(1, polled(5, 0.6));
    assert_eq!(ask(router.as_mut(), &fleet, 1, 500, 0), 1, "2 x 0.4 + 3 x 31/63 against 2 x 0.9");
}
