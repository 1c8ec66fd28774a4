//! The frames of §3: one JSON object per WebSocket text frame, in both directions.
//!
//! Decoding is strict about what a frame's own fields mean and indifferent to everything else: unknown types decode
//! to `Unknown`, unknown fields are ignored, and whatever is wrong comes back as a [`FrameError`] that still knows
//! which patch the frame was about, so that it can be refused by name.

mod decode;
mod reason;
mod server;
mod tab;

pub use decode::{FrameError, FrameErrorKind, PatchAddress};
pub use reason::{Reason, RejectCode};
pub use server::{ConfirmedAs, PatchFrame, QueryEntry, ServerFrame, Welcome};
pub use tab::{AckFrame, Adopted, Hello, Homed, OpenDoc, ReportedState, TabFrame, UnconfirmedEntry};

/// The version of the protocol spoken here.
pub const PROTOCOL: u64 = 1;
/// The largest frame either side sends, in bytes of UTF-8, unless `welcome` says otherwise.
pub const DEFAULT_MAX_FRAME_BYTES: usize = 1 << 20;
/// `hello` goes out before `welcome` tells the limit, and stays under this many bytes.
pub const MAX_HELLO_BYTES: usize = 64 * 1024;
/// The largest `result` of an acknowledgement, in bytes of UTF-8.
pub const MAX_RESULT_BYTES: usize = 4 * 1024;
/// The longest `detail`, in bytes of UTF-8; longer ones are cut at a character border.
pub const MAX_DETAIL_BYTES: usize = 1024;
/// The most entries an `unconfirmed` list holds; the rest is told when queried.
pub const MAX_UNCONFIRMED: usize = 500;

/// The longest beginning of `text` that fits into `max` bytes without splitting a character.
pub fn cut(text: &str, max: usize) -> &str {
    let mut end = text.len().min(max);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}
