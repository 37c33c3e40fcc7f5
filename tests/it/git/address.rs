//! Addresses as people type them, and what must never be shown.

use nodewright::git::{Address, AddressProblem, Revision, Source, redact};

fn normal(text: &str) -> String {
    Address::parse("--repo", text).map_or_else(|error| error.to_string(), |it| it.to_string())
}

#[test]
fn the_usual_forms_have_one_normal_form_each() {
    let cases = [
        ("file:///srv/fleet.git", "file:///srv/fleet.git"),
        ("/srv/fleet.git/", "file:///srv/fleet.git"),
        ("https://GIT.example.org/team/fleet.git/", "https://git.example.org/team/fleet.git"),
        ("https://git.example.org:8443/fleet", "https://git.example.org:8443/fleet"),
        ("git@git.example.org:team/fleet.git", "ssh://git@git.example.org/team/fleet.git"),
        ("git.example.org:/srv/fleet.git", "ssh://git@git.example.org/srv/fleet.git"),
        ("ssh://deploy@git.example.org:2222/fleet", "ssh://deploy@git.example.org:2222/fleet"),
        ("ssh://git@[::1]:22/fleet", "ssh://git@[::1]/fleet"),
    ];
    for (given, wanted) in cases {
        assert_eq!(normal(given), wanted, "{given}");
        assert_eq!(normal(wanted), wanted, "the normal form of {given} is not stable");
    }
}

#[test]
fn a_credential_in_an_address_is_refused_by_the_name_of_its_field_and_not_shown() {
    let cases = [
        "https://ada:s3cret@git.example.org/fleet",
        "https://s3cret@git.example.org/fleet",
        "https://git.example.org/fleet?access_token=s3cret",
        "ssh://git:s3cret@git.example.org/fleet",
    ];
    for text in cases {
        let error = Address::parse("--status-repo", text).expect_err(text);
        assert_eq!(error.problem, AddressProblem::Credential, "{text}");
        let shown = error.to_string();
        assert!(shown.starts_with("--status-repo: "), "{shown}");
        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
    }
}

#[test]
fn what_is_no_address_is_refused_with_the_reason() {
    let cases = [
        ("http://git.example.org/fleet", "`http://` is not supported"),
        ("git://git.example.org/fleet", "`git://` is not supported"),
        ("https://git.example.org", "the path is missing"),
        ("https:///fleet", "the host is missing"),
        ("ssh://git@-oProxyCommand=x/fleet", "the host is missing"),
        ("ssh://git.example.org:port/fleet", "the port is not a number"),
        ("file://srv/fleet", "three slashes"),
        ("fleet", "neither a scheme"),
        ("", "neither a scheme"),
        ("https://git.example.org/fl\neet", "control character"),
    ];
    for (text, reason) in cases {
        let shown = normal(text);
        assert!(shown.contains(reason), "{text:?}: {shown}");
    }
}

#[test]
fn redaction_takes_credentials_out_of_any_text_and_leaves_the_rest() {
    let cases = [
        (
            "failed: 'https://ada:s3cret@git.example.org/fleet' (404)",
            "failed: 'https://***@git.example.org/fleet' (404)",
        ),
        ("https://s3cret@h/x then http://h/y?t=s3cret.", "https://***@h/x then http://h/y?***"),
        ("ssh://git@h/x and ssh://git:s3cret@h/x", "ssh://git@h/x and ssh://***@h/x"),
        ("nothing to hide at 12://", "nothing to hide at 12://"),
    ];
    for (text, wanted) in cases {
        assert_eq!(redact(text), wanted);
    }
}

#[test]
fn a_revision_reads_back_as_it_was_written() {
    let text = format!("release/1.2@x@sha1:{}", "a1".repeat(20));
    let revision: Revision = text.parse().expect("a revision");
    assert_eq!(revision.branch, "release/1.2@x");
    assert_eq!(revision.to_string(), text);
    for wrong in
        ["main", "main@sha1:12", "@sha1:", "main@sha1:é", &format!("@sha1:{}", "a1".repeat(20))]
    {
        assert!(wrong.parse::<Revision>().is_err(), "{wrong}");
    }
}

#[test]
fn only_branches_can_be_followed() {
    let source = |branch| {
        let remote = super::remote("/srv/fleet.git", None);
        Source::new(remote, "/tmp".into()).following(branch).map(|source| source.branch)
    };
    assert_eq!(source("refs/heads/release/1.2"), Ok("release/1.2".to_owned()));
    for wrong in ["", "a:b", "a b", "refs/pull/7/head", "a..b", "main^", "x\ny"] {
        assert!(source(wrong).is_err(), "{wrong}");
    }
}
