//! Numbers as text, from integers: exact, and several times as fast as formatting floats. A run of ten million
//! attempts writes two hundred million of them.

use crate::time::Nanos;

/// Appends `value` in decimal.
pub(crate) fn integer(out: &mut Vec<u8>, mut value: u64) {
    let mut text = [0u8; 20];
    let mut from = text.len();
    loop {
        from -= 1;
        text[from] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&text[from..]);
}

/// Appends `value` divided by 10^`PLACES`, with exactly that many decimals.
fn fixed_point<const PLACES: usize>(out: &mut Vec<u8>, value: u64) {
    let unit = const { 10u64.pow(PLACES as u32) };
    integer(out, value / unit);
    let mut fraction = value % unit;
    let mut text = [0u8; PLACES];
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (fraction % 10) as u8;
        fraction /= 10;
    }
    out.push(b'.');
    out.extend_from_slice(&text);
}

/// Appends a time in seconds, to the nanosecond.
pub(crate) fn seconds(out: &mut Vec<u8>, time: Nanos) {
    fixed_point::<9>(out, time.0);
}

/// Appends a time in milliseconds, to the nanosecond.
pub(crate) fn millis(out: &mut Vec<u8>, time: Nanos) {
    fixed_point::<6>(out, time.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(write: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn places_are_fixed() {
        assert_eq!(text(|o| seconds(o, Nanos(1_000_000_005))), "1.000000005");
        assert_eq!(text(|o| millis(o, Nanos(0))), "0.000000");
        assert_eq!(text(|o| millis(o, Nanos(u64::MAX))), "18446744073709.551615");
    }

    proptest! {
        #[test]
        fn integers_agree_with_the_standard_library(value: u64, small in 0u64..2000) {
            prop_assert_eq!(text(|o| integer(o, value)), value.to_string());
            prop_assert_eq!(text(|o| integer(o, small)), small.to_string());
        }
    }
}
