//! Environment variables that stand in for flags.
//!
//! In: the command line as typed, and the variables of the process as a map. Out: the command line
//! with a flag for each variable that counts. So a variable is read, checked and defaulted exactly
//! as its flag is, and one rule holds for all: flag, then `NODEWRIGHT_*`, then the name that
//! upstream's operator uses (upstream contract H.3), then the default.
//! Must never: let a variable decide anything that was typed, or count one that is set to nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command};

/// The variables of a process, by name; names that are not Unicode are no names of ours.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, OsString>);

/// A flag that a variable stood in for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Injected {
    /// The flag without dashes.
    pub flag: String,
    /// The variable that gave its value.
    pub variable: String,
}

/// Verbs that run in a container, where variables are the usual way to configure: the daemon, and
/// what a person runs in its pod because that is where its rights are.
///
/// The others are run by people and by CI: a variable left over in a shell must not send
/// `validate` to another repository than the one in front of it.
const VERBS: [&str; 5] = ["accept", "approve", "go", "run", "stop"];

/// What our own variables start with.
const PREFIX: &str = "NODEWRIGHT_";

/// Names that other than ours are read for a flag, the first that is set wins.
const FOREIGN: [(&str, &[&str]); 12] = [
    ("agent-image", &["AGENT_IMAGE"]),
    ("agent-log-root", &["AGENT_LOG_ROOT"]),
    ("copy-dir-root", &["COPY_DIR_ROOT"]),
    // The downward API's usual names.
    ("identity", &["POD_NAME"]),
    ("image-pull-secret", &["IMAGE_PULL_SECRET"]),
    ("metrics", &["METRICS_PORT"]),
    ("namespace", &["NAMESPACE"]),
    ("own-node", &["NODE_NAME"]),
    ("probes", &["PROBE_PORT"]),
    ("reapply-on-reboot", &["REAPPLY_ON_REBOOT"]),
    ("runtime-required-taint", &["RUNTIME_REQUIRED_TAINT"]),
    ("stage-timeout", &["JOB_STAGE_TIMEOUT"]),
];

/// `NODEWRIGHT_LOG` is the filter, as `RUST_LOG` is elsewhere; the format has its own name.
const LOG_FORMAT_FLAG: &str = "log";

impl Environment {
    /// Reads the variables of this process.
    pub fn of_process() -> Self {
        std::env::vars_os().collect()
    }

    /// Returns a variable; one that is set to nothing is not set.
    pub(super) fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }
}

impl FromIterator<(OsString, OsString)> for Environment {
    fn from_iter<T: IntoIterator<Item = (OsString, OsString)>>(variables: T) -> Self {
        let named = variables.into_iter();
        Self(named.filter_map(|(name, value)| Some((name.into_string().ok()?, value))).collect())
    }
}

impl<const N: usize> From<[(&str, &str); N]> for Environment {
    fn from(variables: [(&str, &str); N]) -> Self {
        Self(variables.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect())
    }
}

/// Adds a flag for each variable whose flag was not typed, right behind the verb.
///
/// `typed` starts with the name of the program.
pub(super) fn inject(
    command: &Command,
    typed: &[OsString],
    environment: &Environment,
) -> (Vec<OsString>, Vec<Injected>) {
    let mut injected = Vec::new();
    let verb = typed.get(1).and_then(|verb| verb.to_str());
    let verb = verb.filter(|verb| VERBS.contains(verb));
    let Some(command) = verb.and_then(|verb| command.find_subcommand(verb)) else {
        return (typed.to_vec(), injected);
    };
    let (before, behind) = typed.split_at(2);
    let mut line = before.to_vec();
    for flag in command.get_arguments().filter_map(flag_of) {
        if is_typed(flag, behind) {
            continue;
        }
        let set = names(flag).into_iter().find_map(|name| {
            let value = environment.get(&name)?.to_owned();
            Some((name, value))
        });
        if let Some((variable, value)) = set {
            let mut text = OsString::from(format!("--{flag}="));
            text.push(value);
            line.push(text);
            injected.push(Injected { flag: flag.to_owned(), variable });
        }
    }
    line.extend_from_slice(behind);
    (line, injected)
}

/// Says below each flag's help which variables stand in for it.
pub(super) fn documented(mut command: Command) -> Command {
    for verb in VERBS {
        if command.find_subcommand(verb).is_some() {
            command = command.mut_subcommand(verb, |verb| verb.mut_args(document));
        }
    }
    command
}

fn document(arg: Arg) -> Arg {
    let Some(flag) = flag_of(&arg) else { return arg };
    let note = format!("[env: {}]", names(flag).join(", "));
    let long = arg.get_long_help().or(arg.get_help()).map(|help| format!("{help}\n\n{note}"));
    long.into_iter().fold(arg, Arg::long_help)
}

/// Returns the long name of a flag that takes one value.
fn flag_of(arg: &Arg) -> Option<&str> {
    arg.get_long().filter(|_| matches!(arg.get_action(), ArgAction::Set))
}

fn is_typed(flag: &str, typed: &[OsString]) -> bool {
    typed.iter().filter_map(|arg| arg.to_str()?.strip_prefix("--")?.strip_prefix(flag)).any(
        |rest| {
            // `--status-repo` is not `--status`.
            rest.is_empty() || rest.starts_with('=')
        },
    )
}

fn names(flag: &str) -> Vec<String> {
    let own = if flag == LOG_FORMAT_FLAG { "log-format" } else { flag };
    let own = format!("{PREFIX}{}", own.to_ascii_uppercase().replace('-', "_"));
    let foreign = FOREIGN.iter().filter(|(name, _)| *name == flag);
    let foreign = foreign.flat_map(|(_, names)| names.iter().map(|name| (*name).to_owned()));
    std::iter::once(own).chain(foreign).collect()
}
