//! `nodewright agent …`: what runs in the executor pod.

use std::env;
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use crate::agent::{Invocation, Stop, run};
use crate::clock::Clock;

/// Names another file for the termination message, for runs outside a pod.
const TERMINATION_LOG: &str = "NODEWRIGHT_TERMINATION_LOG";

/// Runs the agent with what the process was given.
///
/// Arguments and variables that are not Unicode are passed on with replacement marks: neither
/// Kubernetes nor JSON can hold them in the first place.
pub(super) fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let text = |value: OsString| value.to_string_lossy().into_owned();
    let args: Vec<String> = args.map(text).collect();
    let mut env: std::collections::BTreeMap<String, String> =
        env::vars_os().map(|(name, value)| (text(name), text(value))).collect();
    let log = env.remove(TERMINATION_LOG);
    let (Ok(executable), Ok(stop)) = (env::current_exe(), Stop::on_termination()) else {
        // Without either no step could run, or none could be waited for.
        return ExitCode::FAILURE;
    };
    let clock = Clock::real();
    let invocation = Invocation {
        args,
        env,
        executable,
        termination_log: log.map_or_else(|| Invocation::TERMINATION_LOG.into(), PathBuf::from),
        now: Box::new(move || clock.now()),
        stop,
        reboot_wait: Invocation::REBOOT_WAIT,
    };
    ExitCode::from(run(&invocation, &mut io::stdout().lock()))
}
