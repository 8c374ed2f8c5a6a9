//! The files of one operating point's pack, the same for a simulation and a live run.

use crate::exit::CommandError;
use crate::files::{self, Pending, unwritable};
use crate::input::Loaded;
use scaleproof_pack::record::Record;
use scaleproof_pack::report::Report;
use scaleproof_pack::report_html::{PointPage, point_html};
use scaleproof_pack::requests_csv;
use scaleproof_pack::timeline::{FleetSeries, TimelineCsv, TimelineRow};
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

/// Writes attempts as they end, then the rest.
pub struct PackWriter {
    requests: requests_csv::Writer<Pending>,
    requests_path: PathBuf,
    /// Bytes of requests.csv that are whole rows on the disk, if it is written in its place.
    safe_bytes: Option<u64>,
    failure: Option<io::Error>,
}

impl PackWriter {
    /// For a run that can be made again: requests.csv appears when it is whole.
    pub fn create(loaded: &Loaded, directory: &Path) -> Result<PackWriter, CommandError> {
        let file = Pending::create(&directory.join(files::REQUESTS))?;
        Ok(PackWriter::writing(loaded, directory, file, None))
    }

    /// For a run that costs time: requests.csv grows in its place beside the files that it is read with, so that a kill
    /// leaves what was written.
    pub fn in_place(loaded: &Loaded, directory: &Path, replicas: u32) -> Result<PackWriter, CommandError> {
        for (name, text) in loaded.pack_texts(replicas) {
            files::write(&directory.join(name), text.as_bytes())?;
        }
        let file = Pending::in_place(&directory.join(files::REQUESTS))?;
        let mut writer = PackWriter::writing(loaded, directory, file, Some(0));
        writer.flush();
        Ok(writer)
    }

    fn writing(loaded: &Loaded, directory: &Path, file: Pending, safe_bytes: Option<u64>) -> PackWriter {
        let names = loaded.manifest.classes.iter().map(|class| class.name.as_str());
        PackWriter {
            requests: requests_csv::Writer::new(file, names),
            requests_path: directory.join(files::REQUESTS),
            safe_bytes,
            failure: None,
        }
    }

    /// Takes an attempt. A failure is kept for [`PackWriter::finish`].
    pub fn row(&mut self, record: &Record) {
        if self.failure.is_none() {
            self.failure = self.requests.row(record).err();
        }
    }

    /// Brings all rows to the disk, if the file is in its place.
    pub fn flush(&mut self) {
        if self.failure.is_some() || self.safe_bytes.is_none() {
            return;
        }
        let flushed = self.requests.flush().and_then(|()| std::fs::metadata(&self.requests_path));
        match flushed {
            Ok(file) => self.safe_bytes = Some(file.len()),
            Err(error) => self.failure = Some(error),
        }
    }

    /// Whether a row could not be written.
    pub fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Puts requests.csv into its place, or what of it is whole if not all could be written. To be called before the rest
    /// of the pack is written.
    pub fn finish(mut self) -> Result<(), CommandError> {
        self.flush();
        let path = self.requests_path;
        let finished = match self.failure.take() {
            Some(error) => {
                drop(self.requests);
                Err(error)
            }
            None => self.requests.finish(),
        };
        match finished {
            Ok(file) => file.keep(),
            Err(error) => {
                if let Some(bytes) = self.safe_bytes {
                    // What lies behind the last whole row helps nobody; if it stays, the message below is still true.
                    let _ = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(bytes));
                }
                Err(unwritable(&path, &error))
            }
        }
    }
}

/// Writes the files of a point beside its requests.csv.
pub fn write_point(
    loaded: &Loaded,
    directory: &Path,
    (name, replicas): (&str, u32),
    report: &Report,
    samples: &[TimelineRow],
) -> Result<(), CommandError> {
    for (name, text) in loaded.pack_texts(replicas) {
        files::write(&directory.join(name), text.as_bytes())?;
    }
    let json = serde_json::to_string_pretty(report).map_err(CommandError::could_not_run)?;
    files::write(&directory.join(files::REPORT), format!("{json}\n").as_bytes())?;
    let timeline_path = directory.join(files::TIMELINE);
    write_timeline(Pending::create(&timeline_path)?, samples)
        .map_err(|error| unwritable(&timeline_path, &error))?
        .keep()?;
    let mut fleet = FleetSeries::default();
    samples.iter().for_each(|row| fleet.push(row));
    let (model, rows) = (loaded.served(), fleet.into_samples());
    let page = PointPage { model: &model, name, report, samples: &rows };
    files::write(&directory.join(files::PAGE), point_html(&page).as_bytes())
}

fn write_timeline(file: Pending, rows: &[TimelineRow]) -> io::Result<Pending> {
    let mut csv = TimelineCsv::new(file)?;
    rows.iter().try_for_each(|row| csv.row(row))?;
    csv.finish()
}
