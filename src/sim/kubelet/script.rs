//! The script: how long containers take, how they end, which images exist, which nodes come back.
//!
//! In goes one container about to run, out comes its outcome. The first rule that matches decides;
//! without one a container succeeds after a short delay. Nothing here is random.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;
use std::time::Duration;

use serde_json::json;

/// How long a container runs that no rule names: long enough to be seen running, short enough for
/// a demo.
const RUN_TIME_DEFAULT: Duration = Duration::from_millis(500);
/// How long a container runtime waits for a registry that does not answer.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long the first pull of an image to a node takes.
const PULL_TIME_DEFAULT: Duration = Duration::from_millis(300);

/// What the kubelet plays; the default is that everything works.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Script {
    /// The first match decides.
    pub rules: Vec<Rule>,
    /// Images by a part of their name; the first match decides. Images of hosts that end in
    /// `.invalid`, which never resolve, are missing without a rule.
    pub images: Vec<(String, Pull)>,
    /// Nodes that do not come back from a reboot until powered on.
    pub never_returning: BTreeSet<String>,
    /// Nodes whose reboot takes another time than the rest.
    pub reboot_times: BTreeMap<String, Duration>,
    /// Nodes whose kubelet does not pick up new pods.
    pub deaf: BTreeSet<String>,
}

/// Which container runs, and how they end; what is not set matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    node: Option<String>,
    package: Option<String>,
    stage: Option<String>,
    container: Option<String>,
    attempt: Option<u32>,
    run_time: Option<Duration>,
    exit_code: i32,
    message: Option<String>,
}

/// What pulling an image gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pull {
    /// The first pull to a node takes so long; later ones find it there.
    Takes(Duration),
    /// There is no such image.
    Missing,
    /// The image has no build for the node's architecture.
    NoBuild,
    /// The registry does not answer.
    Unreachable,
}

impl Pull {
    /// Returns how long the container runtime tries before it gives up.
    pub(super) fn patience(self) -> Duration {
        match self {
            Self::Takes(_) | Self::Missing | Self::NoBuild => Duration::ZERO,
            Self::Unreachable => DIAL_TIMEOUT,
        }
    }

    /// Returns what the container runtime says of an image that it cannot pull.
    pub(super) fn complaint(self, image: &str) -> Option<String> {
        let why = match self {
            Self::Takes(_) => return None,
            Self::Missing => "not found",
            Self::NoBuild => "no match for platform in manifest: not found",
            Self::Unreachable => "failed to do request: dial tcp: i/o timeout",
        };
        Some(format!("failed to pull and unpack image {image:?}: {why}"))
    }
}

/// How one container ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub run_time: Duration,
    pub exit_code: i32,
    /// What the container leaves at its termination message path.
    pub message: String,
}

/// A container about to run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cue<'a> {
    pub node: &'a str,
    pub container: &'a str,
    /// First argument: the agent's mode, if this is an agent container.
    pub mode: Option<&'a str>,
    pub attempt: u32,
}

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("{part:?} is not key=value; write for example stage=apply,attempt=1,exit=3")]
    NotKeyValue { part: String },
    #[error("{key:?} is no key of a rule; known are {KEYS}")]
    UnknownKey { key: String },
    #[error("{key}={value:?} is not a whole number")]
    NotANumber { key: String, value: String },
}

const KEYS: &str = "node, package, stage, container, attempt, seconds, exit, message";

impl Script {
    /// Returns how a container ends.
    pub(super) fn outcome(&self, cue: &Cue<'_>) -> Outcome {
        let rule = self.rules.iter().find(|rule| rule.matches(cue));
        let exit_code = rule.map_or(0, |rule| rule.exit_code);
        let message = rule.and_then(|rule| rule.message.clone());
        Outcome {
            run_time: rule.and_then(|rule| rule.run_time).unwrap_or(RUN_TIME_DEFAULT),
            exit_code,
            message: message.unwrap_or_else(|| summary(cue, exit_code)),
        }
    }

    /// Returns what pulling an image gives.
    pub(super) fn pull(&self, image: &str) -> Pull {
        let rule = self.images.iter().find(|(part, _)| image.contains(part.as_str()));
        let host = image.split('/').next().unwrap_or_default();
        match rule {
            Some((_, pull)) => *pull,
            None if host.ends_with(".invalid") => Pull::Missing,
            None => Pull::Takes(PULL_TIME_DEFAULT),
        }
    }
}

impl Rule {
    /// Returns a rule for every container, which succeeds.
    pub fn any() -> Self {
        Self::default()
    }

    /// Narrows to one node; to all whose names begin so where it ends in `*`.
    pub fn node(mut self, node: &str) -> Self {
        self.node = Some(node.to_owned());
        self
    }

    /// Narrows to one package, by the first part of the container's name.
    pub fn package(mut self, package: &str) -> Self {
        self.package = Some(package.to_owned());
        self
    }

    /// Narrows to one stage as the agent is told it, such as `apply` or `config-check`.
    pub fn stage(mut self, stage: &str) -> Self {
        self.stage = Some(stage.to_owned());
        self
    }

    /// Narrows to one container name.
    pub fn container(mut self, container: &str) -> Self {
        self.container = Some(container.to_owned());
        self
    }

    /// Narrows to one attempt, counted from 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = Some(attempt);
        self
    }

    /// Lets it run so long.
    pub fn takes(mut self, run_time: Duration) -> Self {
        self.run_time = Some(run_time);
        self
    }

    /// Lets it run until it is killed.
    pub fn hangs(self) -> Self {
        self.takes(Duration::MAX)
    }

    /// Lets it end with this exit code.
    pub fn exits(mut self, exit_code: i32) -> Self {
        self.exit_code = exit_code;
        self
    }

    /// Lets it leave this termination message instead of the agent's usual summary.
    pub fn says(mut self, message: &str) -> Self {
        self.message = Some(message.to_owned());
        self
    }

    fn matches(&self, cue: &Cue<'_>) -> bool {
        let same = |wanted: &Option<String>, found: &str| {
            wanted.as_deref().is_none_or(|wanted| wanted == found)
        };
        let is_here = |wanted: &str| match wanted.strip_suffix('*') {
            Some(beginning) => cue.node.starts_with(beginning),
            None => wanted == cue.node,
        };
        self.node.as_deref().is_none_or(is_here)
            && same(&self.container, cue.container)
            && same(&self.stage, cue.mode.unwrap_or_default())
            && self.attempt.is_none_or(|attempt| attempt == cue.attempt)
            && self.package.as_deref().is_none_or(|package| {
                let rest = cue.container.strip_prefix(package);
                rest.is_some_and(|rest| rest.starts_with('-'))
            })
    }
}

/// Reads `stage=apply,attempt=1,exit=3`, the form of the command line.
impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        let mut rule = Self::any();
        for part in text.split(',') {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| RuleError::NotKeyValue { part: part.to_owned() })?;
            rule = match key {
                "node" => rule.node(value),
                "package" => rule.package(value),
                "stage" => rule.stage(value),
                "container" => rule.container(value),
                "attempt" => rule.attempt(number(key, value)?),
                "seconds" => rule.takes(Duration::from_secs(number(key, value)?)),
                "exit" => rule.exits(number(key, value)?),
                "message" => rule.says(value),
                _ => return Err(RuleError::UnknownKey { key: key.to_owned() }),
            };
        }
        Ok(rule)
    }
}

fn number<T: FromStr>(key: &str, value: &str) -> Result<T, RuleError> {
    value
        .parse()
        .map_err(|_| RuleError::NotANumber { key: key.to_owned(), value: value.to_owned() })
}

/// Returns the summary the agent writes, or nothing for a container that is not the agent.
fn summary(cue: &Cue<'_>, exit_code: i32) -> String {
    let Some(mode) = cue.mode else { return String::new() };
    let step = format!("{}.sh", mode.replace('-', "_"));
    let tail = match exit_code {
        0 => format!("SUCEEDED: {step}"),
        code => format!("FAILED: {step} {code}"),
    };
    json!({"v": 1, "mode": mode, "step": step, "exit_code": exit_code, "tail": tail}).to_string()
}
