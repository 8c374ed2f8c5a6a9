//! A GPU by its data sheet.

use super::Precision;
use super::catalogue::{self, Found, GPUS, Named};
use scaleproof_pack::document::Document;
use scaleproof_pack::fault::Faults;
use scaleproof_pack::fields::{Fields, Item, from_to, word_of};
use std::sync::OnceLock;

/// A GPU's specification. Rates are peaks: nothing that runs on it can be faster.
#[derive(Clone, Debug, PartialEq)]
pub struct Gpu {
    /// Its name, lower case.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// Device memory by the data sheet.
    pub hbm_bytes: u64,
    /// Device memory that a process sees (`cudaMemGetInfo`): a share of it is what an engine takes.
    pub visible_bytes: u64,
    /// Peak bandwidth of the device memory.
    pub hbm_bytes_per_s: f64,
    /// Dense peak of each precision that the tensor cores compute in, in FLOP/s (or integer operations).
    pub peaks: Vec<(Precision, f64)>,
    /// How GPUs of a server are connected.
    pub link: Link,
    /// Peak of the link between GPUs, each direction, of one GPU.
    pub link_bytes_per_s: f64,
    /// Peak of the PCIe connection, each direction.
    pub pcie_bytes_per_s: f64,
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Where each figure is from: the field's name and the source.
    pub sources: Vec<(&'static str, String)>,
}

/// How the GPUs of a server are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// NVLink through NVSwitch.
    NvLink,
    /// PCIe only.
    Pcie,
}

impl Link {
    const WORDS: [(&'static str, Link); 2] = [("nvlink", Link::NvLink), ("pcie", Link::Pcie)];

    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        word_of(&Self::WORDS, &self)
    }
}

impl Named for Gpu {
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}

/// A petabyte; no device memory is near it, and sums stay far inside 64 bits.
const BYTES_MAX: u64 = 1_000_000_000_000_000;
/// The greatest rate of a GPU, in bytes or operations per second.
const RATE_MAX: f64 = 1e18;
/// The least: below it a figure is in another unit, and steps would take longer than a run may.
const RATE_MIN: f64 = 1e9;

impl Gpu {
    /// The shipped GPUs, by name.
    ///
    /// # Errors
    /// The faults of a shipped file; a test reads them all.
    pub fn catalogue() -> Result<Vec<Gpu>, Faults> {
        // Every variant of a scenario on a real GPU asks again.
        static ALL: OnceLock<Result<Vec<Gpu>, Faults>> = OnceLock::new();
        let parse = |(file, text): &(&str, &str)| Gpu::parse(&format!("models/gpus/{file}"), text);
        ALL.get_or_init(|| GPUS.iter().map(parse).collect()).clone()
    }

    /// The shipped GPU of this name or alias, whatever its case; a path is left to the caller, who reads the file and
    /// calls [`Gpu::parse`].
    ///
    /// # Errors
    /// A name that is neither, with the nearest known one.
    pub fn find(name: &str) -> Result<Found<Gpu>, Faults> {
        catalogue::find("GPU", name, Gpu::catalogue()?)
    }

    /// Reads a GPU's YAML.
    ///
    /// # Errors
    /// All faults of the file, each with its line.
    pub fn parse(file: &str, text: &str) -> Result<Gpu, Faults> {
        Document::parse(file, text)?.read(read)
    }

    /// Dense peak of matrix products of a precision, in FLOP/s: where the hardware does not compute in it, of 16 bits.
    #[must_use]
    pub fn product_peak(&self, precision: Precision) -> f64 {
        self.peak_flops(precision).or_else(|| self.peak_flops(Precision::Bf16)).unwrap_or(f64::INFINITY)
    }

    /// Dense peak in a precision, in FLOP/s; None if the hardware does not compute in it.
    #[must_use]
    pub fn peak_flops(&self, precision: Precision) -> Option<f64> {
        self.peaks.iter().find(|(known, _)| *known == precision).map(|(_, peak)| *peak)
    }
}

fn read(fields: &mut Fields<'_>) -> Option<Gpu> {
    let mut sources = Vec::new();
    let name = catalogue::name(&fields.req("gpu"));
    let aliases = catalogue::aliases(&fields.opt("aliases"));
    let hbm = figure(fields, "hbm_bytes", &mut sources, |item| item.u64(1..=BYTES_MAX));
    let visible_item = fields.req("visible_bytes");
    let visible = sourced(&visible_item, "visible_bytes", &mut sources, |item| item.u64(1..=BYTES_MAX));
    let rate = |item: &Item<'_>| item.f64(from_to(RATE_MIN, RATE_MAX));
    let hbm_rate = figure(fields, "hbm_bytes_per_s", &mut sources, rate);
    let peaks = sourced(&fields.req("dense_flops"), "dense_flops", &mut sources, read_peaks);
    let link = sourced(&fields.req("link"), "link", &mut sources, |item| item.word(&Link::WORDS));
    let link_rate = figure(fields, "link_bytes_per_s", &mut sources, rate);
    let pcie_rate = figure(fields, "pcie_bytes_per_s", &mut sources, rate);
    let sm_count = figure(fields, "sm_count", &mut sources, |item| item.u32(1..=100_000));
    let (hbm_bytes, visible_bytes) = (hbm?, visible?);
    if visible_bytes > hbm_bytes {
        let expected = format!("at most hbm_bytes, {hbm_bytes}");
        visible_item.fault(visible_bytes.to_string(), &expected, "a process sees no more than there is");
    }
    Some(Gpu {
        name: name?,
        aliases: aliases?,
        hbm_bytes,
        visible_bytes,
        hbm_bytes_per_s: hbm_rate?,
        peaks: peaks?,
        link: link?,
        link_bytes_per_s: link_rate?,
        pcie_bytes_per_s: pcie_rate?,
        sm_count: sm_count?,
        sources,
    })
}

/// Reads `{value: X, source: TEXT}` of a field that must be there.
fn figure<T>(
    fields: &mut Fields<'_>,
    name: &'static str,
    sources: &mut Vec<(&'static str, String)>,
    read: impl FnOnce(&Item<'_>) -> Option<T>,
) -> Option<T> {
    sourced(&fields.req(name), name, sources, read)
}

/// Reads a value with its source.
fn sourced<T>(
    item: &Item<'_>,
    name: &'static str,
    sources: &mut Vec<(&'static str, String)>,
    read: impl FnOnce(&Item<'_>) -> Option<T>,
) -> Option<T> {
    let mut fields = item.fields()?;
    let (value, source) = (read(&fields.req("value")), fields.req("source").string());
    fields.finish();
    sources.push((name, source?));
    value
}

/// Reads the peaks: BF16 always, the others where the hardware has them.
fn read_peaks(item: &Item<'_>) -> Option<Vec<(Precision, f64)>> {
    let mut fields = item.fields()?;
    let mut peaks = Vec::new();
    let mut complete = true;
    for (word, precision) in Precision::WORDS {
        let peak = fields.field(word, precision == Precision::Bf16).f64(from_to(RATE_MIN, RATE_MAX));
        complete &= peak.is_some() || precision != Precision::Bf16;
        peaks.extend(peak.map(|peak| (precision, peak)));
    }
    fields.finish();
    complete.then_some(peaks)
}

#[cfg(test)]
mod tests;
