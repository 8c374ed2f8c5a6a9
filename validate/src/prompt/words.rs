//! Text with an exact number of tokens: words that are one token each, alone and wherever they stand in a row.

use super::dictionary::WORDS;
use super::tokenizer::Tokenizer;
use crate::maker::{HashedTokens, Prompt, PromptMaker};
use crate::scrape::Fetch;
use scaleproof_pack::prompt::Segment;
use std::collections::BTreeMap;

/// So many words are enough to choose from: two blocks of 16 tokens are equal by chance once in 64^16 times.
const WORDS_MIN: usize = 64;
/// More are not looked for.
const WORDS_MAX: usize = 256;
/// A row of so many words is tokenised to see that they keep to themselves.
const ROW: u32 = 500;

/// Makes prompts of words. A word is a function of stream and index, of the run's salt, and of nothing else.
#[derive(Clone, Debug)]
pub struct Words {
    words: Vec<String>,
    /// Tokens that the server puts before a text, and behind it.
    head: u32,
    tail: u32,
    salt: u64,
}

impl Words {
    /// Finds words by asking the server's tokenizer, and what the server adds to a text. What it adds counts as a
    /// prompt's first and last tokens.
    ///
    /// # Errors
    /// If the server cannot be asked; too few words are one token; a row of them does not have a token a word; or what
    /// the server adds depends on the text.
    pub async fn learn<F: Fetch>(tokenizer: &Tokenizer<'_, F>, salt: u64) -> Result<Words, String> {
        let ids = single_tokens(tokenizer).await?;
        if ids.len() < WORDS_MIN {
            return Err(format!(
                "{}: found {} words that are one token; expected {WORDS_MIN} at least; send token ids to \
                 /v1/completions instead",
                tokenizer.target,
                ids.len()
            ));
        }
        let mut words =
            Words { words: ids.keys().map(|word| (*word).to_owned()).collect(), head: 0, tail: 0, salt };
        words.check_row(tokenizer, &ids).await?;
        (words.head, words.tail) = words.added(tokenizer).await?;
        Ok(words)
    }

    /// Tokens that stand before every text: prompts that share nothing share these.
    #[must_use]
    pub fn head(&self) -> u32 {
        self.head
    }

    /// The fewest tokens that a prompt can have, with one word.
    #[must_use]
    pub fn shortest(&self) -> u32 {
        self.head + self.tail + 1
    }

    /// The words of the tokens from `head` on, without the last `tail`; the first at least.
    fn text(&self, segments: &[Segment]) -> String {
        let hashed =
            HashedTokens { vocabulary: HashedTokens::FIRST + self.words.len() as u32, salt: self.salt };
        let total: usize = segments.iter().map(|segment| segment.len as usize).sum();
        let head = self.head as usize;
        let count = total.saturating_sub(head + self.tail as usize).max(1);
        let tokens = segments.iter().flat_map(|segment| {
            (0..segment.len).map(|i| (segment.stream.0, segment.start.saturating_add(i)))
        });
        let mut text = String::with_capacity(count * 6);
        for (stream, index) in tokens.skip(head).take(count) {
            if !text.is_empty() {
                text.push(' ');
            }
            text.push_str(&self.words[(hashed.token(stream, index) - HashedTokens::FIRST) as usize]);
        }
        text
    }

    /// That a row of words has the tokens that they have alone. The first may have another id: no blank is before it.
    async fn check_row<F: Fetch>(
        &self,
        tokenizer: &Tokenizer<'_, F>,
        ids: &BTreeMap<&str, u32>,
    ) -> Result<(), String> {
        let row = self.text(&[own(1, ROW)]);
        let found = tokenizer.alone(&row).await?;
        let expected: Vec<u32> = row.split(' ').map(|word| ids[word]).collect();
        if found.len() == expected.len() && found[1..] == expected[1..] {
            return Ok(());
        }
        Err(format!(
            "{}: found {} tokens for {ROW} words in a row, each of which is one token alone; expected one a word; send \
             token ids to /v1/completions instead",
            tokenizer.target,
            found.len()
        ))
    }

    /// How many tokens the server adds before and behind a text: the same for a short and a long one.
    async fn added<F: Fetch>(&self, tokenizer: &Tokenizer<'_, F>) -> Result<(u32, u32), String> {
        let mut found = Vec::new();
        for len in [5, 40] {
            let text = self.text(&[own(u64::from(len), len)]);
            let inner = tokenizer.alone(&text).await?;
            let whole = tokenizer.as_prompt(&text).await?;
            // The first word's id may depend on what is before it.
            let head = whole.windows(inner.len().max(1)).position(|part| inner.get(1..) == Some(&part[1..]));
            found.push(head.map(|head| (head as u32, (whole.len() - inner.len() - head) as u32)));
        }
        match found[..] {
            [Some(short), Some(long)] if short == long => Ok(short),
            _ => Err(format!(
                "{}: found what the server adds to a prompt to depend on its text; expected the same tokens before and \
                 behind every text; send token ids to /v1/completions instead",
                tokenizer.target
            )),
        }
    }
}

impl PromptMaker for Words {
    /// A text of as many tokens as the segments have, with what the server adds; more, if that alone is more.
    fn prompt(&mut self, segments: &[Segment]) -> Prompt {
        Prompt::Text(self.text(segments))
    }

    fn renew(&mut self, salt: u64) {
        self.salt = salt;
    }
}

/// Tokens that no request of a schedule has.
fn own(stream: u64, len: u32) -> Segment {
    Segment { stream: scaleproof_pack::prompt::TokenStream(stream), start: 0, len }
}

/// Words that are one token, behind another word as well as alone, with their ids behind another.
async fn single_tokens<F: Fetch>(
    tokenizer: &Tokenizer<'_, F>,
) -> Result<BTreeMap<&'static str, u32>, String> {
    let candidates: Vec<&'static str> = WORDS.split_ascii_whitespace().collect();
    let before = candidates[0];
    let before_len = tokenizer.alone(before).await?.len();
    let mut behind = BTreeMap::new();
    let mut parts = vec![&candidates[..]];
    // A row with a token a word is taken as a whole, another one looked at by halves.
    while let Some(part) = parts.pop() {
        let ids = tokenizer.alone(&format!("{before} {}", part.join(" "))).await?;
        if ids.len() == before_len + part.len() {
            behind.extend(part.iter().zip(&ids[before_len..]).map(|(word, id)| (*id, *word)));
        } else if part.len() > 1 {
            let (left, right) = part.split_at(part.len() / 2);
            parts.extend([right, left]);
        }
        if behind.len() >= WORDS_MAX {
            break;
        }
    }
    let mut single = BTreeMap::new();
    for (id, word) in behind.into_iter().take(WORDS_MAX) {
        if tokenizer.alone(word).await?.len() == 1 {
            single.insert(word, id);
        }
    }
    Ok(single)
}
