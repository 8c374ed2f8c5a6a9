//! `scaleproof emulate` as a process of its own.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A running emulator.
pub struct Emulated {
    child: Child,
    printed: BufReader<ChildStdout>,
    /// The replicas' addresses.
    pub replicas: Vec<String>,
}

impl Emulated {
    /// Starts `command`, which is `scaleproof emulate` on free ports, and waits until it serves.
    pub fn start(mut command: Command) -> Emulated {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        let mut replicas = Vec::new();
        loop {
            let mut line = String::new();
            assert!(printed.read_line(&mut line).unwrap() > 0, "the emulator ended before it served");
            match line.trim().split_once(": ") {
                Some(("faults", _)) => break,
                Some((name, address)) if name.starts_with("replica ") => replicas.push(address.to_owned()),
                _ => {}
            }
        }
        Emulated { child, printed, replicas }
    }

    /// `--target` for each replica.
    pub fn targets(&self) -> Vec<&str> {
        self.replicas.iter().flat_map(|replica| ["--target", replica]).collect()
    }

    /// Ends it politely. What it printed at its end.
    pub fn stop(mut self) -> String {
        let killed = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(killed.success());
        let mut text = String::new();
        self.printed.read_to_string(&mut text).unwrap();
        assert!(self.child.wait().unwrap().success(), "{text}");
        text
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The milliseconds that follow `name` in what an emulator printed at its end.
pub fn millis(text: &str, name: &str) -> f64 {
    let after = text.split_once(name).unwrap_or_else(|| panic!("no {name:?} in {text}")).1;
    after.trim_start().split(' ').next().unwrap().parse().unwrap()
}
