//! Kubernetes quantities, as far as two of them must be compared.

use std::cmp::Ordering;

/// Digits of the fraction that count: `n` is the smallest suffix.
const FRACTION_DIGITS: i32 = 9;

/// Largest exponent that is read; Kubernetes holds at most 2^63, which has 19 digits.
const EXPONENT_MAX: i32 = 18;

/// A quantity, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity(i128);

impl Quantity {
    /// Reads a quantity such as `500m`, `2Gi`, `1.5` or `1e3`; digits below `n` are cut.
    pub fn parse(text: &str) -> Option<Self> {
        let (negative, bare) = match text.strip_prefix('-') {
            Some(bare) => (true, bare),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = bare.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(bare.len());
        let (number, suffix) = bare.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return None;
        }
        let (exponent, factor) = scale(suffix)?;
        let digits: String = [whole, fraction].concat();
        let shift = exponent + FRACTION_DIGITS - i32::try_from(fraction.len()).ok()?;
        let mantissa: i128 = digits.parse().ok()?;
        let power = 10_i128.checked_pow(shift.unsigned_abs())?;
        let mantissa = mantissa.checked_mul(factor)?;
        let value = match shift.cmp(&0) {
            Ordering::Less => mantissa / power,
            Ordering::Equal | Ordering::Greater => mantissa.checked_mul(power)?,
        };
        Some(Self(if negative { -value } else { value }))
    }

    pub fn is_positive(self) -> bool {
        self.0 > 0
    }
}

/// Returns the power of ten and the factor that a suffix stands for.
fn scale(suffix: &str) -> Option<(i32, i128)> {
    let binary = |power: u32| Some((0, 1024_i128.pow(power)));
    match suffix {
        "n" => Some((-9, 1)),
        "u" => Some((-6, 1)),
        "m" => Some((-3, 1)),
        "" => Some((0, 1)),
        "k" => Some((3, 1)),
        "M" => Some((6, 1)),
        "G" => Some((9, 1)),
        "T" => Some((12, 1)),
        "P" => Some((15, 1)),
        "E" => Some((18, 1)),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            (exponent.abs() <= EXPONENT_MAX).then_some((exponent, 1))
        }
    }
}
