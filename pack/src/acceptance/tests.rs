use super::*;

fn verdicts(evidence: &Evidence) -> Vec<(&'static str, Verdict)> {
    judge(evidence).into_iter().map(|line| (line.id, line.verdict)).collect()
}

#[test]
fn of_nothing_nothing_is_shown() {
    assert!(verdicts(&Evidence::default()).iter().all(|(_, verdict)| *verdict == Verdict::NotShown));
}

#[test]
fn an_empty_point_is_wrong_and_no_panic() {
    let point = PointPack::read("p", Some("it was not finished".to_owned()), PointFiles::default());
    let garbage = PointFiles {
        manifest: Some(b"\xff"),
        requests: Some(b"x"),
        report: Some(b"{}"),
        timeline: Some(b"y"),
    };
    let other = PointPack::read("q", None, garbage);
    let lines = judge(&Evidence { points: vec![point, other], ..Evidence::default() });
    assert_eq!(lines[0].verdict, Verdict::NotMet);
    assert!(lines[0].evidence.iter().any(|line| line == "p: it was not finished"), "{:?}", lines[0]);
    assert!(lines.iter().all(|line| line.verdict != Verdict::Met && !line.evidence.is_empty()));
}

#[test]
fn observability_that_we_write_tells_the_causes_apart() {
    let files = crate::observability::files(crate::alerts::Timing::default());
    let causes = |files: &[(String, String)]| {
        let evidence = Evidence { observability: files.to_vec(), ..Evidence::default() };
        judge(&evidence).into_iter().find(|line| line.id == "causes").unwrap()
    };
    assert_eq!(causes(&files).verdict, Verdict::Met);
    let without: Vec<(String, String)> =
        files.into_iter().map(|(name, text)| (name, text.replace("kv_pressure", "other"))).collect();
    assert_eq!(causes(&without).verdict, Verdict::NotMet);
}
