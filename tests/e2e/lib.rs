//! tests/e2e
