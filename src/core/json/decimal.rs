//! A JSON number's nearest double (ties to even), without tables.
//!
//! The standard library's parser is faster and brings 15 KB into the module; numbers in edits are few. The two are
//! compared in the tests.

use std::cmp::Ordering;

/// The double nearest to a literal that is a number by RFC 8259; an infinity where it is too large.
pub fn to_f64(literal: &str) -> f64 {
    let (sign, unsigned) = match literal.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, literal),
    };
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, ""));
    let mut decimal = Decimal::of(mantissa);
    decimal.scale = decimal.scale.saturating_add(saturating_integer(exponent));
    sign * decimal.to_f64()
}

/// Digits times ten to the power of `scale`.
struct Decimal {
    /// Without leading zeros.
    digits: Vec<u8>,
    scale: i64,
}

/// More digits than any border between two doubles has; what follows only says "and a little more".
const MAX_DIGITS: usize = 800;
/// Up to here a sum of digits, and a power of ten, are exact in a double, and so is one rounding of both.
const EXACT_DIGITS: usize = 15;
const EXACT_POWER: u64 = 22;
/// Beyond these powers of ten everything is infinite, or zero.
const LARGEST: i64 = 310;
const SMALLEST: i64 = -330;

impl Decimal {
    fn of(mantissa: &str) -> Self {
        let mut decimal = Self { digits: Vec::new(), scale: 0 };
        let mut is_fraction = false;
        let mut has_more = false;
        for byte in mantissa.bytes() {
            if byte == b'.' {
                is_fraction = true;
                continue;
            }
            let is_leading = decimal.digits.is_empty() && byte == b'0';
            let is_kept = decimal.digits.len() < MAX_DIGITS;
            if is_kept && !is_leading {
                decimal.digits.push(byte.wrapping_sub(b'0'));
            }
            has_more |= !is_kept && byte != b'0';
            match (is_fraction, is_kept) {
                (true, true) => decimal.scale -= 1,
                (false, false) => decimal.scale += 1,
                _ => {}
            }
        }
        if has_more {
            decimal.digits.push(1);
            decimal.scale -= 1;
        }
        decimal
    }

    fn to_f64(&self) -> f64 {
        let magnitude = self.scale.saturating_add(self.digits.len() as i64);
        if self.digits.is_empty() || magnitude < SMALLEST {
            return 0.0;
        }
        if magnitude > LARGEST {
            return f64::INFINITY;
        }
        let power = self.scale.unsigned_abs();
        if self.digits.len() <= EXACT_DIGITS && power <= EXACT_POWER {
            let whole = self.digits.iter().fold(0u64, |n, digit| n * 10 + u64::from(*digit)) as f64;
            let ten = (0..power).fold(1.0, |n, _| n * 10.0);
            return if self.scale < 0 { whole / ten } else { whole * ten };
        }
        let mut numerator = Natural::one();
        numerator.0.clear();
        for digit in &self.digits {
            numerator.multiply_add(10, u32::from(*digit));
        }
        let mut denominator = Natural::one();
        let scaled = if self.scale < 0 { &mut denominator } else { &mut numerator };
        for _ in 0..power {
            scaled.multiply_add(10, 0);
        }
        quotient(numerator, denominator)
    }
}

/// The double nearest to a quotient of two numbers that are not 0.
fn quotient(mut numerator: Natural, mut denominator: Natural) -> f64 {
    let (above, below) = (numerator.bits(), denominator.bits());
    let mut exponent = i64::from(above) - i64::from(below);
    numerator.shift_left(below.saturating_sub(above));
    denominator.shift_left(above.saturating_sub(below));
    // Both have the same length now: the quotient is between a half and two. 64 binary digits of it, the first of
    // which may be 0.
    let mut digits = 0u64;
    for _ in 0..64 {
        digits <<= 1;
        if numerator.compare(&denominator) != Ordering::Less {
            numerator.subtract(&denominator);
            digits |= 1;
        }
        numerator.shift_left(1);
    }
    let leading = digits.leading_zeros();
    digits <<= leading;
    exponent -= i64::from(leading);
    round(digits, exponent, numerator.bits() > 0)
}

/// The double nearest to `digits` × 2^(`exponent` − 63), or a little more where `has_more`; the first digit is 1.
fn round(digits: u64, exponent: i64, has_more: bool) -> f64 {
    if exponent > 1023 {
        return f64::INFINITY;
    }
    // Below the smallest normal number each step down costs a digit.
    let dropped = 11 + (-1022 - exponent).max(0);
    if dropped > 64 {
        return 0.0;
    }
    let half = 1u64 << (dropped - 1);
    let kept = if dropped == 64 { 0 } else { digits >> dropped };
    let rest = digits & (half | (half - 1));
    let is_up = match rest.cmp(&half) {
        Ordering::Less => false,
        Ordering::Equal => has_more || kept & 1 == 1,
        Ordering::Greater => true,
    };
    // A carry out of the digits raises the exponent, up to infinity: that is how doubles are laid out.
    let biased = if exponent < -1022 { 0 } else { (exponent + 1022) as u64 };
    f64::from_bits((biased << 52) + kept + u64::from(is_up))
}

fn saturating_integer(text: &str) -> i64 {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let fold = |n: i64, byte: u8| n.saturating_mul(10).saturating_add(i64::from(byte.wrapping_sub(b'0')));
    let n = digits.bytes().fold(0, fold);
    if is_negative { -n } else { n }
}

/// A natural number of any size, least significant limb first, without leading zeros.
struct Natural(Vec<u32>);

impl Natural {
    fn one() -> Self {
        Self(vec![1])
    }

    fn bits(&self) -> u32 {
        self.0.last().map_or(0, |last| self.0.len() as u32 * 32 - last.leading_zeros())
    }

    fn multiply_add(&mut self, factor: u32, summand: u32) {
        let mut carry = u64::from(summand);
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = carry as u32;
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(carry as u32);
        }
    }

    fn shift_left(&mut self, by: u32) {
        for _ in 0..by / 32 {
            self.0.insert(0, 0);
        }
        self.multiply_add(1 << (by % 32), 0);
        self.trim();
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.0.len().cmp(&other.0.len()).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Takes away what is not larger.
    fn subtract(&mut self, other: &Self) {
        let mut borrow = 0i64;
        for (i, limb) in self.0.iter_mut().enumerate() {
            borrow += i64::from(*limb) - i64::from(other.0.get(i).copied().unwrap_or(0));
            *limb = borrow as u32;
            borrow >>= 32;
        }
        self.trim();
    }

    fn trim(&mut self) {
        while self.0.last() == Some(&0) {
            self.0.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(literal: &str) {
        let expected: f64 = literal.parse().unwrap();
        assert_eq!(to_f64(literal).to_bits(), expected.to_bits(), "{literal}");
    }

    #[test]
    fn borders_of_the_doubles() {
        for literal in [
            "0",
            "-0",
            "0.0",
            "-0.0e9",
            "1",
            "-1",
            "0.1",
            "1e22",
            "1e23",
            "1e-22",
            "1e-23",
            "123456789012345678901234567890",
            "9007199254740992",
            "9007199254740993",
            "9007199254740994",
            "9007199254740995",
            "9007199254740993.0000001",
            "1.7976931348623157e308",
            "1.7976931348623158e308",
            "1.797693134862315807e308",
            "1.7976931348623159e308",
            "1e308",
            "1e309",
            "1e310",
            "1e311",
            "1e999999999999999999999",
            "-1e400",
            "0e999999999999999999999",
            "2.2250738585072014e-308",
            "2.2250738585072011e-308",
            "2.225073858507201136e-308",
            "4.9e-324",
            "5e-324",
            "2.4703282292062327e-324",
            "2.4703282292062328e-324",
            "2.47032822920623272e-324",
            "1e-324",
            "1e-400",
            "1e-999999999999999999999",
            "1.5777777777770001",
            "122.416294033786585",
            "295147905179352830000",
            "-0.0000033333333333333333",
            "1E+2",
            "1.25e-7",
        ] {
            check(literal);
        }
        check(&format!("0.{}1", "0".repeat(400)));
        check(&format!("0.{}1e390", "0".repeat(400)));
        check(&format!("1{}e-400", "0".repeat(400)));
        check(&"9".repeat(2_000));
        check(&format!("1.{}", "3".repeat(2_000)));
    }

    #[test]
    fn exactly_between_two_doubles_and_a_little_beside_it() {
        // 2^53 + 1 and 2^-1074 / 2 are such places; the latter has 751 digits.
        let mut between = vec![0u8];
        between[0] = 1;
        // 2^-1075 = 5^1075 / 10^1075.
        for _ in 0..1075 {
            let mut carry = 0;
            for digit in between.iter_mut().rev() {
                carry += *digit * 5;
                *digit = carry % 10;
                carry /= 10;
            }
            if carry > 0 {
                between.insert(0, carry);
            }
        }
        let digits: String = between.iter().map(|d| (b'0' + d) as char).collect();
        for tail in ["", "0", "1", "00000000000000000000000000000000000000000000000000000000000000000000000000000001"] {
            check(&format!("{digits}{tail}e-{}", 1075 + tail.len()));
            check(&format!("9007199254740993.{tail}0"));
        }
    }

    #[test]
    fn as_the_standard_library() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..3_000 {
            let number = f64::from_bits(next());
            if number.is_finite() {
                check(&format!("{number:e}"));
                check(&format!("{number:.20e}"));
            }
            check(
                &format!("{}.{}e{}", next(), next(), next() % 700)
                    .replace("e", if next() % 2 == 0 { "e-" } else { "e" }),
            );
            check(&format!("{}e{}", next() % 1_000_000, next() % 30));
        }
    }
}
