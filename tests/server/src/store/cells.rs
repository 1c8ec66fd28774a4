//! What stands in a row, the same for both databases.

use std::str::FromStr;

use super::StoreError;

/// One value. Numbers are 64 bits, and unsigned ones keep their bits; flags are 0 and 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// Nothing.
    Null,
    /// A number.
    Integer(i64),
    /// A text.
    Text(String),
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::Integer(number.cast_signed())
    }
}

impl From<bool> for Cell {
    fn from(flag: bool) -> Self {
        Self::Integer(flag.into())
    }
}

impl<T: Into<Self>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// A row, read from left to right.
#[derive(Debug)]
pub(super) struct Cells(std::vec::IntoIter<Cell>);

impl Cells {
    pub(super) fn new(cells: Vec<Cell>) -> Self {
        Self(cells.into_iter())
    }

    pub(super) fn maybe_text(&mut self) -> Result<Option<String>, StoreError> {
        match self.0.next() {
            Some(Cell::Text(text)) => Ok(Some(text)),
            Some(Cell::Null) => Ok(None),
            _ => Err(StoreError::Unreadable("not a text")),
        }
    }

    pub(super) fn text(&mut self) -> Result<String, StoreError> {
        self.maybe_text()?.ok_or(StoreError::Unreadable("a text is missing"))
    }

    pub(super) fn maybe_integer(&mut self) -> Result<Option<u64>, StoreError> {
        match self.0.next() {
            Some(Cell::Integer(number)) => Ok(Some(number.cast_unsigned())),
            Some(Cell::Null) => Ok(None),
            _ => Err(StoreError::Unreadable("not a number")),
        }
    }

    pub(super) fn integer(&mut self) -> Result<u64, StoreError> {
        self.maybe_integer()?.ok_or(StoreError::Unreadable("a number is missing"))
    }

    /// What is left of it.
    pub(super) fn rest(self) -> Vec<Cell> {
        self.0.collect()
    }

    /// An id or a digest.
    pub(super) fn parsed<T: FromStr>(&mut self) -> Result<T, StoreError> {
        self.text()?.parse().map_err(|_| StoreError::Unreadable("an id"))
    }

    /// One of a few words.
    pub(super) fn word<T>(&mut self, what: &'static str, read: impl Fn(&str) -> Option<T>) -> Result<T, StoreError> {
        read(&self.text()?).ok_or(StoreError::Unreadable(what))
    }

    /// Leaves some out.
    pub(super) fn skip(&mut self, cells: usize) {
        self.0.by_ref().take(cells).for_each(drop);
    }

    /// Whether the next one is there.
    pub(super) fn is_next_null(&self) -> bool {
        matches!(self.0.as_slice().first(), None | Some(Cell::Null))
    }
}
