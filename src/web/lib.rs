//! src/web
