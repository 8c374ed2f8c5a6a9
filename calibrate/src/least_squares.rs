//! Fits of a measured time as a sum of features with coefficients that are not negative, by relative error.

/// One measurement: the features that its time is made of, and the time.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// One a coefficient, not negative.
    pub features: Vec<f64>,
    /// Above 0, in the unit that the coefficients are to have.
    pub target: f64,
}

/// What a fit found.
#[derive(Clone, Debug, PartialEq)]
pub struct Fit {
    /// In the order of the features.
    pub coefficients: Vec<f64>,
    /// Median of |fitted/measured - 1|.
    pub median_relative_error: f64,
}

impl Fit {
    /// What the fit makes of these features.
    #[must_use]
    pub fn predict(&self, features: &[f64]) -> f64 {
        self.coefficients.iter().zip(features).map(|(c, f)| c * f).sum()
    }
}

/// Relative residuals beyond this count by their size, not their square (Huber's loss): a kernel table has cells
/// that were measured badly.
const HUBER: f64 = 0.1;
/// Rounds of reweighting.
const ROUNDS: usize = 30;
/// Rounds of descent over the coordinates, each exact in its own.
const SWEEPS: usize = 2_000;

/// Minimises the sum of Huber's loss of (features x coefficients)/target - 1 over coefficients that are not negative.
/// None without rows, or if their features differ in number.
#[must_use]
pub fn fit(rows: &[Row]) -> Option<Fit> {
    fit_weighted(rows, &vec![1.0; rows.len()])
}

/// The same with a weight for each row's loss, not negative. None as well if there are not as many.
#[must_use]
pub fn fit_weighted(rows: &[Row], trust: &[f64]) -> Option<Fit> {
    let width = rows.first()?.features.len();
    let usable = |row: &Row| row.features.len() == width && row.target > 0.0;
    if !rows.iter().all(usable) || trust.len() != rows.len() {
        return None;
    }
    let relative: Vec<Vec<f64>> =
        rows.iter().map(|row| row.features.iter().map(|f| f / row.target).collect()).collect();
    let mut weights = trust.to_vec();
    let mut coefficients = vec![0.0; width];
    for _ in 0..ROUNDS {
        coefficients = non_negative(&relative, &weights, &coefficients);
        for ((weight, trust), row) in weights.iter_mut().zip(trust).zip(&relative) {
            *weight = trust * (HUBER / residual(row, &coefficients).abs().max(HUBER)).min(1.0);
        }
    }
    let mut errors: Vec<f64> = relative.iter().map(|row| residual(row, &coefficients).abs()).collect();
    errors.sort_by(f64::total_cmp);
    Some(Fit { coefficients, median_relative_error: errors[errors.len() / 2] })
}

fn residual(row: &[f64], coefficients: &[f64]) -> f64 {
    row.iter().zip(coefficients).map(|(f, c)| f * c).sum::<f64>() - 1.0
}

/// Weighted least squares of (rows x coefficients) = 1 over the non-negative: coordinate descent on the normal
/// equations, which are convex, from `start`.
fn non_negative(rows: &[Vec<f64>], weights: &[f64], start: &[f64]) -> Vec<f64> {
    let width = start.len();
    let mut gram = vec![vec![0.0; width]; width];
    let mut right = vec![0.0; width];
    for (row, weight) in rows.iter().zip(weights) {
        for i in 0..width {
            right[i] += weight * row[i];
            for j in 0..width {
                gram[i][j] += weight * row[i] * row[j];
            }
        }
    }
    let mut x = start.to_vec();
    for _ in 0..SWEEPS {
        let mut moved = 0.0_f64;
        for i in 0..width {
            if gram[i][i] <= 0.0 {
                continue;
            }
            let others: f64 = (0..width).filter(|&j| j != i).map(|j| gram[i][j] * x[j]).sum();
            let next = ((right[i] - others) / gram[i][i]).max(0.0);
            moved = moved.max((next - x[i]).abs() * gram[i][i].sqrt());
            x[i] = next;
        }
        if moved < 1e-12 {
            break;
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(features: [f64; 2], target: f64) -> Row {
        Row { features: features.to_vec(), target }
    }

    #[test]
    fn finds_the_coefficients_through_a_bad_measurement() {
        let mut rows: Vec<Row> =
            (1..40).map(|x| row([1.0, f64::from(x)], 5.0 + 0.5 * f64::from(x))).collect();
        rows[20].target = 300.0;
        let found = fit(&rows).unwrap();
        assert!((found.coefficients[0] - 5.0).abs() < 0.2, "{found:?}");
        assert!((found.coefficients[1] - 0.5).abs() < 0.02, "{found:?}");
        assert!(found.median_relative_error < 0.01);
    }

    #[test]
    fn a_coefficient_that_would_be_negative_is_zero() {
        let rows: Vec<Row> = (5..40).map(|x| row([1.0, f64::from(x)], f64::from(x) - 4.0)).collect();
        let found = fit(&rows).unwrap();
        assert!(found.coefficients[0].abs() < 1e-9, "{found:?}");
        assert!(fit(&[]).is_none() && fit(&[row([1.0, 1.0], 0.0)]).is_none());
    }
}
