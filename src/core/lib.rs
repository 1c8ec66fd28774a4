//! The sans-I/O core.
