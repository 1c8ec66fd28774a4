//! Who calls: the bearer token, the principal the request is for (T6), and the connection it came on.

use std::convert::Infallible;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};

use crate::app::App;
use crate::config::Token;
use crate::decide::Answer;
use crate::net::Peer;
use crate::principal::{Principal, in_header};
use crate::store::Store;

/// The authenticated caller.
#[derive(Clone, Debug)]
pub(super) struct Caller(pub(super) Principal);

impl<S: Store> FromRequestParts<Arc<App<S>>> for Caller {
    type Rejection = Answer;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App<S>>) -> Result<Self, Answer> {
        authenticate(&app.config.tokens, &parts.headers).map(Self)
    }
}

/// Whom the bearer token is of, and that the request is meant for that principal (T6).
pub(crate) fn authenticate(tokens: &[(Token, Principal)], headers: &HeaderMap) -> Result<Principal, Answer> {
    let principal = bearer(headers)
        .and_then(|token| principal_of(tokens, token))
        .ok_or_else(|| Answer::error(401, "unauthorized", "a bearer token is needed"))?;
    if let Some(meant) = headers.get("patchkeep-principal")
        && meant.as_bytes() != in_header(&principal.to_string()).as_bytes()
    {
        let answer = Answer::error(409, "principal_mismatch", "the request is for another principal than the token");
        return Err(answer.not_processed());
    }
    Ok(principal)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

/// Compares with every token, so that the time taken does not tell how far a guess got.
fn principal_of(tokens: &[(Token, Principal)], presented: &str) -> Option<Principal> {
    tokens.iter().fold(
        None,
        |found, (token, principal)| {
            if token.matches(presented) { Some(principal.clone()) } else { found }
        },
    )
}

/// The connection, where the router is served with it.
#[derive(Clone, Debug)]
pub(super) struct From(pub(super) Option<Peer>);

impl<S: Send + Sync> FromRequestParts<S> for From {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self(parts.extensions.get::<ConnectInfo<Peer>>().map(|info| info.0.clone())))
    }
}
