//! Who asks a target a short question. Not for what is measured.

use crate::client::Client;
use crate::target::Target;
use bytes::Bytes;
use std::future::Future;

/// Asks targets.
pub trait Fetch: Clone + Send + Sync + 'static {
    /// The text of a successful answer to `GET path`, or to a posted JSON `body`.
    ///
    /// # Errors
    /// What kept it away, in words that name the target.
    fn fetch(
        &self,
        target: &Target,
        path: &str,
        body: Option<Bytes>,
    ) -> impl Future<Output = Result<String, String>> + Send;
}

/// The characters of a refusal that are repeated at most.
const REFUSAL_SHOWN_MAX: usize = 200;

impl Fetch for Client {
    async fn fetch(&self, target: &Target, path: &str, body: Option<Bytes>) -> Result<String, String> {
        let (status, answer) = self.ask(target, path, body).await?;
        if !(200..300).contains(&status) {
            let shown: String = String::from_utf8_lossy(&answer).chars().take(REFUSAL_SHOWN_MAX).collect();
            return Err(format!(
                "{target}{path}: found HTTP {status} ({}); expected an answer",
                shown.trim()
            ));
        }
        String::from_utf8(answer.into())
            .map_err(|_| format!("{target}{path}: found bytes that are not UTF-8; expected text"))
    }
}
