//! `digest.json`: canonical forms, their SHA-256, and what must be refused.

use patchkeep_core::digest::Digest;
use patchkeep_core::{canonical, digest};
use serde::Deserialize;

/// The file.
#[derive(Debug, Deserialize)]
pub struct DigestVectors {
    /// Inputs with a canonical form.
    pub accepted: Vec<Accepted>,
    /// Inputs without one.
    pub rejected: Vec<Rejected>,
}

/// An input with a canonical form.
#[derive(Debug, Deserialize)]
pub struct Accepted {
    /// What it shows.
    pub name: String,
    /// JSON text.
    pub input: String,
    /// Its canonical form.
    pub canonical: String,
    /// The SHA-256 of that.
    pub sha256: String,
}

/// An input without one.
#[derive(Debug, Deserialize)]
pub struct Rejected {
    /// What it shows.
    pub name: String,
    /// Text.
    pub input: String,
    /// The kind of the refusal.
    pub why: String,
}

impl Accepted {
    /// What is wrong, if anything.
    ///
    /// # Errors
    /// A sentence for a person.
    pub fn check(&self) -> Result<(), String> {
        let canonical = canonical::canonicalize(&self.input).map_err(|e| format!("refused: {e}"))?;
        if canonical != self.canonical {
            return Err(format!("canonical form is {canonical}"));
        }
        let sha256 = Digest::of(canonical.as_bytes()).to_string();
        let of_json = digest::of_json(&self.input).map_err(|e| format!("refused: {e}"))?.to_string();
        if sha256 != self.sha256 || of_json != self.sha256 { Err(format!("digest is {sha256}")) } else { Ok(()) }
    }
}

impl Rejected {
    /// What is wrong, if anything.
    ///
    /// # Errors
    /// A sentence for a person.
    pub fn check(&self) -> Result<(), String> {
        match canonical::canonicalize(&self.input) {
            Ok(canonical) => Err(format!("accepted as {canonical}")),
            Err(error) if error.kind.code() != self.why => Err(format!("refused as {}", error.kind.code())),
            Err(_) => Ok(()),
        }
    }
}
