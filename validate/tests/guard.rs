//! A client that routes by itself leaves out what fails and sends again what can be sent again, and nothing else.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[allow(dead_code, reason = "the other tests of this crate use the rest")]
mod support;

use scaleproof_pack::experiment::Observer;
use scaleproof_pack::failure::{Sign, What};
use scaleproof_pack::record::{Outcome, Record};
use scaleproof_pack::time::Nanos;
use scaleproof_pack::workload::Enough;
use scaleproof_policy::health::{Breaker, HealthCheck, Retries};
use scaleproof_validate::{GiveUp, LiveConfig, LiveEngine, LiveObserver, News, Resilience, Target};
use std::io::Write;
use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;
use support::{Server, Then, answer, config, event, open, request, serve};

const SECOND: u64 = 1_000_000_000;

fn rules() -> Resilience {
    Resilience {
        health_check: HealthCheck {
            interval: Nanos(60 * SECOND),
            timeout: Nanos(SECOND),
            failures: 1,
            successes: 1,
        },
        breaker: Some(Breaker { failures: 2, open: Nanos(60 * SECOND), successes: 1 }),
        connect_timeout: Nanos(5 * SECOND),
        retries: Retries { first_backoff: Nanos(1_000_000), ..Retries::default() },
    }
}

fn good() -> Server {
    serve(true, |stream, _| {
        let _ = stream.write_all(answer(3).as_bytes());
        Then::Keep
    })
}

fn saying(text: &'static str) -> Server {
    serve(true, move |stream, _| {
        let _ = stream.write_all(text.as_bytes());
        Then::Close
    })
}

/// An address at which nobody listens.
fn nobody() -> Target {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    Target::parse(&format!("http://{}", listener.local_addr().unwrap())).unwrap()
}

#[derive(Default)]
struct Seen {
    records: Vec<Record>,
    news: Vec<News>,
}

impl Observer for Seen {
    fn record(&mut self, record: &Record) {
        self.records.push(record.clone());
    }
}

impl LiveObserver for Seen {
    fn news(&mut self, news: &News) {
        self.news.push(*news);
    }
}

/// Sixteen requests, in turn to the first target and the second.
fn run(targets: [Target; 2], resilience: Option<Resilience>) -> Seen {
    run_as(LiveConfig { resilience, ..config(targets.to_vec()) }, 16)
}

/// So many, 20 ms apart.
fn run_as(config: LiveConfig, requests: u64) -> Seen {
    let mut engine = LiveEngine::new(config, 1).unwrap();
    let schedule = open((0..requests).map(|i| request(i * 20)).collect());
    let mut seen = Seen::default();
    engine.run_live(&schedule, Enough { successes: 0, max_requests: 0 }, &mut seen).unwrap();
    assert_eq!(seen.records.len() as u64, requests, "each ends once");
    seen
}

impl Seen {
    fn whats(&self) -> Vec<What> {
        let what = |news: &News| match news {
            News::Moment(moment) if moment.replica == Some(1) => Some(moment.what),
            _ => None,
        };
        self.news.iter().filter_map(what).collect()
    }

    fn sent_to(&self, target: u32) -> usize {
        self.news.iter().filter(|news| **news == News::Sent { target }).count()
    }
}

/// Two failures open the breaker: nothing goes there any more, and nothing fails.
#[track_caller]
fn is_left_out(second: Target, sign: Sign) {
    let first = good();
    let seen = run([first.target.clone(), second], Some(rules()));
    assert!(seen.records.iter().all(|record| record.outcome == Outcome::Ok), "{:?}", seen.records);
    assert_eq!(seen.whats().last(), Some(&What::Removed(sign)));
    assert!(seen.whats().contains(&What::Detected(sign)));
    let retries: u32 = seen.records.iter().map(|record| record.retries).sum();
    assert_eq!(retries as usize, seen.sent_to(1), "what was sent there was sent again");
    assert!((2..=4).contains(&seen.sent_to(1)), "{:?}", seen.news);
    assert!(seen.records.iter().all(|record| record.replica == Some(0)));
    assert!(
        seen.records.iter().all(|record| record.retries == 0 || record.lag() < record.e2e()),
        "timed from its first sending"
    );
}

#[test]
fn where_nobody_listens_nothing_goes() {
    is_left_out(nobody(), Sign::Connection);
}

#[test]
fn a_target_that_refuses_is_left_out() {
    let full = saying("HTTP/1.1 503 X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    is_left_out(full.target.clone(), Sign::ServerError);
}

#[test]
fn a_broken_stream_is_not_sent_again() {
    let (first, second) = (
        good(),
        serve(true, |stream, _| {
            let begun = answer(3);
            let (head, _) = begun.split_once("\r\n\r\n").unwrap();
            let _ = stream.write_all(format!("{head}\r\n\r\n").as_bytes());
            let _ = stream.write_all(event("{\"choices\": []}").as_bytes());
            Then::Close
        }),
    );
    let seen = run([first.target.clone(), second.target.clone()], Some(rules()));
    let of = |target| seen.records.iter().filter(move |record| record.replica == Some(target));
    assert!(
        of(1).count() == 8 && of(1).all(|record| record.outcome == Outcome::Error && record.retries == 0)
    );
    assert!(seen.whats().iter().all(|what| *what == What::Detected(Sign::Reset)), "{:?}", seen.whats());
}

#[test]
fn without_rules_each_request_is_sent_once() {
    let first = good();
    let seen = run([first.target.clone(), nobody()], None);
    let failed = seen.records.iter().filter(|record| record.outcome == Outcome::Error).count();
    assert_eq!((failed, seen.sent_to(1)), (8, 8));
    assert!(seen.records.iter().all(|record| record.retries == 0));
}

#[test]
fn who_is_not_there_yet_gets_work_once_its_health_checks_pass() {
    let servers = [good(), good()];
    let targets = servers.iter().map(|server| server.target.clone()).collect();
    let health_check = HealthCheck { interval: Nanos(SECOND / 10), successes: 2, ..rules().health_check };
    let resilience = Some(Resilience { health_check, ..rules() });
    let seen = run_as(LiveConfig { resilience, absent: vec![1], ..config(targets) }, 100);
    assert!(seen.records.iter().all(|record| record.outcome == Outcome::Ok && record.retries == 0));
    assert_eq!(seen.whats(), [What::Readmitted]);
    let joined = seen.news.iter().position(|news| matches!(news, News::Moment(_))).unwrap();
    let first = seen.news.iter().position(|news| *news == News::Sent { target: 1 }).unwrap();
    assert!(joined < first && seen.sent_to(1) < seen.sent_to(0), "{:?}", seen.news);
}

#[test]
fn nothing_is_asked_of_who_is_not_there() {
    let second = good();
    let targets = vec![nobody(), second.target.clone()];
    let seen = run_as(LiveConfig { resilience: Some(rules()), absent: vec![0], ..config(targets) }, 8);
    assert!(seen.records.iter().all(|record| record.outcome == Outcome::Ok));
    assert_eq!((seen.sent_to(0), seen.sent_to(1)), (0, 8));
    let absent = LiveConfig { absent: vec![0], ..config(vec![nobody()]) };
    assert!(LiveEngine::new(absent, 1).is_err(), "nobody is there at all");
}

#[test]
fn clients_give_up_together_what_they_have_in_flight_there() {
    let slow = || {
        serve(true, |stream, _| {
            std::thread::sleep(Duration::from_millis(1500));
            let _ = stream.write_all(answer(3).as_bytes());
            Then::Keep
        })
    };
    let servers = [slow(), slow()];
    let targets = || servers.iter().map(|server| server.target.clone()).collect();
    let at = Nanos(SECOND / 4);
    let give_up = |share| Some(GiveUp { at, share, targets: vec![1] });
    let seen = run_as(LiveConfig { give_up: give_up(1.0), ..config(targets()) }, 20);
    let mut given_up = 0;
    for record in &seen.records {
        let (there, before) = (record.replica == Some(1), record.sent < at);
        if record.outcome == Outcome::Cancelled {
            assert!(
                there && record.scheduled < at && record.reason == "cancelled by the client",
                "{record:?}"
            );
            assert!(record.ended >= at, "{record:?}");
            given_up += 1;
        } else {
            assert!(record.outcome == Outcome::Ok && !(there && before), "{record:?}");
        }
    }
    assert!(given_up > 0);
    let none = run_as(LiveConfig { give_up: give_up(0.0), ..config(targets()) }, 4);
    assert!(none.records.iter().all(|record| record.outcome == Outcome::Ok));
}
