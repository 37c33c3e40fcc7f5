//! One file per verb; the only place that prints, reads the environment, or wires things together.

mod agent;
mod git_transport;

use std::process::ExitCode;

/// Runs the verb named by the process arguments.
pub fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    match args.next().as_deref().and_then(|verb| verb.to_str()) {
        Some("agent") => agent::main(args),
        Some(crate::git::TRANSPORT_VERB) => git_transport::main(),
        Some(_) | None => ExitCode::from(2),
    }
}
