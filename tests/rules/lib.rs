//! tests/rules
