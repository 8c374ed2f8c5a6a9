//! Verdicts over records made by hand.
