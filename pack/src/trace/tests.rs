use super::*;
use proptest::prelude::*;
use std::fmt::Write;

fn parse(format: TraceFormat, text: &str) -> Result<Trace, String> {
    Trace::parse("t", format, text.as_bytes()).map_err(|faults| faults.to_string())
}

#[test]
fn the_three_formats_are_read() {
    let mooncake = "{\"timestamp\": 27000, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [0, 14]}\n\n\
                    {\"timestamp\": 30000.5, \"input_length\": 512, \"output_length\": 0, \"hash_ids\": [0]}\n";
    let trace = parse(TraceFormat::Mooncake, mooncake).unwrap();
    assert_eq!((trace.rows[0].at, trace.rows[1].at), (Nanos(0), Nanos(3_000_500_000)));
    assert_eq!((trace.rows[0].blocks.as_slice(), trace.rows[1].line), ([0, 14].as_slice(), 3));
    assert_eq!((trace.rows[1].output_tokens, trace.zero_outputs), (1, 1));

    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 23:59:59.6805900,374,44\r\n\
                 2023-11-17 00:00:00.6805901,396,109";
    let trace = parse(TraceFormat::Azure, azure).unwrap();
    assert_eq!((trace.span(), trace.rows[1].line), (Nanos(1_000_000_100), 3));
    assert_eq!((trace.rows[1].input_tokens, trace.rows[1].output_tokens), (396, 109));
    let zoned = azure.replace("00:00:00.6805901", "00:00:00.6805901+00:00");
    assert_eq!(parse(TraceFormat::Azure, &zoned).unwrap(), trace);

    let plain = "arrival_s,class,input_tokens,output_tokens\n0.5,chat,10,2\n2,,20,4\n";
    let trace = parse(TraceFormat::Csv, plain).unwrap();
    assert_eq!((trace.rows[0].class.as_deref(), trace.rows[1].class.as_deref()), (Some("chat"), None));
    assert_eq!(trace.span(), Nanos(1_500_000_000));
    let millis = plain.replace("arrival_s", "arrival_ms");
    assert_eq!(parse(TraceFormat::Csv, &millis).unwrap().span(), Nanos(1_500_000));
}

#[test]
fn every_fault_names_its_line() {
    let line = "{\"timestamp\": 5, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [0, 14]}\n";
    let mooncake = |from: &str, to: &str| {
        parse(TraceFormat::Mooncake, &format!("{line}{}", line.replacen(from, to, 1))).unwrap_err()
    };
    let cases = [
        (mooncake(", 14]}\n", ""), "t:2: found EOF while parsing a list; expected a JSON object a line"),
        (mooncake("14", "14, 15"), "t:2: hash_ids: found 3 ids; expected 2 = input_length / 512, rounded up"),
        (
            mooncake("14", "-1"),
            "t:2: hash_ids: found \"[0,-1]\"; expected a list of whole numbers from 0 to 72057594037927935",
        ),
        (
            mooncake("5", "4"),
            "t:2: timestamp: found a time 0.001 s before the latest above it; expected timestamps that never run backwards",
        ),
        (mooncake("5", "\"x\""), "t:2: timestamp: found \"\\\"x\\\"\"; expected milliseconds from 0 on"),
        (mooncake("5", "-5"), "t:2: timestamp: found \"-5\"; expected milliseconds from 0 on"),
        (
            mooncake("5", "1e15"),
            "t:2: timestamp: found a time 1000000000000 s after the first row's; expected a span below ten years",
        ),
        (mooncake("600", "0"), "t:2: input_length: found \"0\"; expected a whole number from 1 to 10000000"),
        (
            mooncake("\"output_length\": 5, ", ""),
            "t:2: output_length: found \"nothing\"; expected a whole number from 0 to 10000000",
        ),
        (mooncake(line, "[1]"), "t:2: found no object; expected a JSON object a line"),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn every_fault_of_a_table_names_its_line() {
    let azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.68,374,44\n";
    let broken = |from: &str, to: &str| parse(TraceFormat::Azure, &azure.replacen(from, to, 1)).unwrap_err();
    let cases = [
        (
            broken("ContextTokens", "ContextToken"),
            "t:1: ContextToken: found an unknown column: did you mean ContextTokens?\nt:1: ContextTokens: found no such column; expected the column",
        ),
        (broken("TIMESTAMP,", ""), "t:1: TIMESTAMP: found no such column; expected one column of times"),
        (broken("374,44", "374"), "t:2: found 2 columns; expected 3, as in the header"),
        (
            broken("374", "-374"),
            "t:2: ContextTokens: found \"-374\"; expected a whole number from 1 to 10000000",
        ),
        (
            broken("44", "4.4"),
            "t:2: GeneratedTokens: found \"4.4\"; expected a whole number from 0 to 10000000",
        ),
        (
            broken("18:15", "25:15"),
            "t:2: TIMESTAMP: found \"2023-11-16 25:15:46.68\"; expected a time as 2023-11-16 18:15:46.6805900",
        ),
        (parse(TraceFormat::Azure, "").unwrap_err(), "t: found no rows; expected at least one"),
        (
            parse(TraceFormat::Csv, "arrival_s,arrival_ms,input_tokens,output_tokens\n").unwrap_err(),
            "t:1: arrival_s or arrival_ms: found both columns; expected one column of times",
        ),
        (
            parse(TraceFormat::Csv, "arrival_s,input_tokens,output_tokens\n\n1,2,3\nNaN,2,3\n").unwrap_err(),
            "t:4: arrival_s: found \"NaN\"; expected a number from 0 on, less than 30,000 years",
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
    let bytes = b"arrival_s,input_tokens,output_tokens\n0,1,1\n1,\xFF,1\n";
    let faults = Trace::parse("t", TraceFormat::Csv, bytes).unwrap_err();
    assert_eq!(faults.to_string(), "t:3: found bytes that are not UTF-8; expected text in UTF-8");
}

#[test]
fn a_file_of_the_wrong_format_is_not_read_to_its_end() {
    let faults = Trace::parse("t", TraceFormat::Mooncake, "x\n".repeat(1000).as_bytes()).unwrap_err();
    assert_eq!(faults.0.len(), FAULTS_MAX);
}

#[test]
fn a_unit_wrong_by_a_thousand_is_found_by_the_mean_rate() {
    let rows = |header: &str, gap: f64| {
        (0..200).fold(format!("{header},input_tokens,output_tokens\n"), |mut text, i| {
            writeln!(text, "{},9,9", f64::from(i) * gap).unwrap();
            text
        })
    };
    assert!(parse(TraceFormat::Csv, &rows("arrival_s", 0.3)).is_ok());
    assert!(parse(TraceFormat::Csv, &rows("arrival_ms", 300.0)).is_ok());
    assert_eq!(
        parse(TraceFormat::Csv, &rows("arrival_s", 300.0)).unwrap_err(),
        "t: found 200 rows within 59700 s, 0.0033 a second; expected a mean from 0.01 to 1000 a second; \
         a column of seconds is named arrival_s, one of milliseconds arrival_ms"
    );
    assert!(parse(TraceFormat::Csv, &rows("arrival_ms", 0.3)).unwrap_err().contains("arrival_s"));
    assert!(parse(TraceFormat::Csv, &rows("arrival_s", 0.0)).unwrap_err().contains("inf a second"));
}

/// The bytes of a trace in the folder beside the repository, if it is there.
#[allow(clippy::disallowed_methods, reason = "a test reads its data")]
fn shared(name: &str) -> Option<Vec<u8>> {
    let path = format!("{}/../../shared/data/traces/{name}", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(path).ok();
    if bytes.is_none() {
        println!("skipped: ../shared is absent");
    }
    bytes
}

#[test]
fn real_traces_have_their_published_rows() {
    if let Some(bytes) = shared("mooncake_conversation_trace.jsonl") {
        let trace = Trace::parse("t", TraceFormat::Mooncake, &bytes).unwrap();
        assert_eq!((trace.rows.len(), trace.span().seconds().round()), (12_031, 3537.0));
        let mut seen = std::collections::BTreeSet::new();
        let blocks = trace.rows.iter().flat_map(|row| &row.blocks);
        let (all, repeated) =
            blocks.fold((0_u32, 0_u32), |(all, again), id| (all + 1, again + u32::from(!seen.insert(*id))));
        let share = f64::from(repeated) / f64::from(all);
        assert!((share - 0.366).abs() < 0.0005, "{share}");
    }
    if let Some(bytes) = shared("AzureLLMInferenceTrace_conv.csv") {
        let trace = Trace::parse("t", TraceFormat::Azure, &bytes).unwrap();
        assert_eq!((trace.rows.len(), trace.zero_outputs), (19_366, 0));
        let wrong = Trace::parse("t", TraceFormat::Csv, &bytes).unwrap_err();
        assert!(wrong.to_string().starts_with("t:1: TIMESTAMP: found an unknown column"), "{wrong}");
    }
    if let Some(bytes) = shared("AzureLLMInferenceTrace_code.csv") {
        assert_eq!(Trace::parse("t", TraceFormat::Azure, &bytes).unwrap().rows.len(), 8_819);
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        for format in [TraceFormat::Mooncake, TraceFormat::Azure, TraceFormat::Csv] {
            let _ = Trace::parse("t", format, &bytes);
        }
    }

    #[test]
    fn text_like_a_table_is_read_or_refused(text in "[a,\"\r\n1-]{0,40}") {
        let _ = parse(TraceFormat::Csv, &format!("arrival_s,input_tokens,output_tokens\n{text}"));
        let _ = parse(TraceFormat::Csv, &text);
    }

    #[test]
    fn tables_of_any_numbers_are_read_or_refused(rows in prop::collection::vec((any::<f64>(), any::<i64>(), any::<u32>()), 0..9)) {
        let mut text = "arrival_s,input_tokens,output_tokens\n".to_owned();
        for (at, input, output) in rows {
            writeln!(text, "{at},{input},{output}").unwrap();
        }
        let _ = parse(TraceFormat::Csv, &text);
    }
}
