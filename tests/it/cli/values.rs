//! What flags hold beyond plain text.

use nodewright::cli::{Environment, run_args};

use super::run_flags::LEAST;

#[test]
fn each_flag_refuses_what_would_fail_later_and_says_what_it_expects() {
    let cases = [
        ("--poll=9s", "at least 10s"),
        ("--poll=1d", "needs a unit after each number"),
        ("--poll=-60s", "negative"),
        ("--max-disturbed=0", "from 1 to 100"),
        ("--max-disturbed=101%", "from 1 to 100"),
        ("--stop-after=0", "1.."),
        ("--agent-image=registry:5000/agent", "with its tag"),
        ("--agent-image=agent:", "with its tag"),
        ("--copy-dir-root=var/lib", "an absolute folder"),
        ("--copy-dir-root=/", "an absolute folder"),
        ("--agent-log-root=/var/../etc", "an absolute folder"),
        ("--cluster=prod/eu", "a name is expected"),
        ("--cluster=-prod", "a name is expected"),
        ("--cluster=a..b", "a name is expected"),
        ("--namespace=Node_Wright", "a name is expected"),
        ("--runtime-required-taint=a=b", "a taint is expected"),
        ("--runtime-required-taint=a:Never", "a taint is expected"),
        ("--source=svn", "possible values: git, cluster"),
        ("--log=xml", "possible values: text, json"),
    ];
    for (flag, expected) in cases {
        let name = flag.split('=').next().expect("a name");
        let others = LEAST.iter().filter(|other| !other.starts_with(name));
        let line: Vec<&str> = others.copied().chain([flag]).collect();
        let rejected = run_args(&line, &Environment::default()).expect_err(flag);
        assert!(rejected.report().contains(expected), "{flag}: {}", rejected.report());
        assert!(rejected.report().contains(name), "{flag}: {}", rejected.report());
    }
}

#[test]
fn the_forms_that_people_use_are_read() {
    let line = [
        "--cluster=eu-1.prod",
        "--agent-image=registry:5000/team/agent@sha256:0123",
        "--max-disturbed=25%",
        "--runtime-required-taint=example.com/wait:NoExecute",
        "--stage-timeout=0",
    ];
    let args = run_args(&line, &Environment::default()).expect("all of them are fine");
    assert_eq!(args.floor.max_disturbed, 25);
    assert_eq!(args.nodes.runtime_required_taint.key, "example.com/wait");
    assert_eq!(args.nodes.runtime_required_taint.value, "");
    assert!(args.nodes.stage_timeout.get().is_zero());
}
