//! Answers that are errors, in the form the engine's server gives them.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An error as the client sees it.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    kind: &'static str,
    param: Option<&'static str>,
    message: String,
    retry_after_seconds: Option<u32>,
}

impl Problem {
    /// The request cannot be served as it is.
    pub fn bad_request(param: &'static str, message: String) -> Problem {
        Problem::new(StatusCode::BAD_REQUEST, "BadRequestError", Some(param), message)
    }

    /// There is no such thing.
    pub fn not_found(param: &'static str, message: String) -> Problem {
        Problem::new(StatusCode::NOT_FOUND, "NotFoundError", Some(param), message)
    }

    /// The queue is full.
    pub fn queue_full() -> Problem {
        let message = "found a full queue; expected room; send it again later, or elsewhere".to_owned();
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableError", None, message)
    }

    /// The engine is gone.
    pub fn engine_failed(why: &str) -> Problem {
        let status = StatusCode::INTERNAL_SERVER_ERROR;
        Problem::new(status, "InternalServerError", None, format!("the engine failed: {why}"))
    }

    /// Refused on command.
    pub fn refused(status: u16, retry_after_seconds: Option<u32>) -> Problem {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
        let message = "refused on command of the fault `refuse`".to_owned();
        Problem { retry_after_seconds, ..Problem::new(status, "RefusedError", None, message) }
    }

    fn new(status: StatusCode, kind: &'static str, param: Option<&'static str>, message: String) -> Problem {
        Problem { status, kind, param, message, retry_after_seconds: None }
    }

    /// The body.
    pub fn json(&self) -> serde_json::Value {
        let (message, kind, code) = (&self.message, self.kind, self.status.as_u16());
        json!({"error": {"message": message, "type": kind, "param": self.param, "code": code}})
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.json())).into_response();
        if let Some(seconds) = self.retry_after_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}
