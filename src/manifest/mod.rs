//! Files or custom resources to `Desired` plus findings with file, line and column.

pub mod yaml;
