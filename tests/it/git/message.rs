//! The message of a status commit, read back by Git itself.

use std::io::Write;
use std::process::{Command, Stdio};

use nodewright::git::{StatusMarks, TipOwner, Writer, compose_message, judge_tip, parse_marks};

fn marks() -> StatusMarks {
    StatusMarks {
        cluster: "prod-a".to_owned(),
        cluster_uid: "6f0c".to_owned(),
        epoch: 42,
        seq: 118,
    }
}

fn trailer(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

fn interpret(message: &str) -> Vec<String> {
    let mut git = Command::new("git")
        .args(["interpret-trailers", "--parse"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("git runs");
    git.stdin.take().expect("a pipe").write_all(message.as_bytes()).expect("written");
    let output = git.wait_with_output().expect("git ends");
    let text = String::from_utf8(output.stdout).expect("text");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn git_reads_the_trailers_and_so_do_we() {
    let trailers = [
        trailer("Nodewright-Source", &format!("main@sha1:{}", "ab".repeat(20))),
        trailer("Nodewright-Phase", "Progressing"),
    ];
    let message = compose_message("status(prod-a): 3/9", &trailers, &marks());
    assert!(message.starts_with("status(prod-a): 3/9\n\n[skip ci]\n\n"), "{message}");
    assert_eq!(
        interpret(&message),
        [
            "Nodewright-Cluster: prod-a",
            "Nodewright-Cluster-UID: 6f0c",
            &format!("Nodewright-Source: main@sha1:{}", "ab".repeat(20)),
            "Nodewright-Phase: Progressing",
            "Nodewright-Epoch: 42",
            "Nodewright-Seq: 118",
        ]
    );
    assert_eq!(parse_marks(&message), Some(marks()));
}

#[test]
fn nothing_from_outside_can_add_a_line_or_replace_a_mark() {
    let trailers = [
        trailer("Nodewright-Epoch", "7"),
        trailer("Bad Name", "x"),
        trailer("Nodewright-Phase", "a\n\nNodewright-Seq: 9"),
    ];
    let subject = format!("one\nNodewright-Seq: 1\u{7}\n\n{}", "long ".repeat(40));
    let message = compose_message(&subject, &trailers, &marks());
    let first = message.lines().next().expect("a subject");
    assert!(first.chars().count() <= 72, "{first}");
    assert_eq!(parse_marks(&message), Some(marks()));
    let read = interpret(&message);
    assert_eq!(
        read.iter().filter(|line| line.starts_with("Nodewright-Seq:")).count(),
        1,
        "{read:?}"
    );
    assert_eq!(read.iter().filter(|line| line.contains("Epoch")).count(), 1, "{read:?}");
}

#[test]
fn messages_of_others_have_no_marks() {
    for text in
        ["", "fix typo\n", "x\n\nNodewright-Cluster: prod-a\n", "x\n\nNodewright-Seq: many\n"]
    {
        assert_eq!(parse_marks(text), None, "{text:?}");
    }
}

#[test]
fn the_owner_of_a_tip_follows_from_cluster_and_epoch() {
    let writer = Writer { cluster: "prod-a".to_owned(), cluster_uid: "6f0c".to_owned(), epoch: 42 };
    let at = |epoch, uid: &str| StatusMarks { epoch, cluster_uid: uid.to_owned(), ..marks() };
    assert_eq!(judge_tip(&writer, None), TipOwner::Nobody);
    assert_eq!(judge_tip(&writer, Some(None)), TipOwner::Foreign);
    assert_eq!(judge_tip(&writer, Some(Some(&at(41, "6f0c")))), TipOwner::Ours);
    assert_eq!(judge_tip(&writer, Some(Some(&at(42, "6f0c")))), TipOwner::Ours);
    assert_eq!(judge_tip(&writer, Some(Some(&at(43, "6f0c")))), TipOwner::Fenced { epoch: 43 });
    assert_eq!(
        judge_tip(&writer, Some(Some(&at(1, "9999")))),
        TipOwner::OtherCluster { cluster_uid: "9999".to_owned() }
    );
}
