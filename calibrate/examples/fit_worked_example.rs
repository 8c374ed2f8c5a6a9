//! Fits the fixture profile to the worked example's table, and prints what is left over.
//!
//! ```text
//! fit_worked_example                   fit, and print the residuals
//! fit_worked_example --write FILE      the same, then write the fitted profile
//! fit_worked_example --check FILE      no fit: print the residuals of the profile in FILE
//! ```
//! Exits 0 if every target is met to within what is allowed and every gate passes up to the capacity.

use scaleproof_calibrate::fit::{Bench, Measured};
use scaleproof_calibrate::fixture::Fixture;
use scaleproof_calibrate::optimize::minimize;
use scaleproof_calibrate::worked_example::{CAPACITY_RPS, Residual, loss, points, residuals};
use scaleproof_pack::report::Report;
use scaleproof_sim::Extremes;
use std::cell::Cell;
use std::error::Error;
use std::io::{Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Rounds of the simplex method: about twice as many candidates, of seven simulations each.
const ITERATIONS: u64 = 30;

enum Task {
    Fit { write: Option<PathBuf> },
    Check(PathBuf),
}

fn main() -> ExitCode {
    match task().and_then(|task| run(&task)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}

fn task() -> Result<Task, Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Ok(Task::Fit { write: None }),
        ["--write", path] => Ok(Task::Fit { write: Some(path.into()) }),
        ["--check", path] => Ok(Task::Check(path.into())),
        _ => Err(format!("found {arguments:?}; expected nothing, --write FILE or --check FILE").into()),
    }
}

fn run(task: &Task) -> Result<bool, Box<dyn Error>> {
    let bench = bench()?;
    match task {
        Task::Check(path) => {
            let measured = bench.measure(&path.display().to_string(), &read(path)?)?;
            print(&measured)
        }
        Task::Fit { write } => {
            let fixture = fit(&bench)?;
            let measured = bench.measure("the fitted profile", &fixture.text())?;
            writeln!(stdout(), "fitted: {fixture:?}")?;
            let passed = print(&measured)?;
            if let Some(path) = write {
                let seen = measured.iter().fold(Extremes::default(), |seen, m| seen.max(m.extremes));
                std::fs::write(path, fixture.fitted_text(&seen, &residuals(&reports(&measured))))
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                writeln!(stdout(), "written: {}", path.display())?;
            }
            Ok(passed)
        }
    }
}

fn bench() -> Result<Bench, Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/tp2-dp4");
    let (manifest, scenario) = (folder.join("workload-manifest.yaml"), folder.join("scenario.yaml"));
    let (manifest_name, scenario_name) = (manifest.display().to_string(), scenario.display().to_string());
    Ok(Bench::new((&manifest_name, &read(&manifest)?), (&scenario_name, &read(&scenario)?), &points())?)
}

fn read(path: &Path) -> Result<String, Box<dyn Error>> {
    Ok(std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?)
}

fn fit(bench: &Bench) -> Result<Fixture, Box<dyn Error>> {
    let (tried, best) = (Cell::new(0), Cell::new(f64::INFINITY));
    let cost = |values: &[f64]| -> Result<f64, String> {
        let candidate = Fixture::of(values).ok_or("found other parameters than the fixture's")?;
        let measured = bench.measure("a candidate", &candidate.text()).map_err(|error| error.to_string())?;
        let cost = loss(&reports(&measured));
        tried.set(tried.get() + 1);
        if cost < best.get() {
            best.set(cost);
            let _ = writeln!(stderr(), "candidate {}: loss {cost:.3} {candidate:?}", tried.get());
        }
        Ok(cost)
    };
    let (values, _) = minimize(&Fixture::START, ITERATIONS, &cost)?;
    Ok(Fixture::of(&values).ok_or("found other parameters than the fixture's")?)
}

fn reports(measured: &[Measured]) -> Vec<&Report> {
    measured.iter().map(|measured| &measured.report).collect()
}

/// Prints the residuals and the gates. Returns whether all is as it should be.
fn print(measured: &[Measured]) -> Result<bool, Box<dyn Error>> {
    let mut out = stdout().lock();
    writeln!(out, "offered  metric                        table   fitted  difference  allowed  ")?;
    let left = residuals(&reports(measured));
    for residual in &left {
        print_residual(&mut out, residual)?;
    }
    let mut passed = left.iter().all(Residual::holds);
    writeln!(out, "\noffered  run  failed %  weakest %  gates")?;
    for Measured { report, .. } in measured {
        let rps = report.facts.offered_rps.unwrap_or_default();
        let failing: Vec<&str> = report.failing_gates().collect();
        let weakest = report.weakest_class().and_then(|(_, class)| class.attainment);
        writeln!(
            out,
            "{rps:>7}  {:>3}  {:>8.2}  {:>9.2}  {}",
            report.facts.run.unwrap_or_default(),
            100.0 * report.error_rate.unwrap_or_default(),
            100.0 * weakest.unwrap_or_default(),
            if failing.is_empty() { "pass".to_owned() } else { format!("FAIL {}", failing.join(", ")) }
        )?;
        passed &= report.capacity_gate_pass == (rps <= CAPACITY_RPS);
    }
    writeln!(out, "loss {:.3}", loss(&reports(measured)))?;
    Ok(passed)
}

fn print_residual(out: &mut impl Write, residual: &Residual) -> std::io::Result<()> {
    let target = &residual.target;
    let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    writeln!(
        out,
        "{:>7}  {:<27}  {:>6}  {:>7}  {:>10}  {:>7.2}  {}",
        target.rps,
        target.metric.name(),
        target.published,
        number(residual.fitted),
        number(residual.fitted.map(|fitted| fitted - target.published)),
        target.allowed,
        if residual.holds() { "" } else { "MISSED" }
    )
}
