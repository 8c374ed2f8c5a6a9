//! A dense decoder's shape: parameters, matrix products of a layer, KV cache and arithmetic per token.

pub(super) mod read;

use super::catalogue::{self, ARCHITECTURES, Found, Named};
use super::{Precision, huggingface};
use scaleproof_pack::document::Document;
use scaleproof_pack::fault::Faults;
use scaleproof_pack::fields::word_of;
use std::fmt;
use std::sync::OnceLock;

/// A dense decoder with grouped-query attention and a gated MLP: the Llama family and its like.
#[derive(Clone, Debug, PartialEq)]
pub struct Architecture {
    /// Its name, lower case.
    pub name: String,
    /// Other names.
    pub aliases: Vec<String>,
    /// What its layers are like.
    pub family: Family,
    /// Layers.
    pub layers: u32,
    /// Width of the residual stream.
    pub hidden: u32,
    /// Query heads.
    pub heads: u32,
    /// Key and value heads; divide the query heads.
    pub kv_heads: u32,
    /// Width of a head.
    pub head_dim: u32,
    /// Width of the MLP.
    pub intermediate: u32,
    /// Tokens of the vocabulary.
    pub vocab: u32,
    /// Whether the output head is the embedding's own matrix.
    pub tied_embeddings: bool,
    /// Whether query, key and value have a bias.
    pub qkv_bias: bool,
    /// Tokens of the longest sequence it was made for.
    pub max_position_embeddings: u32,
    /// As `torch_dtype` has it.
    pub torch_dtype: String,
    /// Precision of the layers' weights in the checkpoint.
    pub precision: Precision,
    /// Where the numbers are from.
    pub source: String,
}

/// Supported families of dense decoders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Llama 2 and 3.
    Llama,
    /// Qwen 2 and 2.5: a bias on query, key and value.
    Qwen2,
    /// Qwen 3: a norm on each head of query and key.
    Qwen3,
    /// Mistral without a sliding window.
    Mistral,
}

impl Family {
    /// Each with its word.
    pub const WORDS: [(&'static str, Family); 4] = [
        ("llama", Family::Llama),
        ("qwen2", Family::Qwen2),
        ("qwen3", Family::Qwen3),
        ("mistral", Family::Mistral),
    ];

    /// The word in files: Hugging Face's `model_type`.
    #[must_use]
    pub fn word(self) -> &'static str {
        word_of(&Self::WORDS, &self)
    }
}

/// A matrix product of one GPU: `[m, k] x [k, n]` for m tokens of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gemm {
    /// qkv, o, gate_up, down or lm_head.
    pub name: &'static str,
    /// Columns of the result.
    pub n: u64,
    /// Length of each dot product.
    pub k: u64,
}

impl Gemm {
    /// Weights of its matrix.
    #[must_use]
    pub fn weights(&self) -> u64 {
        self.n * self.k
    }
}

/// The matrix products of a step on one GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gemms {
    /// Those of a layer, in the order they run: qkv, o, gate_up, down.
    pub layer: [Gemm; 4],
    /// The output head, for the rows that are sampled only.
    pub lm_head: Gemm,
}

/// A tensor parallel degree that a model cannot be divided by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TpError {
    /// The degree.
    pub tp: u32,
    /// What it does not divide.
    pub what: &'static str,
    /// How many of them there are.
    pub count: u32,
    /// The degrees that do.
    pub possible: Vec<u32>,
}

impl fmt::Display for TpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let possible: Vec<String> = self.possible.iter().map(u32::to_string).collect();
        write!(
            f,
            "tensor parallel degree: found {}; expected a divisor of the {} {}; possible are {}",
            self.tp,
            self.count,
            self.what,
            possible.join(", ")
        )
    }
}

impl std::error::Error for TpError {}

impl Named for Architecture {
    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}

impl Architecture {
    /// The shipped architectures, by name.
    ///
    /// # Errors
    /// The faults of a shipped file; a test reads them all.
    pub fn catalogue() -> Result<Vec<Architecture>, Faults> {
        let parse =
            |(file, text): &(&str, &str)| Architecture::parse(&format!("models/architectures/{file}"), text);
        static ALL: OnceLock<Result<Vec<Architecture>, Faults>> = OnceLock::new();
        ALL.get_or_init(|| ARCHITECTURES.iter().map(parse).collect()).clone()
    }

    /// The shipped architecture of this name or alias, whatever its case; a path is left to the caller, who reads the
    /// file and calls [`Architecture::parse`].
    ///
    /// # Errors
    /// A name that is neither, with the nearest known one.
    pub fn find(name: &str) -> Result<Found<Architecture>, Faults> {
        catalogue::find("model", name, Architecture::catalogue()?)
    }

    /// Reads our YAML, or a Hugging Face config.json: whichever it is.
    ///
    /// # Errors
    /// All faults of the file, each with its line; a family that is not supported is named.
    pub fn parse(file: &str, text: &str) -> Result<Architecture, Faults> {
        let document = Document::parse(file, text)?;
        if huggingface::is_config(&document) {
            huggingface::read(file, &document)
        } else {
            document.read(read::read)
        }
    }

    /// Checks that it can be divided over `tp` GPUs: the query heads, the key and value heads or (where there are
    /// fewer of them than GPUs) their copies, and the MLP in equal parts.
    ///
    /// # Errors
    /// What `tp` does not divide.
    pub fn check_tp(&self, tp: u32) -> Result<(), TpError> {
        let wrong = |tp: u32| {
            if tp == 0 || !self.heads.is_multiple_of(tp) {
                Some(("query heads", self.heads))
            } else if !self.kv_heads.is_multiple_of(tp) && !tp.is_multiple_of(self.kv_heads) {
                Some(("key and value heads (or a multiple of them)", self.kv_heads))
            } else if !self.intermediate.is_multiple_of(tp) {
                Some(("columns of the MLP", self.intermediate))
            } else {
                None
            }
        };
        match wrong(tp) {
            None => Ok(()),
            Some((what, count)) => {
                let possible = (1..=self.heads).filter(|&tp| wrong(tp).is_none()).collect();
                Err(TpError { tp, what, count, possible })
            }
        }
    }

    /// Key and value heads that each GPU holds: `max(1, kv_heads / tp)`.
    #[must_use]
    pub fn kv_heads_per_gpu(&self, tp: u32) -> u32 {
        (self.kv_heads / tp.max(1)).max(1)
    }

    /// The matrix products of a step as one of `tp` GPUs runs them.
    ///
    /// # Errors
    /// See [`Architecture::check_tp`].
    pub fn gemms(&self, tp: u32) -> Result<Gemms, TpError> {
        self.check_tp(tp)?;
        let wide = u64::from;
        let query = wide(self.heads / tp) * wide(self.head_dim);
        let key_value = 2 * wide(self.kv_heads_per_gpu(tp)) * wide(self.head_dim);
        let (hidden, mlp) = (wide(self.hidden), wide(self.intermediate / tp));
        Ok(Gemms {
            layer: [
                Gemm { name: "qkv", n: query + key_value, k: hidden },
                Gemm { name: "o", n: hidden, k: query },
                Gemm { name: "gate_up", n: 2 * mlp, k: hidden },
                Gemm { name: "down", n: hidden, k: mlp },
            ],
            lm_head: Gemm { name: "lm_head", n: self.vocab_per_gpu(tp), k: hidden },
        })
    }

    /// Rows of the embedding that each GPU holds: the vocabulary padded to a multiple of 64, divided.
    #[must_use]
    pub fn vocab_per_gpu(&self, tp: u32) -> u64 {
        u64::from(self.vocab).next_multiple_of(64).div_ceil(u64::from(tp.max(1)))
    }

    /// Weights of the norms and biases of a layer, and of a head's norms: kept in 16 bits, whole on each GPU but for
    /// the bias.
    fn small_weights_per_layer(&self, tp: u32) -> u64 {
        let wide = u64::from;
        let bias = wide(self.heads / tp.max(1)) + 2 * wide(self.kv_heads_per_gpu(tp));
        let bias = if self.qkv_bias { bias * wide(self.head_dim) } else { 0 };
        let head_norms = if self.family == Family::Qwen3 { 2 * wide(self.head_dim) } else { 0 };
        2 * wide(self.hidden) + bias + head_norms
    }

    /// All parameters of the model.
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let embedding = u64::from(self.vocab) * u64::from(self.hidden);
        self.non_embedding_parameters() + if self.tied_embeddings { embedding } else { 2 * embedding }
    }

    /// Parameters without embedding and output head.
    #[must_use]
    pub fn non_embedding_parameters(&self) -> u64 {
        u64::from(self.layers) * (self.layer_weights() + self.small_weights_per_layer(1))
            + u64::from(self.hidden)
    }

    /// Weights of a layer's four matrices.
    fn layer_weights(&self) -> u64 {
        self.gemms(1).map_or(0, |gemms| gemms.layer.iter().map(Gemm::weights).sum())
    }

    /// Bytes of weights on each of `tp` GPUs, the layers' matrices in `precision`; embedding, output head, norms and
    /// biases stay in 16 bits, as in FP8 checkpoints.
    ///
    /// # Errors
    /// See [`Architecture::check_tp`].
    pub fn weight_bytes(&self, precision: Precision, tp: u32) -> Result<WeightBytes, TpError> {
        let gemms = self.gemms(tp)?;
        let layers = u64::from(self.layers);
        let matrices = layers * gemms.layer.iter().map(Gemm::weights).sum::<u64>();
        let columns = layers * gemms.layer.iter().map(|gemm| gemm.n).sum::<u64>();
        let small = layers * self.small_weights_per_layer(tp) + u64::from(self.hidden);
        let embedding = 2 * gemms.lm_head.weights();
        Ok(WeightBytes {
            matrices: precision.bytes(matrices),
            scales: match precision {
                Precision::Fp8 | Precision::Int8 => 4 * columns,
                // Those of FP4 are counted with its numbers.
                Precision::Bf16 | Precision::Fp4 => 0,
            },
            embedding,
            lm_head: if self.tied_embeddings { 0 } else { embedding },
            small: 2 * small,
            rotary: 2 * u64::from(self.max_position_embeddings) * u64::from(self.head_dim),
        })
    }

    /// Bytes of keys and values of one token on each of `tp` GPUs, all layers.
    #[must_use]
    pub fn kv_bytes_per_token(&self, kv_precision: Precision, tp: u32) -> u64 {
        let per_layer = 2 * u64::from(self.kv_heads_per_gpu(tp)) * u64::from(self.head_dim);
        kv_precision.bytes(u64::from(self.layers) * per_layer)
    }

    /// FLOPs of the layers' matrix products for one token, over all GPUs: two for each weight. The output head is
    /// apart ([`Architecture::lm_head_flops_per_row`]), and so is attention.
    #[must_use]
    pub fn flops_per_token(&self) -> f64 {
        2.0 * f64::from(self.layers) * self.layer_weights() as f64
    }

    /// FLOPs of the output head for one sampled row, over all GPUs.
    #[must_use]
    pub fn lm_head_flops_per_row(&self) -> f64 {
        2.0 * f64::from(self.vocab) * f64::from(self.hidden)
    }

    /// FLOPs of attention for one pair of a query and a key token, all layers and heads, over all GPUs: a product of
    /// length `head_dim` for the score, another for the value.
    #[must_use]
    pub fn attention_flops_per_pair(&self) -> f64 {
        4.0 * f64::from(self.layers) * f64::from(self.heads) * f64::from(self.head_dim)
    }
}

/// Bytes of weights on one GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightBytes {
    /// The layers' matrices.
    pub matrices: u64,
    /// Scales of 8-bit matrices, in 32 bits, one for each column of the result.
    pub scales: u64,
    /// The embedding.
    pub embedding: u64,
    /// The output head; 0 if it is the embedding's own.
    pub lm_head: u64,
    /// Norms and biases.
    pub small: u64,
    /// Sines and cosines of every position, which engines keep with the weights.
    pub rotary: u64,
}

impl WeightBytes {
    /// Their sum.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.matrices + self.scales + self.embedding + self.lm_head + self.small + self.rotary
    }
}

#[cfg(test)]
mod tests;
