//! How commands that cannot work end: the kind as exit code, the cause, and the way out.

use std::fs::File;
use std::io::Read;
use std::process::Stdio;

use nodewright::cli::ErrorKind;

use super::{Shell, nodewright};

#[test]
fn an_unknown_verb_or_flag_is_a_usage_error_that_names_what_is_meant() {
    let ran = nodewright(&["validte"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("unrecognized subcommand 'validte'"), "{}", ran.err);
    assert!(ran.err.contains("'validate'"), "{}", ran.err);

    let ran = nodewright(&["crds", "--chek"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.contains("'--check'"), "{}", ran.err);

    let ran = nodewright(&[]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("Usage: nodewright <COMMAND>"), "{}", ran.err);
}

#[test]
fn each_kind_has_the_exit_code_that_the_help_lists() {
    let kinds = [
        (ErrorKind::Usage, 2),
        (ErrorKind::Internal, 2),
        (ErrorKind::InvalidConfiguration, 3),
        (ErrorKind::Refused, 4),
        (ErrorKind::Unreachable, 6),
    ];
    let help = nodewright(&["--help"]).out;
    for (kind, code) in kinds {
        assert_eq!(kind.exit_code(), code);
        assert!(help.contains(&format!("\n  {code}  ")), "{code}: {help}");
    }
}

#[test]
fn a_repository_that_is_not_there_is_unreachable() {
    let ran = nodewright(&["validate", "--repo", "file:///no/such/repository"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(6), ""));
    assert!(ran.err.starts_with("error: file:///no/such/repository "), "{}", ran.err);
    assert!(ran.err.contains("\nhint: check the address"), "{}", ran.err);
    assert!(!ran.err.contains("we go on asking"), "nobody does: {}", ran.err);
}

#[test]
fn a_password_in_an_address_is_refused_and_not_shown() {
    let ran = nodewright(&["validate", "--repo", "https://me:s3cret@example.invalid/fleet.git"]);
    assert_eq!(ran.code, Some(2));
    assert!(ran.err.starts_with("error: --repo: the address carries a credential"), "{}", ran.err);
    assert!(!ran.err.contains("s3cret"), "{}", ran.err);
}

#[test]
fn a_cluster_that_is_not_configured_or_not_there_says_so() {
    let accept = ["accept", "1111111111111111111111111111111111111111"];
    let ran = nodewright(&accept);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.starts_with("error: no cluster to talk to was found\n"), "{}", ran.err);
    let causes = ran.err.matches("caused by: ").count();
    assert_eq!(causes, 1, "once, though its own causes repeat its end: {}", ran.err);
    assert!(ran.err.contains("\nhint: outside a cluster name a file"), "{}", ran.err);

    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("kubeconfig");
    // Port 9 is discard's; nothing listens there.
    let kubeconfig = "{apiVersion: v1, kind: Config, current-context: a, \
        contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {}}], \
        clusters: [{name: a, cluster: {server: 'http://127.0.0.1:9'}}]}";
    std::fs::write(&file, kubeconfig).expect("it can be written");
    let shell = Shell::new().with("KUBECONFIG", file.to_str().expect("a path as text"));
    let ran = shell.run(&accept);
    assert_eq!((ran.code, ran.out.as_str()), (Some(6), ""), "{}", ran.err);
    assert!(ran.err.contains("hint: check that kubectl reaches this cluster"), "{}", ran.err);

    let ran = shell.run(&[&accept[..], &["--context", "b"]].concat());
    assert_eq!(ran.code, Some(2));
    assert!(
        ran.err.starts_with("error: the kubeconfig with the context b cannot be used\n"),
        "{}",
        ran.err
    );
}

#[test]
fn a_filter_of_log_lines_that_cannot_be_read_is_told() {
    let shell = Shell::new().with("NODEWRIGHT_LOG", "nodewright=loud");
    let ran = shell.run(&["accept", "1111111111111111111111111111111111111111"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    let first = "error: NODEWRIGHT_LOG=\"nodewright=loud\" is not a filter of log lines\n";
    assert!(ran.err.starts_with(first), "{}", ran.err);
}

#[test]
fn a_reader_that_goes_away_is_no_error_and_changes_no_exit_code() {
    let shell = Shell::new();
    let mut command = shell.command(&["validate", "tests/manifests/bad"]);
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
    drop(child.stdout.take());
    let mut err = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut err).expect("UTF-8");
    let status = child.wait().expect("it ends");
    assert_eq!((status.code(), err.as_str()), (Some(3), ""));
}

#[test]
fn a_full_disk_is_an_error() {
    let shell = Shell::new();
    let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
    let output = shell
        .command(&["validate", "tests/manifests/good"])
        .stdout(full)
        .output()
        .expect("the binary starts");
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.starts_with("error: the output cannot be written\n  caused by: "), "{err}");
}
