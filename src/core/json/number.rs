//! Number literals that have a canonical form (§11).

use super::JsonErrorKind;

/// Whether a number literal has a canonical form: finite, and not an integer that a double would turn into another.
pub(super) fn check_number(literal: &str) -> Result<(), JsonErrorKind> {
    let digits = literal.strip_prefix('-').unwrap_or(literal);
    let is_integer = digits.bytes().all(|b| b.is_ascii_digit());
    if is_integer && digits.len() <= EXACT_DIGITS {
        return Ok(());
    }
    let number: f64 = literal.parse().map_err(|_| JsonErrorKind::Syntax)?;
    if !number.is_finite() {
        return Err(JsonErrorKind::NotFinite);
    }
    if is_integer && ryu_js::Buffer::new().format_finite(number) != literal {
        return Err(JsonErrorKind::InexactInteger);
    }
    Ok(())
}

/// Every integer of up to 15 digits is exact in a double, and so is its literal.
const EXACT_DIGITS: usize = 15;
