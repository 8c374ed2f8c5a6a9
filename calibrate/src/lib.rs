//! From measurements to an engine profile.
