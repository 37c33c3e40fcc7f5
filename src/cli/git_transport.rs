//! `nodewright git-transport`: hidden; the child process that fetches and pushes.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use crate::git;

/// Serves one request of the daemon on standard input and output.
pub(super) fn main() -> ExitCode {
    let Err(error) = git::transport_main(io::stdin().lock(), io::stdout().lock()) else {
        return ExitCode::SUCCESS;
    };
    let mut cause: Option<&dyn Error> = Some(&error);
    while let Some(one) = cause {
        // The daemon shows this as the child's last words; if it is gone, nobody reads it.
        drop(writeln!(io::stderr(), "{one}"));
        cause = one.source();
    }
    ExitCode::from(2)
}
