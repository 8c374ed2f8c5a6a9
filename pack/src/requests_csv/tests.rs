use super::*;
use crate::record::{Outcome, Record, TokensFrom, Wire};
use crate::testing::{failed, ok};
use crate::time::Nanos;
use proptest::prelude::*;

const CLASSES: [&str; 2] = ["chat", "batch, \"large\""];
const HEADER: &str = "request_id,class,ttft_ms,tpot_ms,e2e_ms,output_tokens,status\n";

fn written(records: &[Record]) -> String {
    let mut writer = Writer::new(Vec::new(), CLASSES);
    records.iter().for_each(|r| writer.row(r).unwrap());
    String::from_utf8(writer.finish().unwrap()).unwrap()
}

fn read(text: &[u8]) -> Result<Vec<Row>, RequestsCsvError> {
    Reader::new(text, CLASSES)?.collect()
}

fn error(rows: &str) -> String {
    read(format!("{HEADER}{rows}").as_bytes()).unwrap_err().to_string()
}

#[test]
fn rows_look_as_documented() {
    let text = written(&[ok(7, 0, 182_000_000, 3_187_700_000, 128), failed(8, 1, Outcome::Timeout)]);
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(
        lines[1],
        "r-7,chat,182.000000,25.100000,3369.700000,128,ok,7.000000000,7.000000000,7.182000000,10.369700000,\
         1024,0,128,128,0,0,,0,,,,,,,,,,"
    );
    assert_eq!(
        lines[2],
        "r-8,\"batch, \"\"large\"\"\",0,0,0,0,timeout,8.000000000,8.000000000,,9.000000000,\
         1024,0,128,0,0,0,made to fail,0,,,,,,,,,,"
    );
    assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
}

#[test]
fn warm_up_has_no_row() {
    let record = Record { warmup: true, ..ok(1, 0, 1, 1, 2) };
    assert_eq!(written(&[record]).lines().count(), 1);
}

#[test]
fn foreign_columns_may_be_shuffled_and_more() {
    let text = "\u{feff}note,status,class,request_id,e2e_ms,ttft_ms,tpot_ms,output_tokens\r\n\
                x,ok,chat,a,20,10,5.0,3\r\nx,rejected,chat,b,0,0,0,0\r\nx,ok,chat,c,20,20,0,1\r\n";
    let rows = read(text.as_bytes()).unwrap();
    let expected = ForeignRow {
        class: 0,
        outcome: Outcome::Ok,
        ttft: Nanos(10_000_000),
        tpot_ms: Some(5.0),
        e2e: Nanos(20_000_000),
        output_tokens: 3,
    };
    assert_eq!(rows[0], Row::Foreign(expected));
    assert!(matches!(&rows[2], Row::Foreign(row) if row.tpot_ms.is_none()), "one token has no TPOT");
}

#[test]
fn bad_rows_say_where_and_what() {
    for (rows, message) in [
        (
            "a,chat,1,1,2,2,ok\na,chat,1,1,2,2,ok\n",
            "3: request_id: found \"a\"; expected an id that no \
         other row has (line 2 has it)",
        ),
        (
            "a,caht,1,1,2,2,ok\n",
            "2: class: found \"caht\"; expected a class of the manifest: chat, \
         batch, \"large\"",
        ),
        (
            "a,chat,NaN,1,2,2,ok\n",
            "2: ttft_ms: found \"NaN\"; expected a number of milliseconds, finite \
         and not negative",
        ),
        (
            "a,chat,1,-1,2,2,ok\n",
            "2: tpot_ms: found \"-1\"; expected a number of milliseconds, finite \
         and not negative",
        ),
        (
            "a,chat,1,1,inf,2,ok\n",
            "2: e2e_ms: found \"inf\"; expected a number of milliseconds, finite \
         and not negative",
        ),
        (
            "a,chat,1,1,2,2.5,ok\n",
            "2: output_tokens: found \"2.5\"; expected a whole number from 0 to \
         4294967295",
        ),
        (
            "a,chat,1,1,2,2,fine\n",
            "2: status: found \"fine\"; expected one of ok, error, timeout, \
         rejected, cancelled, lost",
        ),
        (
            "a,chat,1,1,2,0,ok\n",
            "2: output_tokens: found \"0\"; expected at least 1 token for the \
         status ok",
        ),
        ("a,chat,3,1,2,2,ok\n", "2: ttft_ms: found \"3\"; expected at most the row's e2e_ms"),
        ("a,chat,1,1\n", "2: found 4 fields; expected 7, as in the header"),
        ("a,chat,1e300,1,1e300,2,ok\n", "2: ttft_ms: found \"1e300\"; expected less than a century"),
    ] {
        assert_eq!(error(rows), message);
    }
}

#[test]
fn bad_headers_say_what_is_missing() {
    let message = |text: &str| read(text.as_bytes()).unwrap_err().to_string();
    assert!(message("").starts_with("1: "), "{}", message(""));
    assert!(message("request_id,class\n").contains("without ttft_ms"));
    assert!(message(&format!("{},class\n", HEADER.trim())).contains("class twice"));
}

#[test]
fn own_times_in_the_wrong_order_are_refused() {
    let good = written(&[ok(7, 0, 182_000_000, 3_187_700_000, 128)]);
    assert!(read(good.as_bytes()).is_ok());
    for (from, to, column) in [
        ("7.000000000,7.000000000", "7.000000000,6.000000000", "sent_s"),
        ("7.182000000", "6.182000000", "first_token_s"),
        ("10.369700000", "7.100000000", "ended_s"),
        ("r-7,", "x7,", "request_id"),
    ] {
        let error = read(good.replacen(from, to, 1).as_bytes()).unwrap_err();
        assert_eq!(error.column, column);
    }
}

fn any_record() -> impl Strategy<Value = Record> {
    let times =
        (0u64..1_000_000_000_000_000, 0u64..1_000_000, 0u64..1_000_000_000_000, 0u64..1_000_000_000_000);
    (times, 1u32..5000, 0..6usize, 0u16..2, prop::option::of(0u32..9), any::<u32>()).prop_map(
        |((at, lag, ttft, decode), tokens, outcome, class, replica, small)| {
            let outcome = Outcome::ALL[outcome];
            let sent = Nanos(at + lag);
            let has_token = outcome == Outcome::Ok || small.is_multiple_of(2);
            Record {
                id: at,
                class,
                warmup: false,
                scheduled: Nanos(at),
                sent,
                first_token: has_token.then(|| sent + Nanos(ttft)),
                ended: sent + Nanos(ttft + decode),
                input_tokens: small,
                cached_tokens: small / 2,
                output_tokens: tokens,
                requested_tokens: tokens,
                outcome,
                replica,
                preemptions: small % 3,
                retries: small % 5,
                computed_tokens: None,
                wire: small.is_multiple_of(3).then(|| Box::new(any_wire(sent, small))),
                reason: if outcome == Outcome::Ok { "" } else { "queue limit, hit" },
            }
        },
    )
}

fn any_wire(sent: Nanos, small: u32) -> Wire {
    let headers = sent + Nanos(u64::from(small));
    Wire {
        headers: Some(headers),
        first_byte: small.is_multiple_of(2).then_some(headers),
        done: small.is_multiple_of(5).then_some(headers + Nanos(7)),
        http_status: (!small.is_multiple_of(7)).then_some(200),
        tokens_from: TokensFrom::ALL[small as usize % 3],
        usage_input_tokens: small.is_multiple_of(4).then_some(small),
        chunks: (0..u64::from(small % 4)).map(|i| (headers + Nanos(i * i), 1)).collect(),
        error: if small.is_multiple_of(2) { String::new() } else { "a \"bad\" gateway,\nsaid so".to_owned() },
    }
}

/// A record as a file keeps it: without its reason's origin, and without the chunks.
fn kept(record: &Record) -> Record {
    let mut kept = Record { reason: "", ..record.clone() };
    if let Some(wire) = &mut kept.wire {
        wire.chunks.clear();
    }
    kept
}

#[test]
fn gaps_are_those_between_chunks() {
    let mut record = ok(7, 0, 1_000_000, 2_000_000, 4);
    let at = |ms: u64| (Nanos(ms * 1_000_000), 1);
    record.wire = Some(Box::new(Wire { chunks: vec![at(1), at(5), at(5), at(8)], ..Wire::default() }));
    assert!(written(&[record]).ends_with(",0,,,,,chunks,,3.000000,4.000000,0.3333,\n"));
}

#[test]
fn a_file_without_the_later_columns_is_read() {
    let text = written(&[ok(7, 0, 1, 2, 3)]);
    let cut = |line: &str| line.rsplitn(12, ',').last().unwrap().to_owned() + "\n";
    let earlier: String = text.lines().map(cut).collect();
    assert!(earlier.lines().next().unwrap().ends_with(",reason"));
    assert_eq!(read(earlier.as_bytes()), read(text.as_bytes()));
}

proptest! {
    /// Our own file gives the records back, to the nanosecond.
    #[test]
    fn round_trip(record in any_record()) {
        let rows = read(written(std::slice::from_ref(&record)).as_bytes()).unwrap();
        let expected = Row::Own { reason: record.reason.to_string(), record: kept(&record) };
        prop_assert_eq!(rows, vec![expected]);
    }

    /// Whatever the bytes, an answer and no panic.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = read(&bytes);
        let _ = read(&[HEADER.as_bytes(), &bytes].concat());
    }
}
