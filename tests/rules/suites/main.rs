//! One suite per machine; tests are named after the rules they check.
