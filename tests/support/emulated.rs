//! `scaleproof emulate` in a process of its own, for tests over HTTP.

#![allow(clippy::print_stdout, reason = "a test says what it does not judge")]

use super::Scenario;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};

/// Steps of 5 ms that end later than this say nothing about times.
const LAG_P99_MAX_MS: f64 = 4.0;

/// An emulator, ended with the test.
pub struct Emulated {
    process: Child,
    out: BufReader<ChildStdout>,
    /// The replicas' URLs.
    pub replicas: Vec<String>,
    /// Where faults are taken.
    pub admin: Admin,
}

/// The address of the port for faults.
#[derive(Clone)]
pub struct Admin(String);

impl Emulated {
    /// Emulates the scenario in this folder beside the test's own.
    pub fn start(scenario: &Scenario, folder: &str, arguments: &[&str]) -> Emulated {
        let always = ["emulate", folder, "--port", "0", "--admin-port", "0"];
        let mut process =
            scenario.command(&[&always, arguments].concat()).stdout(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(process.stdout.take().unwrap());
        let mut replicas = Vec::new();
        let admin = loop {
            let mut line = String::new();
            assert!(out.read_line(&mut line).unwrap() > 0, "it ended before it listened");
            match line.trim().split_once(": http://") {
                Some(("faults", address)) => break Admin(address.to_owned()),
                Some((_, address)) => replicas.push(format!("http://{address}")),
                None => {}
            }
        };
        Emulated { process, out, replicas, admin }
    }

    /// `--target` for each replica.
    pub fn targets(&self) -> Vec<&str> {
        self.replicas.iter().flat_map(|replica| ["--target", replica.as_str()]).collect()
    }

    /// Ends it; whether its steps were on time, which it says at the end. If not, that is printed.
    pub fn was_on_time(mut self) -> bool {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let mut said = String::new();
        self.out.read_to_string(&mut said).unwrap();
        assert!(self.process.wait().unwrap().success());
        let p99 = said.rsplit_once("p99 ").and_then(|(_, rest)| rest.split(' ').next()?.parse::<f64>().ok());
        let on_time = p99.unwrap_or_else(|| panic!("no step lag in {said}")) <= LAG_P99_MAX_MS;
        if !on_time {
            println!("times are not judged: the emulated engine's own steps were late: {said}");
        }
        on_time
    }
}

impl Admin {
    /// Puts a replica, by its number, or `all` under a fault.
    pub fn fault(&self, replica: &str, fault: &str) {
        let address = &self.0;
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST /replicas/{replica}/fault HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n{fault}",
            fault.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Does something on a command's `touch FILE`.
pub fn once_there(file: std::path::PathBuf, then: impl FnOnce() + Send + 'static) {
    std::thread::spawn(move || {
        while !file.exists() {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        then();
    });
}
