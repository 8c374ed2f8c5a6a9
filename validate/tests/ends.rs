//! Whatever a server does, every attempt ends exactly once, with the right status, and no later than its time limit.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use scaleproof_pack::experiment::Experiment;
use scaleproof_pack::record::Outcome::{self, Cancelled, Error, Lost, Ok as Fine, Rejected, Timeout};
use scaleproof_pack::record::{Record, TokensFrom};
use scaleproof_pack::schedule::Planned;
use scaleproof_pack::time::Nanos;
use scaleproof_validate::{LiveConfig, LiveEngine};
use std::io::Write;
use std::net::TcpStream;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;
use support::*;

const MS: u64 = 1_000_000;

/// Four requests to a server that answers each of them so.
fn four(config_of: impl Fn(LiveConfig) -> LiveConfig, server: &Server) -> Vec<Record> {
    let mut seen = Seen::default();
    let schedule = open((0..4).map(|i| request(i * 5)).collect());
    run_into(config_of(config(vec![server.target.clone()])), &schedule, &mut seen);
    let ids: Vec<u64> = seen.records.iter().map(|record| record.id).collect();
    assert_eq!(ids, [0, 1, 2, 3], "each attempt ends once");
    seen.records
}

/// All four ended in this way.
#[track_caller]
fn all_end(
    script: impl Fn(&mut TcpStream) -> Then + Send + Sync + 'static,
    outcome: Outcome,
    reason: &str,
) -> Vec<Record> {
    let server = serve(true, move |stream, _| script(stream));
    let records = four(|config| config, &server);
    for record in &records {
        assert_eq!((record.outcome, record.reason), (outcome, reason), "{record:?}");
    }
    records
}

fn says(text: String) -> impl Fn(&mut TcpStream) -> Then {
    move |stream| {
        let _ = stream.write_all(text.as_bytes());
        Then::Close
    }
}

#[test]
fn a_good_answer_is_ok_with_all_its_times() {
    let records = all_end(
        |stream| {
            trickle(stream, &answer(3), 90);
            Then::Keep
        },
        Fine,
        "",
    );
    for record in &records {
        let wire = record.wire.as_ref().unwrap();
        assert_eq!((record.output_tokens, record.cached_tokens), (3, 4));
        assert_eq!(
            (wire.tokens_from, wire.usage_input_tokens, wire.http_status),
            (TokensFrom::Usage, Some(10), Some(200))
        );
        assert_eq!(wire.chunks.iter().map(|chunk| chunk.1).sum::<u32>(), 3);
        let first = record.first_token.unwrap();
        let times = [
            record.scheduled,
            record.sent,
            wire.headers.unwrap(),
            wire.first_byte.unwrap(),
            first,
            record.ended,
        ];
        assert!(
            times.is_sorted() && first < record.ended && record.ended <= wire.done.unwrap(),
            "{record:?}"
        );
    }
}

#[test]
fn refusals_and_errors_are_told_apart() {
    let error = r#"{"error":{"message":"hush-hush!"}}"#;
    let status = |code: u16| format!("HTTP/1.1 {code} X\r\ncontent-length: {}\r\n\r\n{error}", error.len());
    for code in [429, 503, 529] {
        let records = all_end(says(status(code)), Rejected, "refused");
        assert_eq!(records[0].wire.as_ref().unwrap().error, "***!", "the token is in no output");
    }
    all_end(says(status(400)), Error, "HTTP 4xx");
    all_end(says(status(500)), Error, "HTTP error");
    all_end(
        says(format!("{HEAD}{}{}", token(), event(r#"{"error":{"message":"no"}}"#))),
        Error,
        "error in the stream",
    );
}

#[test]
fn what_breaks_is_an_error_with_what_came_before() {
    all_end(|_| Then::Close, Error, "no answer: the connection broke");
    all_end(says("nonsense\r\n\r\n".to_owned()), Error, "no answer: the connection broke");
    let records = all_end(says(format!("{HEAD}{}", token())), Error, "the stream broke");
    assert!(records.iter().all(|r| r.output_tokens == 1 && r.first_token.is_some()));
    all_end(says(format!("{HEAD}{}{END}", token())), Error, "the stream broke");
    all_end(says(format!("{HEAD}{}", event("{\"choices\":["))), Error, "unreadable stream");
    all_end(says(format!("{HEAD}{}", event("{}"))), Error, "unreadable stream");
    all_end(says(format!("{HEAD}{}{END}", chunk("data: [DONE]\n\n"))), Error, "empty answer");
    all_end(says(answer(2)), Error, "answer cut short");
}

#[test]
fn a_reset_is_an_error() {
    for answered in [String::new(), format!("{HEAD}{}", token())] {
        let server = serve(false, move |stream, _| {
            let _ = stream.write_all(answered.as_bytes());
            Then::Close
        });
        // Longer than the part that the server reads.
        let schedule = open((0..3).map(|i| Planned { input_tokens: 5000, ..request(i) }).collect());
        let mut seen = Seen::default();
        run_into(config(vec![server.target.clone()]), &schedule, &mut seen);
        assert!(
            seen.records.len() == 3 && seen.records.iter().all(|r| r.outcome == Error),
            "{:?}",
            seen.records
        );
    }
}

#[test]
fn odd_but_whole_answers_are_ok() {
    let whole = |text: String| all_end(says(text), Fine, "");
    // Characters of several bytes, cut anywhere.
    let odd = event(r#"{"choices":[{"text":"ü🦀","token_ids":[9]}]}"#);
    let text = format!("{HEAD}{odd}{odd}{}{}{}{END}", last(), usage(3), chunk("data: [DONE]\n\n"));
    all_end(
        move |stream| {
            trickle(stream, &text, 7);
            Then::Keep
        },
        Fine,
        "",
    );
    // Usage in every chunk: only the last counts.
    let counted = |n| {
        event(&format!(
            r#"{{"choices":[{{"text":"x"}}],"usage":{{"prompt_tokens":10,"completion_tokens":{n}}}}}"#
        ))
    };
    let records =
        whole(format!("{HEAD}{}{}{}{}{END}", counted(1), counted(2), counted(3), chunk("data: [DONE]\n\n")));
    assert!(records.iter().all(|r| r.output_tokens == 3));
    // No [DONE]; no usage; no token ids.
    whole(format!("{HEAD}{}{}{}{}{END}", token(), token(), last(), usage(3)));
    let records = whole(format!("{HEAD}{}{}{}{END}", token(), token(), last()));
    assert_eq!(records[0].wire.as_ref().unwrap().tokens_from, TokensFrom::TokenIds);
    let plain = event(r#"{"choices":[{"text":"x"}]}"#);
    let records = whole(format!("{HEAD}{plain}{plain}{plain}{}{END}", chunk("data: [DONE]\n\n")));
    assert_eq!(
        (records[0].wire.as_ref().unwrap().tokens_from, records[0].output_tokens),
        (TokensFrom::Chunks, 3)
    );
    // A body that ends with its connection; an answer that is not streamed.
    let bare = answer(3).replace("transfer-encoding: chunked\r\n", "connection: close\r\n");
    let (head, body) = bare.split_once("\r\n\r\n").unwrap();
    let unchunked: String = body.split("\r\n").filter(|part| part.contains("data:")).collect();
    whole(format!("{head}\r\n\r\n{unchunked}"));
    let json = r#"{"choices":[{"text":"xxx","finish_reason":"length"}],"usage":{"prompt_tokens":10,"completion_tokens":3}}"#;
    let records = whole(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{json}",
        json.len()
    ));
    assert_eq!((records[0].first_token, records[0].output_tokens), (None, 3));
}

#[test]
fn a_stream_that_stays_open_after_its_end_holds_nobody_up() {
    let open_ended = format!("{HEAD}{}{}{}", token(), token(), last());
    let records = all_end(
        move |stream| {
            let _ = stream.write_all(open_ended.as_bytes());
            sleep(Duration::from_secs(8));
            Then::Close
        },
        Fine,
        "",
    );
    assert!(records.iter().all(|r| r.output_tokens == 3));
}

/// The server's silence, in whatever place, ends with the client's patience.
#[test]
fn nothing_hangs_past_its_timeout() {
    let silent = |text: String, reason: &str, first: Option<u64>, after: u32| {
        let server = serve(true, move |stream, _| {
            let _ = stream.write_all(text.as_bytes());
            sleep(Duration::from_secs(30));
            Then::Close
        });
        let limits = |config| LiveConfig {
            timeout: Some(Nanos(300 * MS)),
            ttft_timeout: first.map(|ms| Nanos(ms * MS)),
            ..config
        };
        for record in four(limits, &server) {
            assert_eq!(
                (record.outcome, record.reason, record.output_tokens),
                (Timeout, reason, after),
                "{record:?}"
            );
            let least = first.filter(|_| reason.contains("first")).unwrap_or(300);
            assert!((least * MS..2000 * MS).contains(&record.e2e().0), "{record:?}");
        }
    };
    silent(String::new(), "no whole answer in time", None, 0);
    silent("HTTP/1.1 200".to_owned(), "no whole answer in time", None, 0);
    silent(HEAD.to_owned(), "no first token in time", Some(100), 0);
    silent(format!("{HEAD}{}", token()), "no whole answer in time", Some(250), 1);
    silent("HTTP/1.1 500 X\r\ncontent-length: 9\r\n\r\nx".to_owned(), "no whole answer in time", None, 0);
}

#[test]
fn a_slow_loris_is_a_timeout() {
    let server = serve(true, |stream, _| {
        for byte in answer(3).as_bytes() {
            if stream.write_all(std::slice::from_ref(byte)).is_err() {
                break;
            }
            sleep(Duration::from_millis(20));
        }
        Then::Close
    });
    let records = four(|config| LiveConfig { timeout: Some(Nanos(200 * MS)), ..config }, &server);
    assert!(records.iter().all(|r| r.outcome == Timeout));
}

#[test]
fn a_dead_replica_has_lost_its_attempts() {
    let server = serve(true, |stream, number| {
        let _ = stream.write_all(format!("{HEAD}{}", token()).as_bytes());
        if number == 3 {
            return Then::Die;
        }
        // Those before it end with the process.
        sleep(Duration::from_millis(60));
        Then::Close
    });
    let mut schedule: Vec<Planned> = (0..4).map(|i| request(i * 5)).collect();
    schedule.push(request(400));
    let mut seen = Seen::default();
    run_into(config(vec![server.target.clone()]), &open(schedule), &mut seen);
    let ends: Vec<_> = seen.records.iter().map(|r| (r.outcome, r.reason)).collect();
    assert_eq!(ends[..4], [(Lost, "the replica died"); 4], "{ends:?}");
    assert_eq!(ends[4], (Error, "cannot connect"));
}

#[test]
fn a_client_that_cancels_has_cancelled() {
    let server = serve(true, |stream, _| {
        let _ = stream.write_all(format!("{HEAD}{}", token()).as_bytes());
        sleep(Duration::from_secs(30));
        Then::Close
    });
    let cancelled = Planned { cancel_after: Some(Nanos(100 * MS)), ..request(0) };
    let mut seen = Seen::default();
    run_into(config(vec![server.target.clone()]), &open(vec![cancelled]), &mut seen);
    let record = &seen.records[0];
    assert_eq!(
        (record.outcome, record.reason, record.output_tokens),
        (Cancelled, "cancelled by the client", 1)
    );
}

#[test]
fn a_run_that_is_stopped_ends_what_is_in_flight() {
    let server = serve(true, |stream, number| {
        if number == 0 {
            // The others are sent meanwhile.
            sleep(Duration::from_millis(300));
            let _ = stream.write_all(answer(3).as_bytes());
        } else {
            sleep(Duration::from_secs(30));
        }
        Then::Keep
    });
    let mut requests: Vec<Planned> = (0..4).map(request).collect();
    requests.push(request(3_600_000));
    let mut seen = Seen { stop_after: Some(1), ..Seen::default() };
    let run = run_into(config(vec![server.target.clone()]), &open(requests), &mut seen);
    assert!(run.stopped);
    let ends: Vec<_> = seen.records.iter().map(|r| r.outcome).collect();
    assert_eq!(
        ends,
        [Fine, Cancelled, Cancelled, Cancelled],
        "what was sent has an end, what was not has none"
    );
}

#[test]
fn connections_are_used_again_and_targets_in_turn() {
    let good = |stream: &mut TcpStream, _| {
        let _ = stream.write_all(answer(3).as_bytes());
        Then::Keep
    };
    let servers = [serve(true, good), serve(true, good)];
    let targets = servers.iter().map(|server| server.target.clone()).collect();
    let mut seen = Seen::default();
    let run = run_into(config(targets), &open((0..20).map(|i| request(i * 20)).collect()), &mut seen);
    assert!(seen.records.iter().all(|r| r.outcome == Fine && r.replica == Some(r.id as u32 % 2)));
    assert_eq!(run.connections + run.reused, 20);
    assert!(run.reused >= 10, "{run:?}");
    let opened: usize = servers.iter().map(|server| server.connections.load(Ordering::SeqCst)).sum();
    assert_eq!(opened as u64, run.connections);
}

#[test]
fn a_cache_in_use_is_emptied_once_it_is_not() {
    let server = serve(true, |_, _| Then::Close);
    let mut engine = LiveEngine::new(config(vec![server.target.clone()]), 1).unwrap();
    assert_eq!(engine.reset_prefix_cache(), Ok(true));
    assert_eq!(server.resets.load(Ordering::SeqCst), 3);
}
