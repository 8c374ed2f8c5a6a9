//! Offers the worked example's mix to replicas in turn, at even intervals, and reads every stream to its end:
//!
//! ```text
//! scaleproof emulate scenarios/tp2-dp4 --replicas 8
//! cargo run --release -p scaleproof-emulate --example load -- 50 60 127.0.0.1:8100 127.0.0.1:8101 ...
//! ```
//!
//! The first number is the rate in requests a second, the second for how many seconds. It measures nothing: the
//! emulator's own step lag, printed when it is stopped, is what to look at.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "it is a program")]

use std::error::Error;
use std::net::SocketAddr;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Prompt and output tokens of ten requests: seven interactive, two with a long context, one with a long answer.
const MIX: [(u32, u32); 10] = [
    (1024, 128),
    (1024, 128),
    (8192, 256),
    (1024, 128),
    (512, 1024),
    (1024, 128),
    (1024, 128),
    (8192, 256),
    (1024, 128),
    (1024, 128),
];

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rate, seconds, addresses @ ..] = arguments.as_slice() else {
        return Err("expected RATE SECONDS ADDRESS...".into());
    };
    let (rate, seconds): (f64, f64) = (rate.parse()?, seconds.parse()?);
    let addresses: Vec<SocketAddr> = addresses.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    if addresses.is_empty() || rate.is_nan() || rate <= 0.0 {
        return Err("expected a rate above 0 and at least one address".into());
    }
    let begins = Instant::now();
    let mut requests = Vec::new();
    for number in 0..(rate * seconds) as usize {
        let due = begins + Duration::from_secs_f64(number as f64 / rate);
        tokio::time::sleep_until(due.into()).await;
        let address = addresses[number % addresses.len()];
        // Each replica has the whole mix.
        let lengths = MIX[number / addresses.len() % MIX.len()];
        requests.push(tokio::spawn(stream(address, number as u32, lengths)));
    }
    let (mut whole, mut bytes) = (0, 0);
    let offered = requests.len();
    for request in requests {
        match request.await? {
            Ok((done, read)) => {
                whole += usize::from(done);
                bytes += read;
            }
            Err(error) => eprintln!("{error}"),
        }
    }
    println!(
        "{offered} requests, {whole} whole answers, {bytes} bytes in {:.1} s",
        begins.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Whether a stream came to its [DONE], and its bytes.
async fn stream(
    address: SocketAddr,
    number: u32,
    (input, output): (u32, u32),
) -> std::io::Result<(bool, usize)> {
    let prompt: Vec<String> =
        (0..input).map(|index| (256 + (number * 9973 + index) % 60_000).to_string()).collect();
    let prompt = prompt.join(",");
    let body = format!("{{\"prompt\":[{prompt}],\"max_tokens\":{output},\"stream\":true}}");
    let mut connection = TcpStream::connect(address).await?;
    let head = format!(
        "POST /v1/completions HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    connection.write_all((head + &body).as_bytes()).await?;
    let mut buffer = vec![0; 16 << 10];
    let (mut bytes, mut tail) = (0, Vec::new());
    loop {
        let count = connection.read(&mut buffer).await?;
        if count == 0 {
            break;
        }
        bytes += count;
        tail.extend_from_slice(&buffer[..count]);
        tail.drain(..tail.len().saturating_sub(64));
    }
    Ok((String::from_utf8_lossy(&tail).contains("data: [DONE]"), bytes))
}
