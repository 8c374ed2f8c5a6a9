//! A run as a trace that Perfetto and Chrome's viewer open: the JSON object format of Chrome's trace events.
//!
//! One process a replica with a track of its steps and counters of KV use, running and waiting, and one of what the front end does
//! if it has the core of the steps (which are drawn without that time); and one process
//! with a track a request: queued, each prefill chunk, decode, preempted. Times are microseconds with nanoseconds
//! behind the point, as the format asks.

use crate::attempt::Attempt;
use crate::engine::{Batch, Row};
use crate::step_time::BatchShape;
use crate::watch::{Step, Watcher};
use scaleproof_pack::record::Record;
use scaleproof_pack::time::Nanos;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io;

/// The process number of the requests' tracks. Replica r is process r + 1.
const REQUESTS_PID: u32 = 1_000_000;

/// What a request is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    /// Waiting for its first admission.
    Queued,
    /// In a step that computes prompt, or between two of them.
    Prefill,
    /// Decoding since `since`.
    Decode,
    /// Waiting to be computed again.
    Preempted,
}

#[derive(Clone, Copy, Debug)]
struct Track {
    number: u64,
    doing: Doing,
    since: Nanos,
    /// End of the last step it was in.
    until: Nanos,
}

/// Writes the trace of one part of a run.
pub struct ChromeTrace<W: io::Write> {
    out: W,
    classes: Vec<String>,
    steps: u64,
    from: Nanos,
    to: Nanos,
    first: bool,
    tracks: BTreeMap<(bool, u64), Track>,
    named_replicas: u32,
    failure: Option<io::Error>,
}

impl<W: io::Write> ChromeTrace<W> {
    /// `classes`: the names of the requests' classes. Only steps that begin from `from` to `to` are written, and the requests that appear in them.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W, classes: Vec<String>, from: Nanos, to: Nanos) -> io::Result<ChromeTrace<W>> {
        out.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
        let mut trace = ChromeTrace {
            out,
            classes,
            steps: 0,
            from,
            to,
            first: true,
            tracks: BTreeMap::new(),
            named_replicas: 0,
            failure: None,
        };
        trace.name("process_name", REQUESTS_PID, 0, "requests");
        Ok(trace)
    }

    /// Steps written so far.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Ends the trace: what is still going on is cut at the last step seen.
    ///
    /// # Errors
    /// The first error of `out`, whenever it came.
    pub fn finish(mut self) -> io::Result<W> {
        let tracks = std::mem::take(&mut self.tracks);
        for track in tracks.values() {
            self.close(track, track.until);
        }
        if let Some(error) = self.failure {
            return Err(error);
        }
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn emit(&mut self, event: &Value) {
        if self.failure.is_some() {
            return;
        }
        let separator = if std::mem::take(&mut self.first) { "\n" } else { ",\n" };
        if let Err(error) = write!(self.out, "{separator}{event}") {
            self.failure = Some(error);
        }
    }

    fn name(&mut self, what: &str, pid: u32, tid: u64, name: &str) {
        self.emit(&json!({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}));
    }

    fn span(&mut self, (pid, tid): (u32, u64), name: &str, from: Nanos, to: Nanos, args: Value) {
        if to > from {
            self.emit(&json!({
                "ph": "X", "name": name, "pid": pid, "tid": tid,
                "ts": micros(from), "dur": micros(to.since(from)), "args": args,
            }));
        }
    }

    /// Writes what a track was doing until `until`. Prefill chunks are written as they come.
    fn close(&mut self, track: &Track, until: Nanos) {
        let name = match track.doing {
            Doing::Queued => "queued",
            Doing::Decode => "decode",
            Doing::Preempted => "preempted",
            Doing::Prefill => return,
        };
        self.span((REQUESTS_PID, track.number), name, track.since, until, json!({}));
    }

    fn step_track(&mut self, step: &Step<'_>) {
        let pid = step.replica + 1;
        while self.named_replicas <= step.replica {
            let replica = self.named_replicas;
            self.name("process_name", replica + 1, 0, &format!("replica {replica}"));
            self.name("thread_name", replica + 1, 0, "steps");
            self.name("thread_name", replica + 1, 1, "front end");
            self.named_replicas += 1;
        }
        let (name, args) = describe(step.batch);
        self.span((pid, 0), &name, step.begins, step.ends, args);
        let load = step.load;
        let ts = micros(step.begins);
        self.emit(&json!({"ph": "C", "name": "KV blocks", "pid": pid, "tid": 0, "ts": ts,
            "args": {"used": load.kv_blocks_used, "free": load.kv_blocks_total - load.kv_blocks_used}}));
        self.emit(&json!({"ph": "C", "name": "requests", "pid": pid, "tid": 0, "ts": ts,
            "args": {"running": load.running, "waiting": load.waiting}}));
    }

    /// The track of a request that is in a step. It begins with the time in the queue, unless the request was
    /// admitted before the part that is written.
    fn track(&mut self, step: &Step<'_>, row: &Row, attempt: &Attempt) -> Track {
        let request = attempt.request;
        if let Some(track) = self.tracks.get(&(request.warmup, request.index)) {
            return *track;
        }
        let number = request.index * 2 + 1 + u64::from(request.warmup);
        let kind = if request.warmup { "warm-up " } else { "" };
        let class = self.classes.get(usize::from(attempt.class)).map_or("", String::as_str);
        let name = format!("{kind}{} {class}", request.index);
        self.name("thread_name", REQUESTS_PID, number, &name);
        let admitted = step.batch.admitted.iter().any(|&(id, _)| id == row.id);
        let since = if admitted { attempt.sent } else { step.begins };
        let doing = if admitted { Doing::Queued } else { doing(row) };
        Track { number, doing, since, until: since }
    }

    fn row(&mut self, step: &Step<'_>, row: &Row) {
        let Some(attempt) = step.attempt(row.id) else { return };
        let request = attempt.request;
        let mut track = self.track(step, row, attempt);
        let doing = doing(row);
        if track.doing != doing {
            self.close(&track, step.begins);
            (track.doing, track.since) = (doing, step.begins);
        }
        if row.prefill {
            let args = json!({"tokens": row.tokens, "context": row.context, "replica": step.replica});
            self.span((REQUESTS_PID, track.number), "prefill chunk", step.begins, step.ends, args);
        }
        track.until = step.ends;
        self.tracks.insert((request.warmup, request.index), track);
    }

    fn preempted(&mut self, step: &Step<'_>, id: u64) {
        let Some(request) = step.attempt(id).map(|attempt| attempt.request) else { return };
        if let Some(mut track) = self.tracks.get(&(request.warmup, request.index)).copied() {
            let at = step.begins.max(track.until);
            self.close(&track, at);
            (track.doing, track.since, track.until) = (Doing::Preempted, at, at);
            self.tracks.insert((request.warmup, request.index), track);
        }
    }
}

impl<W: io::Write> Watcher for ChromeTrace<W> {
    fn step(&mut self, step: &Step<'_>) {
        if !(self.from..=self.to).contains(&step.begins) {
            return;
        }
        self.steps += 1;
        self.step_track(step);
        for &id in &step.batch.preempted {
            self.preempted(step, id);
        }
        for row in &step.batch.rows {
            self.row(step, row);
        }
    }

    fn held_up(&mut self, replica: u32, now: Nanos, by: Nanos) {
        if (self.from..=self.to).contains(&now) {
            self.span((replica + 1, 1), "takes in", now, now + by, json!({}));
        }
    }

    fn ended(&mut self, record: &Record) {
        if let Some(track) = self.tracks.remove(&(record.warmup, record.id)) {
            self.close(&track, record.ended.max(track.since));
            self.emit(&json!({
                "ph": "i", "s": "t", "name": record.outcome.word(), "pid": REQUESTS_PID, "tid": track.number,
                "ts": micros(record.ended), "args": {"output_tokens": record.output_tokens, "reason": record.reason},
            }));
        }
    }
}

fn doing(row: &Row) -> Doing {
    if row.prefill { Doing::Prefill } else { Doing::Decode }
}

fn micros(time: Nanos) -> f64 {
    time.0 as f64 / 1e3
}

/// A step's name and what it is made of.
fn describe(batch: &Batch) -> (String, Value) {
    let (tokens, prefills, decodes) =
        (BatchShape::of(batch).tokens, batch.prefill_rows(), batch.decode_rows());
    let name = match (prefills, decodes) {
        (0, _) => format!("decode {decodes}"),
        (_, 0) => format!("prefill {tokens}"),
        _ => format!("mixed {tokens}"),
    };
    let args = json!({
        "tokens": tokens,
        "prefill_rows": prefills,
        "decode_rows": decodes,
        "admitted": batch.admitted.len(),
        "resumed": batch.resumed.len(),
        "preempted": batch.preempted.len(),
    });
    (name, args)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attempt::Attempts;
    use crate::engine::EngineLoad;
    use crate::event::Slot;
    use scaleproof_pack::workload::RequestRef;

    fn attempt(index: u64, sent: u64) -> Attempt {
        Attempt {
            request: RequestRef { warmup: false, index },
            class: 0,
            scheduled: Nanos(sent),
            sent: Nanos(sent),
            first_token: None,
            input_tokens: 8,
            requested_tokens: 3,
            output_tokens: 0,
            cached_tokens: 0,
            prefilled_tokens: 0,
            preemptions: 0,
            replica: Some(0),
            counted: true,
            away: Nanos::ZERO,
            retries: 0,
            fate: None,
            stage: crate::attempt::Stage::Through,
            in_engine: true,
            deadline: None,
        }
    }

    fn row(id: u64, tokens: u32, prefill: bool) -> Row {
        Row { id, tokens, context: 0, samples: true, prefill }
    }

    #[test]
    fn a_request_is_queued_prefilled_decoded_and_preempted() {
        let mut attempts = Attempts::default();
        let id = attempts.insert(attempt(7, 1_000)).engine_id();
        let mut trace =
            ChromeTrace::new(Vec::new(), vec!["chat".to_owned()], Nanos::ZERO, Nanos(9_000)).unwrap();
        let mut step = |begins, rows: Vec<Row>, preempted: Vec<u64>| {
            let admitted = if begins == 2_000 { vec![(id, 0)] } else { vec![] };
            let batch = Batch { rows, admitted, preempted, ..Batch::default() };
            let (begins, ends) = (Nanos(begins), Nanos(begins + 1_000));
            let load = EngineLoad { kv_blocks_total: 9, ..EngineLoad::default() };
            trace.step(&Step { replica: 0, begins, ends, batch: &batch, load, attempts: &attempts });
        };
        step(2_000, vec![row(id, 8, true)], vec![]);
        step(3_000, vec![row(id, 1, false)], vec![]);
        step(4_000, vec![row(id, 1, false)], vec![]);
        step(5_000, vec![], vec![id]);
        step(6_000, vec![row(id, 9, true)], vec![]);
        step(99_000, vec![row(id, 1, false)], vec![]);
        let record = attempts.get(Slot::of_engine_id(id)).unwrap().record(
            Nanos(7_000),
            scaleproof_pack::record::Outcome::Ok,
            "",
        );
        trace.ended(&record);
        let text = String::from_utf8(trace.finish().unwrap()).unwrap();
        let parsed: Value = serde_json::from_str(&text).unwrap();
        assert!(text.contains(r#"{"name":"7 chat"}"#), "{text}");
        let spans: Vec<(String, f64, f64)> = parsed["traceEvents"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|event| event["ph"] == "X" && event["pid"] == REQUESTS_PID)
            .map(|event| {
                let micros = |key: &str| event[key].as_f64().unwrap();
                (event["name"].as_str().unwrap().to_owned(), micros("ts"), micros("dur"))
            })
            .collect();
        let expected = [
            ("queued", 1.0, 1.0),
            ("prefill chunk", 2.0, 1.0),
            ("decode", 3.0, 2.0),
            ("preempted", 5.0, 1.0),
            ("prefill chunk", 6.0, 1.0),
        ];
        assert_eq!(spans, expected.map(|(name, ts, dur)| (name.to_owned(), ts, dur)));
    }
}
