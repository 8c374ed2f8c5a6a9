//! A small HTTP server for what other programs ask of a run, or tell it: metrics and alerts. A request at a time.

use crate::exit::CommandError;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

/// The longest body, in bytes.
const BODY_MAX: usize = 16 << 20;
/// The longest head.
const HEAD_MAX: u64 = 64 << 10;
/// Who neither asks nor listens for so long is left.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is asked.
pub struct Asked {
    /// `GET` and so on.
    pub method: String,
    /// With its query.
    pub path: String,
    /// What came with it.
    pub body: Vec<u8>,
}

/// A status and a text; None where there is nothing of the kind.
type Answer = Option<(&'static str, String)>;

/// Answers on a port of this machine until the process ends; 0 is any that is free. The port.
pub fn listen(
    option: &str,
    port: u16,
    mut answer: impl FnMut(&Asked) -> Answer + Send + 'static,
) -> Result<u16, CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::could_not_run(format!(
            "{option} {port}: found {error}; expected a free port; choose another one"
        ))
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // Who goes away in the middle is nobody's concern.
            let _ = serve(&stream, &mut answer);
        }
    });
    Ok(port)
}

fn serve(mut stream: &TcpStream, answer: &mut impl FnMut(&Asked) -> Answer) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, text) = match read(stream)? {
        Some(asked) => answer(&asked).unwrap_or(("404 Not Found", "there is no such thing\n".to_owned())),
        None => ("400 Bad Request", "expected an HTTP request\n".to_owned()),
    };
    write!(
        stream,
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{text}",
        text.len()
    )
}

fn read(stream: &TcpStream) -> std::io::Result<Option<Asked>> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    let mut limited = (&mut reader).take(HEAD_MAX);
    while !head.ends_with(b"\r\n\r\n") {
        if limited.read_until(b'\n', &mut head)? == 0 {
            return Ok(None);
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path)) = (words.next(), words.next()) else { return Ok(None) };
    let length = lines.filter_map(|line| line.split_once(':')).find_map(|(name, value)| {
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
    });
    let length = match length {
        Some(Ok(length)) if length <= BODY_MAX => length,
        None => 0,
        Some(_) => return Ok(None),
    };
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Asked { method: method.to_owned(), path: path.to_owned(), body }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    #[test]
    fn requests_are_answered_and_nonsense_refused() {
        let echo = |asked: &Asked| {
            (asked.path == "/x").then(|| ("200 OK", String::from_utf8_lossy(&asked.body).into_owned()))
        };
        let port = listen("--port", 0, echo).unwrap();
        let posted = ask(port, "POST /x HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi");
        assert!(posted.starts_with("HTTP/1.1 200") && posted.ends_with("\r\n\r\nhi"), "{posted}");
        assert!(ask(port, "GET /y HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        for nonsense in ["GET", "\r\n\r\n", "POST /x HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n"] {
            assert!(!ask(port, nonsense).starts_with("HTTP/1.1 2"), "{nonsense}");
        }
        assert!(ask(port, "GET /x HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"), "it goes on");
        assert!(listen("--port", port, echo).is_err());
    }
}
