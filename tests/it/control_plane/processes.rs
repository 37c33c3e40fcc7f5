//! Child processes end with the test process, however that ends.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::plane::{Program, Watchdog, eventually, is_running};

/// Longer than any test, so that only a kill ends it.
const SLEEP_SECONDS: &str = "3600";

/// Starts a program that ends when it is killed, and what kills it.
fn sleeper(folder: &Path) -> (Watchdog, Program) {
    let mut watchdog = Watchdog::spawn(folder).unwrap();
    let log = folder.join("sleep.log");
    let seconds = [SLEEP_SECONDS.to_owned()];
    let program = Program::spawn(&mut watchdog, "sleep", "/bin".as_ref(), &seconds, log);
    (watchdog, program.unwrap())
}

#[test]
fn programs_and_watchdog_are_gone_after_drop() {
    let folder = tempfile::tempdir().unwrap();
    let (watchdog, program) = sleeper(folder.path());
    let processes = [program.id(), watchdog.id()];
    assert!(processes.iter().all(|process| is_running(*process)));
    drop(program);
    drop(watchdog);
    assert!(!processes.iter().any(|process| is_running(*process)), "{processes:?}");
    assert!(folder.path().exists(), "the folder is its owner's after an orderly end");
}

#[test]
fn a_program_that_ends_is_reported_with_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let mut watchdog = Watchdog::spawn(folder.path()).unwrap();
    let log = folder.path().join("ls.log");
    let arguments = ["/there/is/no/such/folder".to_owned()];
    let mut program =
        Program::spawn(&mut watchdog, "ls", "/bin".as_ref(), &arguments, log).unwrap();
    let status = program.wait().unwrap();
    assert!(!status.success());
    let text = program.ended().unwrap().to_string();
    assert!(text.starts_with("ls ended during the start (exit status: "), "{text}");
    assert!(text.contains("/there/is/no/such/folder"), "{text}");
}

/// Runs the next test as a process of its own and kills that.
#[tokio::test]
async fn programs_die_and_the_folder_goes_when_the_test_process_is_killed() {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--ignored", "--nocapture"])
        .arg("control_plane::processes::victim")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let line = BufReader::new(victim.stdout.take().unwrap())
        .lines()
        .map(Result::unwrap)
        .find_map(|line| line.split_once("victim: ").map(|(_, facts)| facts.to_owned()))
        .expect("the victim says what it started");
    let mut facts = line.splitn(3, ' ');
    let mut process = || facts.next().unwrap().parse::<u32>().unwrap();
    let (program, watchdog) = (process(), process());
    let folder = std::path::PathBuf::from(facts.next().unwrap());
    assert!(is_running(program) && is_running(watchdog) && folder.exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("program, watchdog and folder are gone", Duration::from_secs(30), async || {
        let left = is_running(program) || is_running(watchdog) || folder.exists();
        (!left).then_some(())
    })
    .await;
}

#[test]
#[ignore = "the other half of the test above, which starts and kills it"]
fn victim() {
    let folder = tempfile::tempdir().unwrap();
    let (watchdog, program) = sleeper(folder.path());
    let facts =
        format!("\nvictim: {} {} {}\n", program.id(), watchdog.id(), folder.path().display());
    let mut output = std::io::stdout();
    output.write_all(facts.as_bytes()).unwrap();
    output.flush().unwrap();
    // Where nobody kills it, the end of its input ends it.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
    drop(program);
}
