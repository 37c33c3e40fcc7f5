//! `tests/control-plane/build` without building: its folder, and what it says when it cannot.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the script runs before it needs Go.
const TOOLS: [&str; 5] = ["awk", "bash", "dirname", "head", "sort"];

#[test]
fn the_folder_is_the_one_where_the_tests_look() {
    let output = script().arg("--folder").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.trim_end(), env!("NODEWRIGHT_CONTROL_PLANE_FOLDER"));
}

#[test]
fn the_folder_follows_the_environment_and_the_module_file() {
    let folder = |variables: &[(&str, &str)]| {
        let mut script = script();
        script.env_remove("KUBEBUILDER_ASSETS").env_remove("XDG_CACHE_HOME");
        script.envs(variables.iter().copied()).arg("--folder");
        String::from_utf8(script.output().unwrap().stdout).unwrap().trim_end().to_owned()
    };
    let module_file = fs::read_to_string(source().join("go.mod")).unwrap();
    let below = folder(&[("HOME", "/home/a")]);
    let version = below.strip_prefix("/home/a/.cache/nodewright/control-plane/").unwrap();
    assert!(version.starts_with("v1."), "{version}");
    assert!(module_file.contains(&format!("\tk8s.io/kubernetes {version} ")), "{version}");
    assert!(
        module_file.contains(&format!("k8s.io/api v0{}", &version[2..])),
        "the staging modules are of the same release"
    );
    let elsewhere = folder(&[("HOME", "/home/a"), ("XDG_CACHE_HOME", "/cache")]);
    assert_eq!(elsewhere, format!("/cache/nodewright/control-plane/{version}"));
    assert_eq!(folder(&[("HOME", "/home/a"), ("KUBEBUILDER_ASSETS", "/assets")]), "/assets");
}

#[test]
fn a_machine_without_go_is_told_what_to_install() {
    let tools = tools();
    let output = script().arg(tools.path().join("out")).env("PATH", tools.path()).output();
    assert_refused(
        &output.unwrap(),
        "tests/control-plane/build: Go is not installed; install Go 1.26.0 or newer \
         (https://go.dev/dl) and run this again\n",
    );
    assert!(!tools.path().join("out").exists());
}

#[test]
fn a_go_that_is_too_old_is_named_and_fetches_nothing() {
    let tools = tools();
    let go = tools.path().join("go");
    fs::write(&go, "#!/bin/sh\n[ \"$GOTOOLCHAIN\" = local ] && echo go1.9.7\n").unwrap();
    fs::set_permissions(&go, fs::Permissions::from_mode(0o755)).unwrap();
    let output = script().arg(tools.path().join("out")).env("PATH", tools.path()).output();
    assert_refused(
        &output.unwrap(),
        "tests/control-plane/build: Go 1.9.7 is too old; install Go 1.26.0 or newer \
         (https://go.dev/dl) and run this again\n",
    );
}

#[test]
fn an_unknown_flag_is_refused() {
    assert_refused(
        &script().arg("--help").output().unwrap(),
        "tests/control-plane/build: there is no flag --help; usage: build [FOLDER [PROGRAM…]], \
         or build --folder\n",
    );
}

fn assert_refused(output: &Output, expected: &str) {
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert_eq!(output.status.code(), Some(1));
}

fn script() -> Command {
    let mut command = Command::new("bash");
    command.arg(source().join("build"));
    command
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/control-plane")
}

/// Returns a folder to be the whole search path: a Go of the system is not in it.
fn tools() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for tool in TOOLS {
        let lookup = ["-c", "command -v \"$1\"", "lookup", tool];
        let output = Command::new("bash").args(lookup).output().unwrap();
        let path = String::from_utf8(output.stdout).unwrap();
        symlink(path.trim_end(), folder.path().join(tool)).unwrap();
    }
    folder
}
