//! One tab's session: the machine that joins journal, documents and connection.

mod input;
mod output;

pub use input::{Event, HandlerOutcome, HandlerResult, Input, OpenDocument, ReconcileOutcome, SocketEvent};
pub use output::{ConnectionState, HandlerCall, Notice, Output, ReconcileCall, RecordView, Status};
