//! The `nodewright` binary: everything is in the library, see `cli`.

use std::process::ExitCode;

fn main() -> ExitCode {
    nodewright::cli::main()
}
