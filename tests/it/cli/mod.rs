//! The command as a process: what it prints, how it ends, and what it makes of its environment.

mod accept;
mod approve;
mod crds;
mod errors;
mod explain;
mod explain_rights;
mod forget;
mod help;
mod reset;
mod run_flags;
mod sim_kubelet;
mod stop;
mod validate;
mod values;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// The binary in an empty environment, with a home of its own.
struct Shell {
    home: TempDir,
    folder: PathBuf,
    variables: Vec<(String, String)>,
}

/// What one run printed, and how it ended.
#[derive(Debug)]
#[must_use]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Shell {
    /// A shell in the folder of this repository.
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        Self { home, folder: repository(""), variables: Vec::new() }
    }

    fn in_folder(mut self, folder: &Path) -> Self {
        folder.clone_into(&mut self.folder);
        self
    }

    fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nodewright"));
        command
            .args(args)
            .env_clear()
            .env("HOME", self.home.path())
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.folder)
            .stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        let output = self.command(args).output().expect("the binary starts");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("it prints UTF-8");
        Ran { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

/// Runs in the folder of this repository.
fn nodewright(args: &[&str]) -> Ran {
    Shell::new().run(args)
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}
