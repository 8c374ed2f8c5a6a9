//! Numbers as text, from integers: exact, and several times as fast as formatting floats. A run of ten million
//! attempts writes two hundred million of them.

use crate::time::Nanos;

/// The numbers from 0 to 99, of two digits each: half the divisions.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut number = 0;
    while number < 100 {
        pairs[2 * number] = b'0' + (number / 10) as u8;
        pairs[2 * number + 1] = b'0' + (number % 10) as u8;
        number += 1;
    }
    pairs
};

/// Writes two digits of a number below 100.
fn pair(text: &mut [u8], number: usize) {
    text.copy_from_slice(&PAIRS[2 * number..2 * number + 2]);
}

/// Appends `value` in decimal.
pub(crate) fn integer(out: &mut Vec<u8>, mut value: u64) {
    let mut text = [0u8; 20];
    let mut from = text.len();
    while value >= 10 {
        from -= 2;
        pair(&mut text[from..from + 2], (value % 100) as usize);
        value /= 100;
    }
    if value > 0 || from == text.len() {
        from -= 1;
        text[from] = b'0' + value as u8;
    }
    out.extend_from_slice(&text[from..]);
}

/// Appends `value` divided by 10^`PLACES`, with exactly that many decimals, at most 9.
fn fixed_point<const PLACES: usize>(out: &mut Vec<u8>, value: u64) {
    let unit = const { 10u64.pow(PLACES as u32) };
    integer(out, value / unit);
    let mut fraction = (value % unit) as u32;
    let mut text = [0u8; PLACES];
    let mut from = PLACES;
    while from >= 2 {
        from -= 2;
        pair(&mut text[from..from + 2], (fraction % 100) as usize);
        fraction /= 100;
    }
    if from == 1 {
        text[0] = b'0' + fraction as u8;
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
        fn times_agree_with_the_standard_library(value: u64, small in 0u64..20_000_000_000) {
            for value in [value, small] {
                let (s, ns, ms, rest) =
                    (value / 1_000_000_000, value % 1_000_000_000, value / 1_000_000, value % 1_000_000);
                prop_assert_eq!(text(|o| seconds(o, Nanos(value))), format!("{s}.{ns:09}"));
                prop_assert_eq!(text(|o| millis(o, Nanos(value))), format!("{ms}.{rest:06}"));
            }
        }

        #[test]
        fn integers_agree_with_the_standard_library(value: u64, small in 0u64..2000) {
            prop_assert_eq!(text(|o| integer(o, value)), value.to_string());
            prop_assert_eq!(text(|o| integer(o, small)), small.to_string());
        }
    }
}
