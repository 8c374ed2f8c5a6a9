//! The port for faults, which answers whatever has become of the replicas.
//!
//! ```text
//! GET  /replicas                   what each is doing
//! POST /replicas/NUMBER/fault      {"fault": "stop"}
//! POST /replicas/all/fault         the same to all
//! ```

use crate::config::EmulateError;
use crate::fault::Fault;
use crate::fleet::{Fleet, ReplicaState};
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde_json::json;
use std::sync::Arc;
use tokio::net::TcpListener;

/// Serves until its task ends.
pub(crate) async fn serve(listener: TcpListener, fleet: Arc<Fleet>) {
    let router = Router::new()
        .route("/replicas", get(replicas))
        .route("/replicas/{replica}/fault", post(fault))
        .with_state(fleet);
    // It only ends with its task.
    let _ = axum::serve(listener, router).await;
}

async fn replicas(State(fleet): State<Arc<Fleet>>) -> Json<Vec<ReplicaState>> {
    Json(fleet.states().await)
}

impl IntoResponse for EmulateError {
    fn into_response(self) -> Response {
        (StatusCode::BAD_REQUEST, Json(json!({"error": self.to_string()}))).into_response()
    }
}

async fn fault(
    State(fleet): State<Arc<Fleet>>,
    Path(replica): Path<String>,
    body: Bytes,
) -> Result<Json<Vec<ReplicaState>>, EmulateError> {
    let fault: Fault = serde_json::from_slice(&body).map_err(|error| {
        EmulateError::Fault(format!("the fault cannot be read: {error}; docs/emulate.md lists all"))
    })?;
    let chosen = match replica.parse::<u32>() {
        _ if replica == "all" => 0..fleet.replicas(),
        Ok(number) => number..number.saturating_add(1),
        Err(_) => {
            return Err(EmulateError::Fault(format!(
                "replica: found {replica}; expected its number, or all"
            )));
        }
    };
    for number in chosen {
        fleet.fault(number, &fault).await?;
    }
    Ok(Json(fleet.states().await))
}
