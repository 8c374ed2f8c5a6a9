//! `compare-policies`: what it calls real is, nearly always; what is equal it calls equal; and the threads do not matter.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use serde_json::Value;
use support::Scenario;

/// The small scenario with policy files, and less traffic.
fn scenario() -> Scenario {
    let scenario = Scenario::new()
        .manifest("initial_scheduled_requests: 400", "initial_scheduled_requests: 160")
        .manifest("{chat: 300, batch: 100}", "{chat: 120, batch: 40}");
    let none = "admission: {policy: none}\nengine: {}\n";
    scenario.write("none.yaml", none);
    scenario.write("same.yaml", none);
    scenario.write("limit.yaml", "admission: {policy: in_flight_limit, max_in_flight: 16, max_queue: 0}\n");
    scenario
}

/// What comparing two policies at one load prints, and the pack.
fn compared(scenario: &Scenario, second: &str, load: &str, more: &[&str]) -> (Value, std::path::PathBuf) {
    let out = scenario.path(&format!("out-{second}-{load}{}", more.concat()));
    let directory = scenario.directory();
    let files = format!("{0}/none.yaml,{0}/{second}", directory.display());
    let arguments = [
        "compare-policies",
        directory.to_str().unwrap(),
        "--policies",
        &files,
        "--capacity-rps",
        "130",
        "--loads",
        load,
        "--format",
        "json",
        "--out",
        out.to_str().unwrap(),
    ];
    (scenario.run(&[&arguments, more].concat()).expect(0).json(), out)
}

#[test]
fn equal_policies_with_seeds_of_their_own_are_seldom_called_different() {
    let scenario = scenario();
    let flagged = |seed: &u64| {
        let seed = seed.to_string();
        let more = ["--independent-seeds", "--repeats", "6", "--seed", &seed];
        compared(&scenario, "same.yaml", "0.8", &more).0["real"].as_u64().unwrap() > 0
    };
    let flagged = (1..=100).filter(flagged).count();
    println!("{flagged} of 100 trials flag a difference");
    assert!(flagged <= 11, "{flagged} of 100");
}

#[test]
fn equal_policies_with_paired_seeds_do_not_differ_at_all() {
    let (result, _) = compared(&scenario(), "same.yaml", "1.5", &["--repeats", "4"]);
    for difference in result["differences"].as_array().unwrap() {
        assert_eq!((&difference["difference"], &difference["real"]), (&0.0.into(), &false.into()));
    }
}

#[test]
fn a_better_policy_is_found_under_overload() {
    let (result, _) = compared(&scenario(), "limit.yaml", "2", &["--repeats", "8"]);
    let all = result["differences"].as_array().unwrap();
    for (measure, better) in [("goodput_rps", true), ("rejected_share", false)] {
        let found = all.iter().find(|d| d["class"] == "all" && d["measure"] == measure).unwrap();
        assert!(found["real"] == true && found["better"] == better, "{measure}: {found}");
        let (low, high) = (found["ci95"][0].as_f64().unwrap(), found["ci95"][1].as_f64().unwrap());
        assert!(low * high > 0.0, "{measure}: the interval agrees");
    }
}

#[test]
fn the_result_does_not_depend_on_the_threads() {
    let scenario = scenario();
    let with = |threads: &str| {
        let more = ["--repeats", "3", "--threads", threads];
        let (mut result, pack) = compared(&scenario, "limit.yaml", "0.9,1.4", &more);
        result["pack"].take();
        (result, std::fs::read_to_string(pack.join("policies.csv")).unwrap())
    };
    assert_eq!(with("1"), with("2"));
}
