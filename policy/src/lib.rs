//! Routers and admission policies: pure decisions over read-only views, the same in virtual time and live.
