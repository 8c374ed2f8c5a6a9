//! Server-sent events out of bytes, however the network cut them.
//!
//! The format is the WHATWG's (HTML, section 9.2.6): lines end with LF, CR or CRLF; `data` lines of one event are joined by LF;
//! a blank line ends it. Works on bytes, so that a cut inside a character does no harm. Two liberties: an event that
//! the end of the stream cuts off is still yielded, as many servers leave the last blank line out; and fields other
//! than `data` are ignored.

use std::fmt;

/// The longest event, in bytes: beyond it the server is broken, and memory is not given away.
pub const EVENT_MAX_BYTES: usize = 16 << 20;

/// An event longer than [`EVENT_MAX_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLong;

impl fmt::Display for EventTooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an event longer than {EVENT_MAX_BYTES} bytes")
    }
}

impl std::error::Error for EventTooLong {}

/// Splits a stream into the data of its events.
#[derive(Debug, Default)]
pub struct Splitter {
    /// The line so far.
    line: Vec<u8>,
    /// The data so far, with a line feed behind each line.
    data: Vec<u8>,
    /// A CR ended the last line: a LF now belongs to it.
    after_cr: bool,
    /// The first line has been read: a byte order mark may stand before it only.
    begun: bool,
}

impl Splitter {
    /// At the beginning of a stream.
    #[must_use]
    pub fn new() -> Splitter {
        Splitter::default()
    }

    /// Takes bytes, and gives the data of each event that they complete to `each`.
    ///
    /// # Errors
    /// An event that is too long; nothing more can be read then.
    pub fn push(&mut self, mut bytes: &[u8], mut each: impl FnMut(&[u8])) -> Result<(), EventTooLong> {
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|&byte| byte == b'\n' || byte == b'\r');
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            self.line.extend_from_slice(part);
            if self.line.len() + self.data.len() > EVENT_MAX_BYTES {
                return Err(EventTooLong);
            }
            if let Some((&ending, rest)) = rest.split_first() {
                self.after_cr = ending == b'\r';
                self.end_line(&mut each);
                bytes = rest;
            } else {
                bytes = rest;
            }
        }
        Ok(())
    }

    /// The stream has ended: yields what it cut off.
    pub fn finish(&mut self, mut each: impl FnMut(&[u8])) {
        if !self.line.is_empty() {
            self.end_line(&mut each);
        }
        self.end_event(&mut each);
    }

    fn end_line(&mut self, each: &mut impl FnMut(&[u8])) {
        let mut line = self.line.as_slice();
        if !std::mem::replace(&mut self.begun, true) {
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            self.line.clear();
            self.end_event(each);
            return;
        }
        if let Some(value) = data_of(line) {
            self.data.extend_from_slice(value);
            self.data.push(b'\n');
        }
        self.line.clear();
    }

    fn end_event(&mut self, each: &mut impl FnMut(&[u8])) {
        if let Some((_, data)) = self.data.split_last() {
            each(data);
        }
        self.data.clear();
    }
}

/// The value of a `data` line.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"data")?;
    match rest.split_first() {
        None => Some(rest),
        Some((b':', value)) => Some(value.strip_prefix(b" ").unwrap_or(value)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn events<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
        let (mut splitter, mut found) = (Splitter::new(), Vec::new());
        let mut keep = |data: &[u8]| found.push(String::from_utf8_lossy(data).into_owned());
        for part in parts {
            splitter.push(part, &mut keep).unwrap();
        }
        splitter.finish(&mut keep);
        found
    }

    #[test]
    fn events_are_told_apart() {
        let stream = "\u{feff}data: one\n\n: a comment\nevent: x\nid: 3\ndata:two\ndata:  lines\r\n\r\ndata\rdata: ü\r\r\
                      database: none\n\n\n\ndata: [DONE]";
        assert_eq!(events([stream.as_bytes()]), ["one", "two\n lines", "\nü", "[DONE]"]);
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut splitter = Splitter::new();
        let chunk = vec![b'x'; 1 << 20];
        let taken = (0..20).take_while(|_| splitter.push(&chunk, |_| {}).is_ok()).count();
        assert_eq!(taken, EVENT_MAX_BYTES >> 20);
    }

    proptest! {
        /// Wherever the same bytes are cut, the events are the same.
        #[test]
        fn any_cut_gives_the_same_events(
            pieces in prop::collection::vec(prop::sample::select(vec![
                "data: ", "data:", "data", ":", "\n", "\r", "\r\n", "\n\n", "ü€🦀", "[DONE]", "{\"a\":1}", " ", "event: e", "\u{feff}",
            ]), 0..40),
            cuts in prop::collection::vec(1usize..7, 1..30),
        ) {
            let stream = pieces.concat().into_bytes();
            let mut parts = Vec::new();
            let (mut rest, mut sizes) = (stream.as_slice(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (part, left) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
                parts.push(part);
                rest = left;
            }
            prop_assert_eq!(events(parts), events([stream.as_slice()]));
        }

        /// Whatever the bytes, no panic.
        #[test]
        fn any_bytes_do_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            events([bytes.as_slice()]);
        }
    }
}
