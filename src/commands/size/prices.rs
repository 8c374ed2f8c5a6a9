//! Prices of GPU hours, from a file of the user's.

use crate::exit::CommandError;
use crate::files::read_text;
use scaleproof_calibrate::hardware::Found;
use scaleproof_calibrate::hardware::gpu::Gpu;
use scaleproof_pack::fault::suggestion;
use scaleproof_pack::fields::{Fields, Item, Reader, above};
use std::path::Path;

/// The most a GPU hour may cost, in any currency.
const PRICE_MAX: f64 = 1e9;

/// What a GPU costs.
pub struct Prices {
    /// As the file calls it.
    pub currency: String,
    /// By the GPU's own name.
    per_gpu_hour: Vec<(String, f64)>,
}

impl Prices {
    /// Reads a file with a price for each of `gpus`; those of other GPUs of the catalogue may stand in it too.
    pub fn read(path: &Path, gpus: &[Gpu]) -> Result<Prices, CommandError> {
        let file = path.display().to_string();
        Reader::read(&file, &read_text(path)?, |fields| {
            let currency = fields.req("currency").string();
            let item = fields.req("per_gpu_hour");
            let per_gpu_hour = item.fields().map(|prices| read(prices, gpus))?;
            for gpu in gpus {
                if !per_gpu_hour.iter().any(|(name, _)| *name == gpu.name) {
                    item.fault(format!("no price of {}", gpu.name), "one for every GPU of --gpu", "add it");
                }
            }
            Some(Prices { currency: currency?, per_gpu_hour })
        })
        .map_err(CommandError::bad_input)
    }

    /// The price of an hour of the GPU of this name.
    pub fn of(&self, gpu: &str) -> Option<f64> {
        self.per_gpu_hour.iter().find(|(name, _)| name == gpu).map(|(_, price)| *price)
    }
}

fn read(prices: Fields<'_>, gpus: &[Gpu]) -> Vec<(String, f64)> {
    let mut read: Vec<(String, f64)> = Vec::new();
    for (key, item) in prices.all() {
        let Some(name) = name(key, &item, gpus) else { continue };
        if read.iter().any(|(known, _)| *known == name) {
            item.fault(format!("a second price of {name}"), "one for each GPU", "remove one of them");
        }
        // A faulty price is a fault already; that there is none would be another.
        read.push((name, item.f64(above(0.0, PRICE_MAX)).unwrap_or_default()));
    }
    read
}

/// The GPU's own name for what the file calls it.
fn name(key: &str, item: &Item<'_>, gpus: &[Gpu]) -> Option<String> {
    let lower = key.to_lowercase();
    let names = |gpu: &Gpu| gpu.name == lower || gpu.aliases.contains(&lower);
    if let Some(gpu) = gpus.iter().find(|gpu| names(gpu)) {
        return Some(gpu.name.clone());
    }
    if let Ok(Found::Entry(gpu)) = Gpu::find(key) {
        return Some(gpu.name);
    }
    let known = gpus.iter().flat_map(|gpu| gpu.aliases.iter().chain([&gpu.name])).map(String::as_str);
    item.fault("no such GPU", "a GPU of --gpu or of the catalogue", &suggestion(&lower, known));
    None
}
