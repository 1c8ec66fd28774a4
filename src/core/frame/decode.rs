//! Reading fields out of a parsed frame.

use std::fmt;
use std::str::FromStr;

use crate::ids::{DocId, JournalId, PatchId};
use crate::json::{self, JsonErrorKind, Value};

/// A frame that is not what §3 describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrameError {
    /// What is wrong.
    pub kind: FrameErrorKind,
    /// The frame's `type`, where it could be read.
    pub frame_type: Option<String>,
    /// Which patch it was about, where a `patch` frame's address could be read.
    pub patch: Option<PatchAddress>,
}

/// What is wrong with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameErrorKind {
    /// Not JSON, or JSON without a canonical form.
    Json(JsonErrorKind),
    /// JSON, but no object with a `type`.
    NotAFrame,
    /// A field is missing or holds something else than the protocol says; its name.
    Field(&'static str),
}

/// As much of a `patch` frame as is needed to answer it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatchAddress {
    /// The patch.
    pub patch_id: PatchId,
    /// The hand-out's number.
    pub delivery: u64,
    /// The journal it was handed to, where that could be read.
    pub journal_id: Option<JournalId>,
}

impl fmt::Display for FrameErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(kind) => f.write_str(kind.code()),
            Self::NotAFrame => f.write_str("not an object with a type"),
            Self::Field(name) => {
                f.write_str("field ")?;
                f.write_str(name)
            }
        }
    }
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("malformed frame: ")?;
        fmt::Display::fmt(&self.kind, f)
    }
}

impl std::error::Error for FrameError {}

/// Parses a frame's text and hands its object and `type` to `read`.
pub(super) fn frame<T>(
    text: &str,
    read: impl FnOnce(&Fields<'_, '_>, &str) -> Result<T, FrameErrorKind>,
) -> Result<T, FrameError> {
    let plain = |kind| FrameError { kind, frame_type: None, patch: None };
    let (value, violation) = json::parse_lenient(text).map_err(|e| plain(FrameErrorKind::Json(e.kind)))?;
    let fields = Fields(&value);
    let frame_type = fields.str("type").map_err(|_| plain(FrameErrorKind::NotAFrame))?;
    let located = |kind| FrameError { kind, frame_type: Some(frame_type.into()), patch: address(&fields, frame_type) };
    if let Some(violation) = violation {
        return Err(located(FrameErrorKind::Json(violation.kind)));
    }
    read(&fields, frame_type).map_err(located)
}

fn address(fields: &Fields<'_, '_>, frame_type: &str) -> Option<PatchAddress> {
    if frame_type != "patch" {
        return None;
    }
    Some(PatchAddress {
        patch_id: fields.parsed("patch_id").ok()?,
        delivery: fields.integer("delivery").ok()?,
        journal_id: fields.parsed("journal_id").ok(),
    })
}

/// The fields of one object, read by name; a missing or unfit one is an error that names it.
pub(super) struct Fields<'v, 'a>(pub(super) &'v Value<'a>);

impl<'v, 'a> Fields<'v, 'a> {
    /// `null` counts as absent: a writer may spell an optional field either way.
    pub(super) fn optional(&self, name: &str) -> Option<&'v Value<'a>> {
        self.0.field(name).filter(|v| !v.is_null())
    }

    fn required(&self, name: &'static str) -> Result<&'v Value<'a>, FrameErrorKind> {
        self.optional(name).ok_or(FrameErrorKind::Field(name))
    }

    pub(super) fn str(&self, name: &'static str) -> Result<&'v str, FrameErrorKind> {
        self.required(name)?.as_str().ok_or(FrameErrorKind::Field(name))
    }

    pub(super) fn optional_str(&self, name: &'static str) -> Result<Option<&'v str>, FrameErrorKind> {
        self.optional(name).map(|v| v.as_str().ok_or(FrameErrorKind::Field(name))).transpose()
    }

    pub(super) fn parsed<T: FromStr>(&self, name: &'static str) -> Result<T, FrameErrorKind> {
        self.str(name)?.parse().map_err(|_| FrameErrorKind::Field(name))
    }

    pub(super) fn doc(&self) -> Result<DocId, FrameErrorKind> {
        DocId::new(self.str("doc")?).ok_or(FrameErrorKind::Field("doc"))
    }

    pub(super) fn integer(&self, name: &'static str) -> Result<u64, FrameErrorKind> {
        self.required(name)?.as_integer().ok_or(FrameErrorKind::Field(name))
    }

    pub(super) fn optional_integer(&self, name: &'static str) -> Result<Option<u64>, FrameErrorKind> {
        self.optional(name).map(|v| v.as_integer().ok_or(FrameErrorKind::Field(name))).transpose()
    }

    pub(super) fn bool(&self, name: &'static str) -> Result<bool, FrameErrorKind> {
        self.required(name)?.as_bool().ok_or(FrameErrorKind::Field(name))
    }

    pub(super) fn coded<T>(&self, name: &'static str, read: impl Fn(&str) -> T) -> Result<T, FrameErrorKind> {
        self.str(name).map(read)
    }

    pub(super) fn optional_bool(&self, name: &'static str) -> Result<Option<bool>, FrameErrorKind> {
        self.optional(name).map(|v| v.as_bool().ok_or(FrameErrorKind::Field(name))).transpose()
    }

    /// An absent list is an empty one: a later version may leave it out.
    pub(super) fn list<T>(
        &self,
        name: &'static str,
        read: impl Fn(&Fields<'v, 'a>) -> Result<T, FrameErrorKind>,
    ) -> Result<Vec<T>, FrameErrorKind> {
        let Some(value) = self.optional(name) else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or(FrameErrorKind::Field(name))?;
        items.iter().map(|item| read(&Fields(item))).collect()
    }

    pub(super) fn strings(&self, name: &'static str) -> Result<Vec<String>, FrameErrorKind> {
        let Some(value) = self.optional(name) else { return Ok(Vec::new()) };
        let items = value.as_array().ok_or(FrameErrorKind::Field(name))?;
        items.iter().map(|item| item.as_str().map(Into::into).ok_or(FrameErrorKind::Field(name))).collect()
    }

    /// A member's own JSON text.
    pub(super) fn raw(&self, name: &'static str) -> Result<&'a str, FrameErrorKind> {
        self.0.member(name).map(|m| m.raw).ok_or(FrameErrorKind::Field(name))
    }
}
