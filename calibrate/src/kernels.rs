//! How close GPU kernels come to the data sheet: efficiencies fitted on measured kernels, carried to other GPUs by
//! their specification. The shipped ones are models/kernels, written by `examples/fit_kernels.rs`.
//!
//! ```text
//! matrix product  launch(m) + max(bytes/bandwidth, operations/peak) / efficiency(m)
//! decode          floor + row_head x rows x kv_heads + bytes(context) / (efficiency x bandwidth)
//! prefill         floor + token_head x tokens x heads + operations / (efficiency x peak)
//! all-reduce      floor + 2 (g-1)/g x bytes / (efficiency(g) x link), large ones with the library's floor and efficiency
//! element-wise    floor + bytes / (efficiency x bandwidth), of all such kernels of a layer
//! launches        what the host takes to launch a layer's kernels one by one, where no graph does
//! ```
//! Times of one layer, in microseconds. m: tokens; efficiency and launch depend on it because the tile does.

use crate::hardware::gpu::{Gpu, Link};
use crate::hardware::{Found, Precision};
use scaleproof_pack::document::Document;
use scaleproof_pack::fault::Faults;
use scaleproof_pack::fields::{Fields, Item, above, from_to, mapping};
use scaleproof_sim::profile::FitError;

/// Efficiencies of one generation of kernels.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernels {
    /// Name.
    pub name: String,
    /// GPUs they were measured on; others take them by specification.
    pub gpus: Vec<String>,
    /// Matrix products by the precision of the weights.
    pub products: Vec<(Precision, Vec<ProductKnot>)>,
    /// Decode attention by the precision of the cache.
    pub decode: Vec<(Precision, Decode)>,
    /// Prefill attention, at the peak of 16 bits.
    pub prefill: Prefill,
    /// All-reduce; None where none was measured.
    pub collective: Option<Collective>,
    /// Norms, rotary embedding and activation.
    pub element_wise: ElementWise,
    /// What the host takes to launch the kernels of a layer; None where it was not measured.
    pub launches_us: Option<f64>,
    /// How far the fits are from the measured kernels, by kind: one of [`ERROR_KINDS`].
    pub fit_errors: Vec<FitError>,
}

/// The kinds of kernels whose fit has an error in a file. For products and decode attention, with their precision.
pub const ERROR_KINDS: [&str; 8] = [
    "products_bf16",
    "products_fp8",
    "decode_bf16",
    "decode_fp8",
    "prefill",
    "collective",
    "element_wise",
    "launches",
];

/// Matrix products at a number of tokens.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProductKnot {
    /// Tokens.
    pub tokens: u32,
    /// Time that no size of the matrices explains.
    pub launch_us: f64,
    /// Share of the roofline.
    pub efficiency: f64,
}

/// Decode attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decode {
    /// Each layer.
    pub floor_us: f64,
    /// Each row and key-value head.
    pub row_head_us: f64,
    /// Share of the memory bandwidth.
    pub efficiency: f64,
    /// Whether it takes whole waves of multiprocessors, since its own work bounds it and not the bandwidth.
    pub in_waves: bool,
}

/// Prefill attention.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prefill {
    /// Each layer.
    pub floor_us: f64,
    /// Each token and query head.
    pub token_head_us: f64,
    /// Share of the peak.
    pub efficiency: f64,
}

/// All-reduce.
#[derive(Clone, Debug, PartialEq)]
pub struct Collective {
    /// Each.
    pub floor_us: f64,
    /// Share of the link's bandwidth by GPUs; degrees between are as the next lower one.
    pub efficiency: Vec<(u32, f64)>,
    /// Messages beyond these bytes go through the communication library, not the engine's own kernel.
    pub own_bytes_max: f64,
    /// Each that the library does.
    pub library_floor_us: f64,
    /// The library's share of the link's bandwidth.
    pub library_efficiency: f64,
}

/// Element-wise kernels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ElementWise {
    /// Each layer, all of them.
    pub floor_us: f64,
    /// Share of the memory bandwidth.
    pub efficiency: f64,
}

/// The shipped efficiencies: file name and text.
/// The first stands in for what the others lack.
const SHIPPED: [(&str, &str); 2] = [
    ("hopper.yaml", include_str!("../../models/kernels/hopper.yaml")),
    ("rtx-pro-6000.yaml", include_str!("../../models/kernels/rtx-pro-6000.yaml")),
];

impl Kernels {
    /// The shipped efficiencies that were measured on this GPU, filled up with the first ones where they lack something,
    /// or else the first ones; and whether products of `precision` were measured on it.
    ///
    /// # Errors
    /// The faults of a shipped file; a test reads them all.
    pub fn of(gpu: &Gpu, precision: Precision) -> Result<(Kernels, bool), Faults> {
        let parse = |(file, text): &(&str, &str)| Kernels::parse(&format!("models/kernels/{file}"), text);
        let mut all = SHIPPED.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
        let own = all.iter().position(|kernels| kernels.gpus.contains(&gpu.name));
        let first = if own == Some(0) { all[0].clone() } else { all[0].carried(gpu)? };
        let Some(own) = own else { return Ok((first, false)) };
        let mut kernels = all.swap_remove(own);
        let measured = kernels.products(precision).is_some();
        fill(&mut kernels.products, &first.products);
        fill(&mut kernels.decode, &first.decode);
        kernels.collective = kernels.collective.or(first.collective);
        kernels.launches_us = kernels.launches_us.or(first.launches_us);
        for error in first.fit_errors {
            if kernels.fit_errors.iter().all(|known| known.kind != error.kind) {
                kernels.fit_errors.push(error);
            }
        }
        Ok((kernels, measured))
    }

    /// On a GPU that they were not measured on. What no size explains of a product of one token is its launch, and stays.
    /// What comes on top at more tokens is tiles and waves that are not full: the tensor cores' time, which shrinks by their
    /// peak. Left as it is, FP8 on a GPU twice as fast would cost more than BF16 where a replica's many GPUs leave each
    /// small products.
    fn carried(&self, gpu: &Gpu) -> Result<Kernels, Faults> {
        let mut kernels = self.clone();
        let Some(Found::Entry(measured)) = self.gpus.first().map(|name| Gpu::find(name)).transpose()? else {
            return Ok(kernels);
        };
        for (precision, knots) in &mut kernels.products {
            let slower = measured.product_peak(*precision) / gpu.product_peak(*precision);
            let alone_us = knots.first().map_or(0.0, |knot| knot.launch_us);
            for knot in knots {
                knot.launch_us += (knot.launch_us - alone_us).max(0.0) * (slower - 1.0);
            }
        }
        // Other GPUs take other attention kernels.
        for (_, decode) in &mut kernels.decode {
            decode.in_waves = false;
        }
        Ok(kernels)
    }

    /// How far the fit of a kind of kernel is from its measurements; None where the file does not say.
    #[must_use]
    pub fn fit_error(&self, kind: &str) -> Option<&FitError> {
        self.fit_errors.iter().find(|error| error.kind == kind)
    }

    /// Reads a file of efficiencies.
    ///
    /// # Errors
    /// All faults of the file, each with its line.
    pub fn parse(file: &str, text: &str) -> Result<Kernels, Faults> {
        Document::parse(file, text)?.read(read)
    }

    /// Matrix products of a precision; those of FP8 stand for other 8-bit and 4-bit formats, whose peak differs.
    #[must_use]
    pub fn products(&self, precision: Precision) -> Option<&Vec<ProductKnot>> {
        let of = |p| self.products.iter().find(|(known, _)| *known == p).map(|(_, products)| products);
        of(precision).or_else(|| if precision == Precision::Bf16 { None } else { of(Precision::Fp8) })
    }

    /// Decode attention over a cache of a precision.
    #[must_use]
    pub fn decode(&self, precision: Precision) -> Option<Decode> {
        self.decode.iter().find(|(known, _)| *known == precision).map(|(_, decode)| *decode)
    }
}

impl ProductKnot {
    /// Microseconds of `[m, k] x [k, n]` at this knot's m.
    #[must_use]
    pub fn product_us(&self, (n, k): (u64, u64), precision: Precision, gpu: &Gpu) -> f64 {
        let roof_us = roof_us(self.tokens, (n, k), precision, gpu);
        self.launch_us + roof_us / self.efficiency
    }
}

/// The roofline's time of a matrix product: weights, input and 16-bit output moved once, or its operations. Where the
/// hardware does not compute in the precision, the operations are at the peak of 16 bits.
#[must_use]
pub fn roof_us(tokens: u32, (n, k): (u64, u64), precision: Precision, gpu: &Gpu) -> f64 {
    let m = f64::from(tokens);
    let (n, k) = (n as f64, k as f64);
    let peak = gpu.product_peak(precision);
    let element = precision.bytes(1 << 16) as f64 / f64::from(1 << 16);
    let bytes = element * (n * k + m * k) + 2.0 * m * n;
    1e6 * (bytes / gpu.hbm_bytes_per_s).max(2.0 * m * n * k / peak)
}

impl Collective {
    /// Microseconds of an all-reduce of `bytes` over `gpus`; 0 for one.
    #[must_use]
    pub fn all_reduce_us(&self, bytes: f64, gpus: u32, gpu: &Gpu) -> f64 {
        if gpus < 2 {
            return 0.0;
        }
        let g = f64::from(gpus);
        let ring_us = 1e6 * 2.0 * (g - 1.0) / g * bytes / gpu.link_bytes_per_s;
        // The engine's own kernel needs NVLink: without it, everything goes through the library.
        if bytes > self.own_bytes_max || gpu.link == Link::Pcie {
            return self.library_floor_us + ring_us / self.library_efficiency;
        }
        let known = self.efficiency.iter().rev().find(|(g, _)| *g <= gpus).or(self.efficiency.first());
        let efficiency = known.map_or(1.0, |(_, e)| *e);
        self.floor_us + ring_us / efficiency
    }
}

/// Adds what is there for other precisions.
fn fill<T: Clone>(own: &mut Vec<(Precision, T)>, others: &[(Precision, T)]) {
    for (precision, value) in others {
        if own.iter().all(|(known, _)| known != precision) {
            own.push((*precision, value.clone()));
        }
    }
}

fn read(fields: &mut Fields<'_>) -> Option<Kernels> {
    let name = fields.req("kernels").string();
    let gpus: Option<Vec<String>> = fields.req("gpus").list(1..=100)?.iter().map(Item::string).collect();
    let _ = (fields.req("source").string(), fields.req("command").string());
    let fit_errors = mapping(&fields.req("fit_errors"), read_errors);
    let products = by_precision(&fields.req("products"), |f| read_knots(&f.req("knots")));
    let decode = by_precision(&fields.req("decode"), |f| {
        let [floor_us, row_head_us, efficiency] = three(f, ["floor_us", "row_head_us", "efficiency"])?;
        let in_waves = f.opt("in_waves").bool().unwrap_or(false);
        Some(Decode { floor_us, row_head_us, efficiency, in_waves })
    });
    let prefill = mapping(&fields.req("prefill"), |f| {
        let [floor_us, token_head_us, efficiency] = three(f, ["floor_us", "token_head_us", "efficiency"])?;
        Some(Prefill { floor_us, token_head_us, efficiency })
    });
    let collective_item = fields.opt("collective");
    let collective = mapping(&collective_item, |f| {
        let floor_us = f.req("floor_us").f64(from_to(0.0, 1e6));
        let pairs = f.req("efficiency").list(1..=16)?;
        let pair = |item: &Item<'_>| {
            let pair = item.list(2..=2)?;
            Some((pair[0].u32(2..=1024)?, pair[1].f64(above(0.0, 10.0))?))
        };
        let efficiency: Option<Vec<_>> = pairs.iter().map(pair).collect();
        let own_bytes_max = f.req("own_bytes_max").f64(from_to(0.0, 1e12));
        let library_floor_us = f.req("library_floor_us").f64(from_to(0.0, 1e6));
        let library_efficiency = f.req("library_efficiency").f64(above(0.0, 10.0));
        Some(Collective {
            floor_us: floor_us?,
            efficiency: efficiency?,
            own_bytes_max: own_bytes_max?,
            library_floor_us: library_floor_us?,
            library_efficiency: library_efficiency?,
        })
    });
    let element_wise = mapping(&fields.req("element_wise"), |f| {
        let floor_us = f.req("floor_us").f64(from_to(0.0, 1e6));
        let efficiency = f.req("efficiency").f64(above(0.0, 10.0));
        Some(ElementWise { floor_us: floor_us?, efficiency: efficiency? })
    });
    let launches_us = fields.opt("launches_us").f64(from_to(0.0, 1e6));
    Some(Kernels {
        name: name?,
        gpus: gpus?,
        products: products?,
        decode: decode?,
        prefill: prefill?,
        collective: if collective_item.is_present() { Some(collective?) } else { None },
        element_wise: element_wise?,
        launches_us,
        fit_errors: fit_errors?,
    })
}

fn read_errors(fields: &mut Fields<'_>) -> Option<Vec<FitError>> {
    let mut errors = Vec::new();
    for kind in ERROR_KINDS {
        let item = fields.opt(kind);
        if item.is_present() {
            errors.push(mapping(&item, |f| {
                let count = f.req("count").u32(1..=u32::MAX);
                let median_relative = f.req("median_relative").f64(from_to(0.0, 10.0));
                Some(FitError { kind: kind.to_owned(), count: count?, median_relative: median_relative? })
            })?);
        }
    }
    Some(errors)
}

fn by_precision<T>(
    item: &Item<'_>,
    mut read: impl FnMut(&mut Fields<'_>) -> Option<T>,
) -> Option<Vec<(Precision, T)>> {
    let mut fields = item.fields()?;
    let mut found = Vec::new();
    for (word, precision) in Precision::WORDS {
        let item = fields.opt(word);
        if item.is_present() {
            found.push((precision, mapping(&item, &mut read)?));
        }
    }
    fields.finish();
    Some(found)
}

/// Two costs and a share.
fn three(fields: &mut Fields<'_>, names: [&'static str; 3]) -> Option<[f64; 3]> {
    let [first, second, share] = names;
    let (first, second) =
        (fields.req(first).f64(from_to(0.0, 1e6)), fields.req(second).f64(from_to(0.0, 1e6)));
    let share = fields.req(share).f64(above(0.0, 10.0));
    Some([first?, second?, share?])
}

/// Knots as `[tokens, launch_us, efficiency]`, tokens rising.
fn read_knots(item: &Item<'_>) -> Option<Vec<ProductKnot>> {
    let mut knots: Vec<ProductKnot> = Vec::new();
    for knot in item.list(2..=1000)? {
        let values = knot.list(3..=3)?;
        let tokens = values[0].u32(1..=1 << 24)?;
        let launch_us = values[1].f64(from_to(0.0, 1e6))?;
        let efficiency = values[2].f64(above(0.0, 10.0))?;
        if let Some(last) = knots.last().filter(|last| last.tokens >= tokens) {
            knot.fault(
                format!("{tokens} after {}", last.tokens),
                "more tokens than the knot before",
                "order the knots",
            );
            return None;
        }
        knots.push(ProductKnot { tokens, launch_us, efficiency });
    }
    Some(knots)
}
