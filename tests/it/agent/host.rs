//! A host that is a folder: a root with a shell in it, and the real binary run against it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nodewright::agent::Summary;
use tempfile::TempDir;

/// Where the tests' packages are copied to on the host.
pub(super) const COPY_DIR: &str = "/var/lib/skyhook/demo/package-copy";

/// A resource id as the daemon makes it.
pub(super) const RESOURCE_ID: &str = "demo-0f1e2d3c-1_my-package_9.9.9";

/// How one call of the agent ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) code: i32,
    pub(super) output: String,
    pub(super) summary: Summary,
}

/// A folder that plays the host's root, and the environment of executors on it.
#[derive(Debug)]
pub(crate) struct Host {
    folder: TempDir,
    env: BTreeMap<String, String>,
}

impl Host {
    /// Returns a host with `/bin/sh` and nothing else.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let host = Self { folder, env: BTreeMap::new() };
        fs::create_dir(host.root()).expect("the root");
        fs::write(host.termination_log(), "left by nobody").expect("the kubelet's file");
        copy_program(Path::new("/bin/sh"), &host.root());
        host.with("PATH", "/usr/bin:/bin")
            .with("COPY_RESOLV", "false")
            .with("SKYHOOK_ROOT_DIR", "/var/lib/skyhook/demo")
            .with("SKYHOOK_LOG_DIR", "/var/log/skyhook/demo")
            .with("SKYHOOK_DATA_DIR", "/nowhere")
            .with("SKYHOOK_NODE_ORDER", "7")
            .with("SKYHOOK_RESOURCE_ID", RESOURCE_ID)
    }

    /// Returns a host with one of `tests/packages` in the copy directory.
    pub(super) fn with_package(name: &str) -> Self {
        let host = Self::new();
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages").join(name);
        copy_folder(&package, &host.path(COPY_DIR));
        host
    }

    /// Sets a variable of the executor's environment.
    pub(super) fn with(mut self, name: &str, value: &str) -> Self {
        self.env.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    pub(crate) fn path(&self, host_path: &str) -> PathBuf {
        self.root().join(host_path.trim_start_matches('/'))
    }

    pub(crate) fn read(&self, host_path: &str) -> String {
        let path = self.path(host_path);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub(crate) fn exists(&self, host_path: &str) -> bool {
        self.path(host_path).exists()
    }

    pub(super) fn write(&self, host_path: &str, content: &str) {
        let path = self.path(host_path);
        fs::create_dir_all(path.parent().expect("not the root")).expect("the folder");
        fs::write(path, content).expect("the file");
    }

    /// Puts an executable shell script on the host.
    pub(super) fn script(&self, host_path: &str, body: &str) {
        self.write(host_path, &format!("#!/bin/sh\n{body}"));
        make_executable(&self.path(host_path));
    }

    /// Replaces the text of one of the package's files.
    pub(super) fn edit(&self, file: &str, from: &str, to: &str) {
        let path = format!("{COPY_DIR}/{file}");
        let text = self.read(&path);
        assert!(text.contains(from), "{path} has no {from:?}");
        self.write(&path, &text.replace(from, to));
    }

    /// Returns the names in a folder of the host, sorted.
    pub(crate) fn list(&self, host_path: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.path(host_path))
            .expect("the folder")
            .map(|entry| entry.expect("an entry").file_name().into_string().expect("Unicode"))
            .collect();
        names.sort();
        names
    }

    /// Runs `nodewright agent MODE ROOT COPYDIR`.
    pub(super) fn run(&self, mode: &str) -> Ended {
        self.agent(&[mode, &self.root().to_string_lossy(), COPY_DIR])
    }

    /// Runs `nodewright agent` with these arguments.
    pub(super) fn agent(&self, args: &[&str]) -> Ended {
        let output = self.command(args).output().expect("the agent starts");
        self.ended(
            output.status.code().expect("an exit code"),
            String::from_utf8(output.stdout).expect("Unicode"),
        )
    }

    /// Returns the command without running it, for tests that talk to it meanwhile.
    pub(super) fn command(&self, args: &[&str]) -> Command {
        let mut command = as_root();
        command
            .arg("agent")
            .args(args)
            .env_clear()
            .envs(&self.env)
            .env("NODEWRIGHT_TERMINATION_LOG", self.termination_log())
            .stdin(Stdio::null());
        command
    }

    /// Reads what a run left in the termination message.
    pub(super) fn ended(&self, code: i32, output: String) -> Ended {
        let message = fs::read_to_string(self.termination_log()).expect("the termination message");
        let summary = serde_json::from_str(&message)
            .unwrap_or_else(|error| panic!("{error} in {message:?}, output: {output}"));
        Ended { code, output, summary }
    }

    pub(super) fn termination_log(&self) -> PathBuf {
        self.folder.path().join("termination-log")
    }
}

impl Ended {
    /// Asserts the exit code, showing the output when it is another.
    #[track_caller]
    pub(super) fn expect(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{}\n{:?}", self.output, self.summary);
        self
    }

    #[track_caller]
    pub(super) fn expect_line(&self, line: &str) {
        let found = self.output.lines().any(|found| found == line);
        assert!(found, "no line {line:?} in:\n{}", self.output);
    }

    #[track_caller]
    pub(super) fn expect_text(&self, text: &str) {
        assert!(self.output.contains(text), "no {text:?} in:\n{}", self.output);
    }
}

/// Only root may change its root; others become root in a user namespace of their own.
pub(crate) fn as_root() -> Command {
    let binary = env!("CARGO_BIN_EXE_nodewright");
    let uid = fs::metadata("/proc/self").expect("a /proc").uid();
    if uid == 0 {
        return Command::new(binary);
    }
    let mut probe = Command::new("unshare");
    let works = probe.args(["--map-root-user", "true"]).status().is_ok_and(|end| end.success());
    assert!(
        works,
        "these tests change the root folder: run them as root, or where `unshare \
         --map-root-user true` works (kernel.unprivileged_userns_clone=1)"
    );
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", binary]);
    command
}

/// Copies a program and the libraries `ldd` names for it to the same paths under `root`.
fn copy_program(program: &Path, root: &Path) {
    let output = Command::new("ldd").arg(program).output().expect("ldd is there");
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    // `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)`; a static program lists none.
    let libraries = listing.split_whitespace().filter(|word| word.starts_with('/'));
    for file in libraries.map(Path::new).chain([program]) {
        let target = root.join(file.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(target.parent().expect("a folder")).expect("the folder");
        fs::copy(file, &target).expect("the copy");
    }
}

pub(crate) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("the folder");
    for entry in fs::read_dir(from).expect("the package") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("its type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("the copy");
        }
    }
}

fn make_executable(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("the permissions");
}
