//! A request's body: whole, in time, within its limit, and UTF-8.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};

use super::reply::bad_request;
use crate::app::App;
use crate::decide::Answer;
use crate::store::Store;

/// The body's text, or what is answered instead.
#[derive(Debug)]
pub(super) struct Text(pub(super) Result<String, Answer>);

impl<S: Store> FromRequest<Arc<App<S>>> for Text {
    type Rejection = Infallible;

    async fn from_request(request: Request, app: &Arc<App<S>>) -> Result<Self, Infallible> {
        let limit = Duration::from_millis(app.config.body_timeout_ms);
        Ok(Self(match tokio::time::timeout(limit, Bytes::from_request(request, app)).await {
            Ok(Ok(bytes)) => {
                String::from_utf8(bytes.into()).map_err(|_| bad_request("malformed", "the body is not UTF-8"))
            }
            Ok(Err(rejection)) => Err(match rejection.status().as_u16() {
                413 => Answer::error(413, "too_large", "the request is too large"),
                status => Answer::error(status, "malformed", "the body could not be read"),
            }),
            Err(_) => Err(Answer::error(408, "request_timeout", "the body did not come in time")),
        }))
    }
}
