use super::*;

/// Runs at one load with these goodputs, and nothing else measured.
fn runs(name: &str, goodputs: &[f64]) -> PolicyRuns {
    let run = |&goodput: &f64| {
        let mut all = [None; Measure::ALL.len()];
        all[1] = Some(goodput);
        RunMeasures { values: vec![all], queue_trend: Verdict::Flat }
    };
    let at = LoadRuns { offered_rps: 10.0, load: 1.0, runs: goodputs.iter().map(run).collect() };
    PolicyRuns { name: name.to_owned(), loads: vec![at] }
}

#[test]
fn a_shift_that_all_pairs_show_is_real_though_the_runs_differ_by_more() {
    let first = [3.0, 9.0, 5.0, 7.0, 4.0, 8.0, 6.0, 5.5];
    let shifted: Vec<f64> = first.iter().enumerate().map(|(i, x)| x + 0.5 + 0.01 * i as f64).collect();
    let mixed = [3.1, 8.9, 5.1, 6.9, 4.1, 7.9, 6.1, 5.4];
    let found = differences(&[runs("a", &first), runs("b", &shifted), runs("c", &mixed)], &[], 1);
    let told: Vec<(&str, bool, Option<bool>)> =
        found.iter().map(|d| (d.policy.as_str(), d.real, d.better)).collect();
    assert_eq!(told[0], ("b", true, Some(true)));
    assert!(!told[1].1, "{:?}", found[1]);
    let (low, high) = found[0].ci95.unwrap();
    assert!(low > 0.5 && high < 0.6 && found[0].pairs == 8, "{:?}", found[0]);
}

#[test]
fn jain_by_hand() {
    assert_eq!(jain(&[]), None);
    assert_eq!(jain(&[0.0, 0.0]), Some(1.0));
    assert_eq!(jain(&[1.0, 0.0]), Some(0.5));
    assert!((jain(&[0.5, 0.25]).unwrap() - 0.9).abs() < 1e-12);
}

#[test]
fn the_tables_and_the_file_have_a_row_for_each() {
    let policies = [runs("a", &[1.0, 2.0]), runs("b", &[2.0, 3.5])];
    assert_eq!(loads_table(&policies, &[]).rows[1][..4], ["b", "1.00", "10.00", "2.75"]);
    let lines: Vec<String> = csv(&policies, &[]).lines().map(str::to_owned).collect();
    assert_eq!((lines.len(), lines[2].as_str()), (5, "a,1,10,1,all,,2,,,,,,,flat"));
    let found = differences(&policies, &[], 1);
    assert_eq!(differences_table(found.iter()).rows[0][3..7], ["goodput rps", "1.50", "2.75", "+1.25"]);
}
