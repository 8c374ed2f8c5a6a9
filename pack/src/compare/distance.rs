//! The distance between two distributions.

use super::{Distance, Quantity};

/// Kolmogorov-Smirnov between two sorted lists; None if one is empty.
#[must_use]
pub fn between(quantity: Quantity, a: &[f64], b: &[f64]) -> Distance {
    let mut greatest = 0.0f64;
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        // Both sides pass all values equal to the smaller head before the shares are compared.
        let value = a[i].min(b[j]);
        i += a[i..].iter().take_while(|&&x| x <= value).count();
        j += b[j..].iter().take_while(|&&x| x <= value).count();
        greatest = greatest.max((i as f64 / a.len() as f64 - j as f64 / b.len() as f64).abs());
    }
    Distance {
        quantity,
        kolmogorov_smirnov: (!a.is_empty() && !b.is_empty()).then_some(greatest),
        a_count: a.len(),
        b_count: b.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_distances() {
        let ks = |a: &[f64], b: &[f64]| between(Quantity::Ttft, a, b).kolmogorov_smirnov;
        assert_eq!(ks(&[1.0, 2.0], &[1.0, 2.0]), Some(0.0));
        assert_eq!(ks(&[1.0, 2.0], &[3.0, 4.0, 5.0]), Some(1.0));
        assert_eq!(ks(&[1.0, 1.0, 2.0, 2.0], &[1.0, 2.0, 2.0, 2.0]), Some(0.25));
        assert_eq!(ks(&[], &[1.0]), None);
    }
}
