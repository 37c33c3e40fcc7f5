//! Child processes that do not outlive the test process, however it ends.
//!
//! An orderly end, a panic included, is `Drop`: kill, then wait. When the test process itself is
//! killed nothing of ours runs any more, but the kernel closes its pipes, and a watchdog at the
//! other end of one kills what it was told of. No program runs before the watchdog knows it.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};

use super::ControlPlaneError;

/// Every POSIX system has it there; the programs get no environment, so no search path.
const SHELL: &str = "/bin/sh";

/// Becomes the program at the first line of input, and ends where none comes.
const GATE: &str = r#"read -r go && exec "$@" < /dev/null"#;

/// Collects process ids. At the end of its input it kills them and removes the folder `$1`, also
/// what a dying program still writes; at the line `done` there is nothing left to do.
const WATCHDOG: &str = r#"
processes=
while read -r line; do
  [ "$line" = done ] && exit
  processes="$processes $line"
done
[ -z "$processes" ] || kill -KILL $processes
for pause in 0 1 1 1; do
  sleep "$pause"
  rm -rf -- "$1" && [ ! -e "$1" ] && exit
done
"#;

/// How much of a program's log an error shows: enough for a Go program's last words.
const LOG_END_BYTES: usize = 3000;

/// Kills the programs of a control plane when the test process is gone.
#[derive(Debug)]
pub struct Watchdog {
    child: Child,
    // None once it was told that the programs have ended.
    input: Option<ChildStdin>,
}

impl Watchdog {
    /// Starts a watchdog that also removes `folder`.
    pub fn spawn(folder: &Path) -> io::Result<Self> {
        let mut child = Command::new(SHELL)
            .args(["-c", WATCHDOG, "watchdog"])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            // A Ctrl-C for the tests must not end who cleans up after them.
            .process_group(0)
            .spawn()?;
        let input = child.stdin.take();
        Ok(Self { child, input })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    fn watch(&mut self, process: u32) -> io::Result<()> {
        let input = self.input.as_mut().expect("nothing is watched after the end");
        writeln!(input, "{process}")
    }
}

impl Drop for Watchdog {
    /// Its owner has dropped the programs before, so their ids may belong to others by now.
    fn drop(&mut self) {
        if let Some(mut input) = self.input.take() {
            // A watchdog that someone killed needs no word.
            drop(input.write_all(b"done\n"));
        }
        drop(self.child.wait());
    }
}

/// One program of a control plane; dropping it kills it.
#[derive(Debug)]
pub struct Program {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts `executables/name`, with its output in `log`.
    pub fn spawn(
        watchdog: &mut Watchdog,
        name: &'static str,
        executables: &Path,
        arguments: &[String],
        log: PathBuf,
    ) -> io::Result<Self> {
        let output = File::create(&log)?;
        let mut child = Command::new(SHELL)
            .args(["-c", GATE, name])
            .arg(executables.join(name))
            .args(arguments)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(output.try_clone()?)
            .stderr(output)
            .process_group(0)
            .spawn()?;
        let gate = child.stdin.take();
        let program = Self { name, child, log };
        watchdog.watch(program.id())?;
        gate.expect("its input is a pipe").write_all(b"go\n")?;
        Ok(program)
    }

    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills it with SIGKILL, and returns when it is gone.
    pub fn kill(&mut self) {
        self.child.kill().expect("a child can be killed until it was waited for");
        self.child.wait().expect("a child can be waited for");
    }

    /// Asks it to end with SIGTERM, as a kubelet does, and returns how it ended.
    pub fn terminate(&mut self) -> ExitStatus {
        let signalled = Command::new(SHELL)
            .args(["-c", r#"kill -TERM "$1""#, "terminate", &self.id().to_string()])
            .status();
        assert!(signalled.expect("the shell starts").success(), "{} runs", self.name);
        self.child.wait().expect("a child can be waited for")
    }

    /// Waits until it has ended by itself.
    pub fn wait(&mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }

    /// Returns why the program is not running any more, if so.
    pub fn ended(&mut self) -> Option<ControlPlaneError> {
        let status = self.child.try_wait().ok().flatten()?;
        let log = self.log_end();
        Some(ControlPlaneError::ProgramEnded { program: self.name, status, log })
    }

    pub fn log_end(&self) -> String {
        let bytes = fs::read(&self.log).unwrap_or_default();
        let end = &bytes[bytes.len().saturating_sub(LOG_END_BYTES)..];
        String::from_utf8_lossy(end).into_owned()
    }
}

impl Drop for Program {
    /// Kills without a grace period: what it would save goes with its folder.
    fn drop(&mut self) {
        // Fails only where it has ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Tells whether a process runs, by its id. One that has ended and that nobody waits for is still
/// there to be signalled, for ever under an init that does not wait for orphans.
pub fn is_running(process: u32) -> bool {
    let signal = Command::new(SHELL)
        .args(["-c", r#"kill -0 "$1" 2> /dev/null"#, "is_running", &process.to_string()])
        .status()
        .expect("the shell starts");
    let state = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let is_zombie = state.rsplit(") ").next().is_some_and(|state| state.starts_with('Z'));
    signal.success() && !is_zombie
}
