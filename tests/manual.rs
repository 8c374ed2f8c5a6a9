//! What a package installs beside the program, and plain output where nobody watches.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, Output};

fn scaleproof(args: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scaleproof"));
    command.args(args).env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE").envs(environment.iter().copied());
    command.output().unwrap()
}

fn commands() -> Vec<String> {
    let help = String::from_utf8(scaleproof(&["--help"], &[]).stdout).unwrap();
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let name = |line: &str| {
        line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()).map(str::to_owned)
    };
    listed.filter_map(name).filter(|name| name != "help").collect()
}

#[test]
fn every_command_has_an_example() {
    let commands = commands();
    assert!(commands.len() >= 12, "{commands:?}");
    for command in &commands {
        let help = String::from_utf8(scaleproof(&[command, "--help"], &[]).stdout).unwrap();
        assert!(help.contains(&format!("Example: scaleproof {command} ")), "{command}: {help}");
    }
}

#[test]
fn every_shell_completes_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = String::from_utf8(scaleproof(&["completions", shell], &[]).stdout).unwrap();
        for command in commands() {
            assert!(script.contains(&command), "{shell} does not know {command}");
        }
    }
}

#[test]
fn there_is_a_man_page_for_every_command() {
    let page = String::from_utf8(scaleproof(&["man"], &[]).stdout).unwrap();
    assert!(page.contains(".TH scaleproof"), "{page}");
    let directory = tempfile::tempdir().unwrap();
    let written = scaleproof(&["man", "--out", directory.path().to_str().unwrap()], &[]);
    assert!(written.status.success());
    for command in commands() {
        let page = std::fs::read_to_string(directory.path().join(format!("scaleproof-{command}.1"))).unwrap();
        assert!(page.contains("Example"), "{command}");
    }
}

#[test]
fn only_a_terminal_gets_colours_and_not_if_it_wants_none() {
    let coloured = |environment: &[(&str, &str)]| {
        let outputs =
            [scaleproof(&["--help"], environment).stdout, scaleproof(&["simulat"], environment).stderr];
        outputs.map(|bytes| bytes.contains(&0x1b))
    };
    assert_eq!(coloured(&[]), [false, false]);
    assert_eq!(coloured(&[("CLICOLOR_FORCE", "1")]), [true, true], "or this test could not fail");
    assert_eq!(coloured(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]), [false, false]);
}

#[test]
fn what_init_writes_loads() {
    let directory = tempfile::tempdir().unwrap();
    let valid = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad_input/valid");
    let profile = format!("{valid}/engine.yaml");
    let new = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let classes = ["--class", "chat:0.8:64:8:500:40", "--class", "long:0.2:1024:16:2500:50"];
    let mut made = vec![new("classes")];
    let init = |args: &[&str]| {
        let output = scaleproof(&[&["init", "--profile", &profile], args].concat(), &[]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    init(&[&[made[0].as_str()], &classes[..]].concat());
    for (format, file) in [
        ("csv", "csv/arrivals.csv"),
        ("mooncake", "mooncake/arrivals.jsonl"),
        ("azure", "azure/arrivals-azure.csv"),
    ] {
        made.push(new(format));
        init(&[made.last().unwrap(), "--trace", &format!("{valid}/{file}"), "--trace-format", format]);
    }
    for (scenario, traced) in made.iter().zip([false, true, true, true]) {
        let schedule = scaleproof(&["schedule", scenario], &[]);
        assert!(schedule.status.success(), "{scenario}: {}", String::from_utf8_lossy(&schedule.stderr));
        let lint = scaleproof(&["lint", scenario, "--format", "json"], &[]);
        let found: serde_json::Value = serde_json::from_slice(&lint.stdout).unwrap();
        let rules = found["findings"].as_array().unwrap().iter().map(|finding| &finding["rule"]);
        // A trace of a few rows reaches no gate.
        let classes_are_small = rules.clone().all(|rule| rule == "small-class");
        assert!(classes_are_small && (rules.count() > 0) == traced, "{found}");
    }
}

#[test]
fn the_linter_exits_by_what_it_finds() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bench.yaml");
    let exit = |text: &str| {
        std::fs::write(&file, text).unwrap();
        let output = scaleproof(&["lint", file.to_str().unwrap(), "--format", "json"], &[]);
        let json: Option<serde_json::Value> = serde_json::from_slice(&output.stdout).ok();
        (output.status.code(), json.map(|json| json["finding_count"].as_u64()))
    };
    let worthless = "load_mode: concurrency_only\nconcurrency: 128\nrequest_count: 100\nprompts: repeat_the_same_prompt\n\
        prefix_cache: enabled\nclear_cache_before_run: false\nwarmup_requests: 0\n\
        report: [mean_latency, total_tokens_per_second]\nmodel_revision: latest\nengine_version: latest\n";
    assert_eq!(exit(worthless), (Some(1), Some(Some(11))));
    assert_eq!(exit("[1, 2]"), (Some(2), None));
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/tp2-dp4");
    assert_eq!(scaleproof(&["lint", example], &[]).status.code(), Some(0));
}

#[test]
fn a_trace_that_no_gate_can_pass_is_warned_of_and_found() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    // 3,000 short rows, and 30 that the profile's 4,096 tokens of context do not hold.
    let rows: String =
        (0..3030).map(|i| format!("{i},{},8\n", if i < 3000 { 64 + i % 100 } else { 5000 })).collect();
    std::fs::write(path("t.csv"), format!("arrival_s,input_tokens,output_tokens\n{rows}")).unwrap();
    let profile = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad_input/valid/engine.yaml");
    let (trace, new) = (path("t.csv"), path("new"));
    let init = ["init", &new, "--profile", profile, "--trace", &trace, "--trace-format", "csv"];
    let output = scaleproof(&init, &[]);
    let warned = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && warned.lines().all(|line| line.starts_with("warning: ")), "{warned}");
    assert!(warned.contains("small-class: found short: "), "{warned}");
    assert!(warned.contains("beyond-context: found 30 of 3030 rows (1.0 %) beyond 4096 tokens"), "{warned}");
    let lint = scaleproof(&["lint", &new], &[]);
    let found = String::from_utf8_lossy(&lint.stdout).into_owned();
    assert_eq!(lint.status.code(), Some(1));
    assert_eq!(found.matches(": small-class: ").count(), warned.matches(": small-class: ").count());
    assert!(found.contains("beyond-context"), "{found}");
}

#[test]
fn an_unknown_setting_comes_with_the_nearest_known_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("bench.yaml");
    std::fs::write(&file, "request_rate: 8\nrequest_counts: 9000\ncolour: blue\n").unwrap();
    let lint = scaleproof(&["lint", file.to_str().unwrap()], &[]);
    let text = String::from_utf8_lossy(&lint.stdout).into_owned();
    assert!(text.contains("not read: request_counts (did you mean request_count?), colour\n"), "{text}");
}

#[test]
fn a_scenario_is_judged_without_its_trace() {
    let directory = tempfile::tempdir().unwrap();
    let valid = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad_input/valid");
    std::fs::copy(format!("{valid}/engine.yaml"), directory.path().join("engine.yaml")).unwrap();
    std::fs::create_dir(directory.path().join("csv")).unwrap();
    for name in ["csv/workload-manifest.yaml", "csv/scenario.yaml"] {
        std::fs::copy(format!("{valid}/{name}"), directory.path().join(name)).unwrap();
    }
    let output = scaleproof(&["lint", directory.path().join("csv").to_str().unwrap()], &[]);
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("no-warm-up"));
}
