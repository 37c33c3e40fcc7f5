//! The command line: one file per verb; the only place that prints, reads the environment, or
//! wires things together.
//!
//! In: the arguments and variables of the process. Out: an exit code, and what people read.
//! Must never: decide anything about a fleet, or be imported by another room.

mod accept;
mod adopt;
mod agent;
mod approve;
mod confirm;
mod crds;
mod demo;
mod deployment_policy;
mod environment;
mod error;
mod explain;
mod explain_references;
mod floor;
mod forget;
mod git_transport;
mod help;
mod kubernetes;
mod logging;
mod out;
mod reset;
mod retry;
mod run;
mod shutdown;
mod sim;
mod stop;
mod validate;
mod values;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory as _, FromArgMatches as _};

use environment::Injected;

pub use demo::example_files;
pub use environment::Environment;
pub use error::{CliError, ErrorKind};
pub use floor::FloorArgs;
pub use kubernetes::{ClusterArgs, ConnectError};
pub use logging::{LogFormat, LoggingError};
pub use out::OutError;
pub use run::{GitSettings, NodeArgs, ProcessArgs, RunArgs, RunSettings, SourceKind};

/// Keeps the host software of a Kubernetes fleet at what Git says.
///
/// Packages are container images with scripts and checks. Someone merges a commit; the daemon pulls
/// it, compares it with what each node says is installed, and moves the fleet there node by node,
/// as fast as its policy allows and without killing the pods that must finish.
#[derive(Debug, clap::Parser)]
#[command(name = "nodewright", version, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

/// What can be asked of this program, in the order in which a person meets it.
#[derive(Debug, clap::Subcommand)]
enum Verb {
    Demo(demo::DemoArgs),
    Validate(validate::ValidateArgs),
    Run(Box<RunArgs>),
    Explain(explain::ExplainArgs),
    Retry(retry::RetryArgs),
    #[command(visible_alias = "dp")]
    DeploymentPolicy(deployment_policy::DeploymentPolicyArgs),
    Reset(reset::ResetArgs),
    Forget(forget::ForgetArgs),
    Stop(stop::StopArgs),
    Go(stop::GoArgs),
    Accept(accept::AcceptArgs),
    Approve(approve::ApproveArgs),
    Adopt(adopt::AdoptArgs),
    Crds(crds::CrdsArgs),
    Sim(sim::SimArgs),
    /// Runs the steps of a package; the executor pods call it, on the nodes.
    ///
    /// Its arguments are those of upstream's agent: a mode, the host's root, the package's folder.
    #[command(disable_help_flag = true)]
    Agent {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENT")]
        args: Vec<OsString>,
    },
    /// Fetches or pushes for the daemon, which starts it and kills it at its deadline.
    #[command(name = crate::git::TRANSPORT_VERB, hide = true)]
    GitTransport,
}

const AFTER_HELP: &str = "\
Exit codes:
  0  done
  1  a step of the demo did not come out
  2  the command or a setting makes no sense, or this program or machine is at fault
  3  invalid configuration, or files that are not current
  4  refused by a guard, nothing was changed
  6  Git or the cluster cannot be reached, or did not let us in

Start with: nodewright demo, or nodewright validate FOLDER";

/// How a verb that worked ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Exit {
    Success,
    /// What was looked at is not valid; the verb has said why.
    Invalid,
}

/// A command line that names no verb with its arguments; help and version are asked for this way.
#[derive(Debug)]
pub struct Rejected {
    error: Box<clap::Error>,
    /// The variable that gave the value that is wrong.
    variable: Option<String>,
}

/// Runs the verb named by the process arguments.
pub fn main() -> ExitCode {
    let environment = Environment::of_process();
    let typed: Vec<OsString> = std::env::args_os().collect();
    let verb = match parse(&typed, &environment) {
        Ok(Cli { verb }) => verb,
        Err(rejected) => return rejected.print(),
    };
    let result = match verb {
        Verb::Demo(args) => demo::main(&args, &environment),
        Verb::Validate(args) => validate::main(&args, &environment),
        Verb::Run(args) => run::main(*args, &environment),
        Verb::Explain(args) => explain::main(&args, &environment),
        Verb::Retry(args) => retry::main(&args, &environment),
        Verb::DeploymentPolicy(args) => deployment_policy::main(&args, &environment),
        Verb::Reset(args) => reset::main(&args, &environment),
        Verb::Forget(args) => forget::main(&args, &environment),
        Verb::Stop(args) => stop::stop(&args, &environment),
        Verb::Go(args) => stop::go_on(&args, &environment),
        Verb::Accept(args) => accept::main(&args, &environment),
        Verb::Approve(args) => approve::main(&args, &environment),
        Verb::Adopt(args) => adopt::main(&args, &environment),
        Verb::Crds(args) => crds::main(&args),
        Verb::Sim(args) => sim::main(args, &environment),
        Verb::Agent { args } => return agent::main(args.into_iter()),
        Verb::GitTransport => return git_transport::main(),
    };
    match result {
        Ok(Exit::Success) => ExitCode::SUCCESS,
        Ok(Exit::Invalid) => ExitCode::from(ErrorKind::InvalidConfiguration.exit_code()),
        Err(error) => {
            error.print();
            ExitCode::from(error.kind().exit_code())
        }
    }
}

/// Reads the arguments of `nodewright run`, with what variables say; for tests and tools.
///
/// # Errors
/// They cannot be read; [`Rejected::report`] says why.
pub fn run_args(typed: &[&str], environment: &Environment) -> Result<RunArgs, Rejected> {
    let line: Vec<OsString> = ["nodewright", "run"].iter().chain(typed).map(Into::into).collect();
    match parse(&line, environment)?.verb {
        Verb::Run(args) => Ok(*args),
        other @ (Verb::Demo(_)
        | Verb::Validate(_)
        | Verb::Explain(_)
        | Verb::Retry(_)
        | Verb::DeploymentPolicy(_)
        | Verb::Reset(_)
        | Verb::Forget(_)
        | Verb::Stop(_)
        | Verb::Go(_)
        | Verb::Accept(_)
        | Verb::Approve(_)
        | Verb::Adopt(_)
        | Verb::Crds(_)
        | Verb::Sim(_)
        | Verb::Agent { .. }
        | Verb::GitTransport) => unreachable!("the line names the verb run, not {other:?}"),
    }
}

fn parse(typed: &[OsString], environment: &Environment) -> Result<Cli, Rejected> {
    let mut command = help::wrapped(environment::documented(Cli::command()));
    let (line, injected) = environment::inject(&command, typed, environment);
    let parsed = command
        .try_get_matches_from_mut(line)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches));
    parsed.map_err(|error| {
        let error = error.format(&mut command);
        Rejected { variable: variable_of(&error, &injected), error: Box::new(error) }
    })
}

/// Returns the variable behind the flag that an error is about.
fn variable_of(error: &clap::Error, injected: &[Injected]) -> Option<String> {
    let ContextValue::String(about) = error.get(ContextKind::InvalidArg)? else { return None };
    let flag = about.strip_prefix("--")?.split([' ', '=', '[']).next()?;
    let injected = injected.iter().find(|injected| injected.flag == flag)?;
    Some(injected.variable.clone())
}

/// Returns what async verbs run on.
fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Runtime::new().map_err(|error| {
        CliError::new(ErrorKind::Internal, format!("no threads can be started: {error}"))
            .hint("raise the limit of processes or memory of this container")
    })
}

impl Rejected {
    /// Returns what a terminal shows.
    pub fn report(&self) -> String {
        format!("{}{}", self.error.render(), self.hint())
    }

    fn hint(&self) -> String {
        let variable = self.variable.as_ref();
        variable.map_or_else(String::new, |variable| {
            format!("hint: the value comes from {variable} in the environment\n")
        })
    }

    fn print(&self) -> ExitCode {
        // Where nobody reads, the exit code says it all.
        drop(self.error.print());
        drop(out::stderr().text(&self.hint()));
        ExitCode::from(u8::try_from(self.error.exit_code()).unwrap_or(2))
    }
}
