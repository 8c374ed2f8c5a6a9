//! Prompts that have the scheduled token counts and share exactly the scheduled prefixes, where an endpoint takes no token
//! ids; which ids there are, where it does; and the prefixes that a warm run begins with.

mod dictionary;
mod priming;
#[cfg(test)]
mod tests;
mod tokenizer;
mod vocabulary;
mod words;

pub use priming::{Priming, prefixes, prime};
pub use tokenizer::Tokenizer;
pub use vocabulary::vocabulary;
pub use words::Words;
