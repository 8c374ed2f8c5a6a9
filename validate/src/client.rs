//! Single questions to a target, beside the load: what it serves, what it understands.

use crate::attempt::causes;
use crate::clock::RunClock;
use crate::connection::{Body, Pool};
use crate::target::Target;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue};
use hyper::{Method, Request};
use std::sync::Arc;
use std::time::Duration;

/// A question takes at most this long.
const LIMIT: Duration = Duration::from_secs(30);
/// The longest answer, in bytes.
const ANSWER_MAX: usize = 64 << 20;

/// Asks targets.
#[derive(Clone)]
pub struct Client {
    tls: Option<Arc<rustls::ClientConfig>>,
    authorization: Option<HeaderValue>,
}

impl Client {
    /// With TLS for the targets that speak it, and a bearer token as a header's value.
    #[must_use]
    pub fn new(tls: Option<Arc<rustls::ClientConfig>>, authorization: Option<HeaderValue>) -> Client {
        Client { tls, authorization }
    }

    /// Asks `GET path`, or posts a JSON `body`. The status and the answer.
    ///
    /// # Errors
    /// What kept the answer away, in words that name the target.
    pub async fn ask(
        &self,
        target: &Target,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<(u16, Bytes), String> {
        let asked = tokio::time::timeout(LIMIT, self.try_to_ask(target, path, body)).await;
        asked.unwrap_or_else(|_| Err(format!("no answer in {} s", LIMIT.as_secs()))).map_err(|found| {
            format!("{target}{path}: found {found}; expected an answer; check the address and that the server is up")
        })
    }

    async fn try_to_ask(
        &self,
        target: &Target,
        path: &str,
        body: Option<Bytes>,
    ) -> Result<(u16, Bytes), String> {
        let pool = Pool::new(target.clone(), self.tls.clone(), RunClock::start());
        let mut connection = pool.open().await.map_err(|error| error.to_string())?;
        let method = if body.is_some() { Method::POST } else { Method::GET };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", target.base))
            .header(HOST, target.authority())
            .header(CONTENT_TYPE, "application/json");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Body::new(body.unwrap_or_default())).map_err(|error| error.to_string())?;
        let response = connection.send(request).await.map_err(|error| causes(&error))?;
        let status = response.status().as_u16();
        let whole = Limited::new(response.into_body(), ANSWER_MAX).collect();
        let whole = connection.with(whole).await.map_err(|error| causes(error.as_ref()))?;
        Ok((status, whole.to_bytes()))
    }
}
