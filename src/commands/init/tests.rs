use super::args::class;
use super::*;
use crate::args::{Cli, Command};
use clap::Parser;
use scaleproof_pack::trace::TraceRow;
use traffic::{TraceClass, trace_classes};

const PROFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/models/fixture/dense-70b-fixture-r1.yaml");

fn args(rest: &[&str]) -> InitArgs {
    let line = ["scaleproof", "init", "new"].iter().chain(rest);
    match Cli::try_parse_from(line).unwrap().command {
        Command::Init(args) => args,
        _ => panic!("init was parsed as something else"),
    }
}

#[test]
fn what_is_written_loads_and_says_what_was_asked() {
    let args = args(&[
        "--profile",
        PROFILE,
        "--replicas",
        "3",
        "--class",
        "chat:0.7:1024:128:500:40",
        "--class",
        "a b:0.3:8192:256:2500:50",
        "--rates",
        "1,2.5",
        "--cutoff",
        "2026-08-29",
        "--seed",
        "7",
    ]);
    let answers = answers(&args).unwrap();
    let (text, scenario) = (render::manifest(&answers), render::scenario(&answers));
    let manifest = Manifest::parse("m", &text).unwrap();
    assert_eq!(manifest.engine.placement.gpus, 6);
    assert_eq!(manifest.client.class_schedule_counts, [5180, 2220], "2,200 over 0.3, in hundreds");
    assert_eq!(manifest.classes[1].name, "a b");
    assert_eq!(manifest.client.request_schedule_seed, 7);
    let read = Scenario::parse("s", &scenario, &answers.profile, &manifest).unwrap();
    assert_eq!(read.experiment.rates_rps, [1.0, 2.5]);
    assert_eq!(scaleproof_pack::lint::lint_scenario(("m", &text), ("s", &scenario)), Ok(vec![]));
    for line in text.lines().chain(scenario.lines()).filter(|line| !line.is_empty()) {
        assert!(line.contains("# "), "every line is explained: {line}");
    }
}

#[test]
fn a_class_has_six_parts() {
    for (text, word) in [
        ("chat:1:2:3:4", "found 5 parts; expected six"),
        ("chat:x:1:1:1:1", "mix: found \"x\"; expected a number"),
        ("chat:nan:1:1:1:1", "mix: found \"nan\"; expected a number"),
        ("chat:1:1.5:1:1:1", "input: found \"1.5\"; expected a whole number"),
        (":1:1:1:1:1", "name: found nothing"),
    ] {
        let fault = class(text).unwrap_err();
        assert!(fault.starts_with(word), "{text}: {fault}");
    }
}

fn rows(lengths: &[u32], class: Option<&str>) -> Vec<TraceRow> {
    let row = |input_tokens: &u32| TraceRow {
        line: 1,
        at: scaleproof_pack::time::Nanos::ZERO,
        class: class.map(str::to_owned),
        input_tokens: *input_tokens,
        output_tokens: 1,
        blocks: Vec::new(),
    };
    lengths.iter().map(row).collect()
}

#[test]
fn a_trace_has_classes_by_quantiles_of_its_prompts() {
    let brief = |classes: &[TraceClass]| -> Vec<(String, Option<u32>, usize)> {
        classes.iter().map(|class| (class.name.clone(), class.input_max, class.rows)).collect()
    };
    let lengths: Vec<u32> = (1..=100).rev().collect();
    let expected =
        [("short".into(), Some(50), 50), ("long".into(), Some(90), 40), ("longest".into(), None, 10)];
    assert_eq!(brief(&trace_classes(&rows(&lengths, None))), expected);
    assert_eq!(brief(&trace_classes(&rows(&[7; 20], None))), [("short".into(), Some(7), 20)]);
    let named: Vec<TraceRow> = [rows(&[1, 2], Some("b")), rows(&[3], None), rows(&[4], Some("a"))].concat();
    let expected = [("unnamed".into(), None, 1), ("a".into(), None, 1), ("b".into(), None, 2)];
    assert_eq!(brief(&trace_classes(&named)), expected);
}

#[test]
fn questions_are_asked_until_they_are_answered() {
    let mut prompts = Vec::new();
    let typed =
        format!("nowhere.yaml\n{PROFILE}\n0\n2\nchat:0.4:10:10:500:40\nbad\nmore:0.7:10:10:500:40\n\n\n");
    let answered =
        ask::complete(&args(&[]), &mut ask::Questions::new(typed.as_bytes(), &mut prompts)).unwrap();
    assert_eq!(answered.replicas, Some(2));
    assert_eq!(answered.classes.len(), 2);
    assert!((answered.classes[1].mix - 0.6).abs() < 1e-9, "the rest is offered");
    assert_eq!((answered.rates.len(), answered.rates[3], answered.rates[11]), (12, 3.6, 16.4));
    let prompts = String::from_utf8(prompts).unwrap();
    assert!(prompts.contains("found no file nowhere.yaml") && prompts.contains("expected six"), "{prompts}");
    assert!(
        prompts.contains("mix: found 0.7; expected above 0, at most the 0.6000 that are left"),
        "{prompts}"
    );
    let ended = ask::complete(&args(&[]), &mut ask::Questions::new(&b"\n"[..], std::io::sink()));
    assert!(ended.is_err(), "an end of the answers is no answer");
}
