//! Errors as data: stable codes that the host, the tests and the documentation share.

use crate::frame::Reason;

/// Why a call of the host was refused. Nothing was changed by the call, and no text is lost by it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// An argument is not what it must be; its name.
    #[error("invalid argument: {0}")]
    InvalidArgument(&'static str),
    /// The document is open already in this session.
    #[error("the document is open already")]
    AlreadyOpen,
    /// No such document is open, or the handle belongs to an earlier incarnation of it.
    #[error("the document is not open, or this handle is of an earlier incarnation")]
    NotOpen,
    /// A handler of this document is running: whether the text holds its effect cannot be said yet (W1).
    #[error("a patch handler of this document has not settled; its effect may or may not be in the text")]
    HandlerRunning,
    /// The server has not said `opened` for this content yet, or the host has not said which patches it holds (J7):
    /// a save now could not be fenced, nor name its patches truthfully (W1).
    #[error("the server is just being told of this content; a save before that could not be told from an older one's")]
    NotAnnounced,
    /// Another context took the tab id: this document instance is dead and must be reloaded before it is edited or saved (J4).
    #[error("another context took over this tab; reload the document before editing or saving it")]
    Fenced,
    /// The session was closed.
    #[error("the session is closed")]
    Closed,
}

impl CallError {
    /// The stable code.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidArgument(_) => "invalid_argument",
            Self::AlreadyOpen => "already_open",
            Self::NotOpen => "not_open",
            Self::HandlerRunning => "handler_running",
            Self::NotAnnounced => "not_announced",
            Self::Fenced => "fenced",
            Self::Closed => "closed",
        }
    }
}

/// What the host is told about without having asked: each is an event with this code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProblemCode {
    /// A frame was not what §3 describes; it was ignored or refused by name.
    MalformedFrame,
    /// A frame was over the size limit; it was ignored or refused by name.
    FrameTooLarge,
    /// The server's number or version cannot be followed.
    ProtocolError,
    /// A handler's result could not be sent; the effect is there and was acknowledged (J8).
    ResultDropped,
    /// A handler threw (J13).
    HandlerThrew,
    /// A handler or reconcile did not settle within `handler_timeout_ms` (J9).
    HandlerTimeout,
    /// A stored record could not be read; it is left where it is.
    CorruptRecord,
    /// A frame that had to go out was over the server's limit even without its optional parts.
    FrameNotSent,
    /// Several connection attempts failed in a row.
    ConnectionFailing,
    /// The server refused a connection for now; the next attempt waits its time.
    ConnectionRefused,
    /// The wall clock and the monotonic one disagree about a patch's deadline; the server is asked for the time (J2).
    ClocksDisagree,
}

impl ProblemCode {
    /// The stable code.
    pub const fn code(self) -> &'static str {
        match self {
            Self::MalformedFrame => "malformed_frame",
            Self::FrameTooLarge => "frame_too_large",
            Self::ProtocolError => "protocol_error",
            Self::ResultDropped => "result_dropped",
            Self::HandlerThrew => "handler_threw",
            Self::HandlerTimeout => "handler_timeout",
            Self::CorruptRecord => "corrupt_record",
            Self::FrameNotSent => "frame_not_sent",
            Self::ConnectionFailing => "connection_failing",
            Self::ConnectionRefused => "connection_refused",
            Self::ClocksDisagree => "clocks_disagree",
        }
    }
}

/// The reason a handler gave when it refused: a word of the protocol, or its own, which becomes `handler_refused`.
pub fn refusal_reason(word: &str) -> (Reason, Option<&str>) {
    match Reason::from_code(word) {
        Some(reason) => (reason, None),
        None => (Reason::HandlerRefused, Some(word)),
    }
}
