//! The simulator behind an OpenAI-compatible endpoint, in real time.
