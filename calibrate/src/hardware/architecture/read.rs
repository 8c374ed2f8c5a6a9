//! Reading an architecture: the numbers that every format has, and our own YAML.

use super::{Architecture, Family};
use crate::hardware::{Precision, catalogue};
use scaleproof_pack::fields::{Fields, Item};

/// The numbers that every format has, read from its own fields.
pub(in crate::hardware) struct Shape {
    pub layers: u32,
    pub hidden: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub intermediate: u32,
    pub vocab: u32,
    pub max_position_embeddings: u32,
}

/// What a format calls the numbers, and what it may leave out.
pub(in crate::hardware) struct ShapeNames {
    pub layers: &'static str,
    pub hidden: &'static str,
    pub heads: &'static str,
    pub kv_heads: &'static str,
    pub intermediate: &'static str,
    pub vocab: &'static str,
    /// Whether the key and value heads may be absent, being as many as the query heads.
    pub kv_heads_optional: bool,
}

/// Far above every model, and far below where products of them would leave 64 bits.
const WIDTH_MAX: u32 = 1 << 20;
const VOCAB_MAX: u32 = 1 << 24;
const HEADS_MAX: u32 = 4096;

/// Reads the numbers and what they must be to each other.
pub(in crate::hardware) fn read_shape(fields: &mut Fields<'_>, names: &ShapeNames) -> Option<Shape> {
    let layers = fields.req(names.layers).u32(1..=4096);
    let hidden_item = fields.req(names.hidden);
    let hidden = hidden_item.u32(1..=WIDTH_MAX);
    let heads = fields.req(names.heads).u32(1..=HEADS_MAX);
    let kv_item = fields.field(names.kv_heads, !names.kv_heads_optional);
    let kv_heads = kv_item.u32(1..=HEADS_MAX);
    let head_dim_item = fields.opt("head_dim");
    let head_dim = head_dim_item.u32(1..=8192);
    let intermediate = fields.req(names.intermediate).u32(1..=WIDTH_MAX);
    let vocab = fields.req(names.vocab).u32(1..=VOCAB_MAX);
    let max_position_embeddings = fields.req("max_position_embeddings").u32(1..=1 << 30);
    let (hidden, heads) = (hidden?, heads?);
    let head_dim = if head_dim_item.is_present() {
        head_dim?
    } else if hidden.is_multiple_of(heads) {
        hidden / heads
    } else {
        let expected = format!("a multiple of the {heads} heads");
        hidden_item.fault(hidden.to_string(), &expected, "or give head_dim");
        return None;
    };
    let kv_heads = if kv_item.is_present() {
        kv_heads?
    } else if names.kv_heads_optional {
        heads
    } else {
        return None;
    };
    if !heads.is_multiple_of(kv_heads) {
        kv_item.fault(kv_heads.to_string(), &format!("a divisor of the {heads} heads"), "");
    }
    Some(Shape {
        layers: layers?,
        hidden,
        heads,
        kv_heads,
        head_dim,
        intermediate: intermediate?,
        vocab: vocab?,
        max_position_embeddings: max_position_embeddings?,
    })
}

/// Reads a `torch_dtype`.
pub(in crate::hardware) fn read_dtype(item: &Item<'_>) -> Option<String> {
    item.word(&[("bfloat16", "bfloat16"), ("float16", "float16"), ("float32", "float32")]).map(str::to_owned)
}

const NAMES: ShapeNames = ShapeNames {
    layers: "layers",
    hidden: "hidden",
    heads: "heads",
    kv_heads: "kv_heads",
    intermediate: "intermediate",
    vocab: "vocab",
    kv_heads_optional: false,
};

/// Reads our own YAML.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<Architecture> {
    let name = catalogue::name(&fields.req("architecture"));
    let aliases = catalogue::aliases(&fields.opt("aliases"));
    let family = fields.req("family").word(&Family::WORDS);
    let shape = read_shape(fields, &NAMES);
    let tied_embeddings = fields.req("tied_embeddings").bool();
    let qkv_bias = fields.req("qkv_bias").bool();
    let torch_dtype = read_dtype(&fields.req("torch_dtype"));
    let precision = fields.opt("precision").word(&Precision::WORDS).unwrap_or(Precision::Bf16);
    let source = fields.req("source").string();
    let shape = shape?;
    Some(Architecture {
        name: name?,
        aliases: aliases?,
        family: family?,
        layers: shape.layers,
        hidden: shape.hidden,
        heads: shape.heads,
        kv_heads: shape.kv_heads,
        head_dim: shape.head_dim,
        intermediate: shape.intermediate,
        vocab: shape.vocab,
        tied_embeddings: tied_embeddings?,
        qkv_bias: qkv_bias?,
        max_position_embeddings: shape.max_position_embeddings,
        torch_dtype: torch_dtype?,
        precision,
        source: source?,
    })
}
