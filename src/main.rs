//! The `nodewright` binary: everything is in the library, see `cli`.

fn main() {}
