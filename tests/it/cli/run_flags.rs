//! The flags of `nodewright run`: defaults, precedence, and what is made of them together.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nodewright::cli::{
    CliError, Environment, ErrorKind, LogFormat, RunSettings, SourceKind, run_args,
};
use nodewright::cluster::EdgeSettings;
use nodewright::cluster::resources::Adoption;
use nodewright::model::Floor;

/// The least that `run` can do with.
pub const LEAST: [&str; 3] = ["--cluster=prod", "--agent-image=agent:1", "--repo=/srv/fleet.git"];

fn settings(line: &[&str], environment: &Environment) -> Result<RunSettings, CliError> {
    let args =
        run_args(line, environment).unwrap_or_else(|rejected| panic!("{}", rejected.report()));
    args.settings(environment)
}

fn settled(more: &[&str], environment: &Environment) -> RunSettings {
    settings(&[&LEAST, more].concat(), environment)
        .unwrap_or_else(|error| panic!("{}", error.report()))
}

#[test]
fn the_defaults_are_those_of_the_design_and_of_upstream() {
    let environment = Environment::from([("HOME", "/home/me")]);
    let args = run_args(&LEAST, &environment).expect("that is enough");
    assert_eq!(args.source, SourceKind::Git);
    assert_eq!(args.process.log, LogFormat::Text);

    let settings = settled(&["--identity=me"], &environment);
    let git = settings.git.expect("git is the default");
    assert_eq!(git.source.branch, "main");
    assert_eq!(git.source.poll, Duration::from_secs(60));
    assert_eq!(git.source.cache, Path::new("/home/me/.cache/nodewright/prod"));
    assert_eq!((git.path.as_str(), git.adoption), ("", Adoption::Refused));
    assert_eq!(settings.status, Some(git.source.remote));
    assert_eq!(settings.floor, Floor::default());
    assert_eq!(settings.edge, EdgeSettings::new("nodewright", "agent:1"));
    assert_eq!(settings.probes.to_string(), ":8081");
    assert_eq!(settings.metrics.to_string(), ":8443");
    assert_eq!((settings.identity.as_str(), settings.own_node), ("me", None));
}

#[test]
fn a_flag_wins_over_our_variable_and_that_over_upstreams_name() {
    type Row<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a str);
    // What is typed, what is set, and the namespace that comes of it.
    let table: [Row<'_>; 7] = [
        (&[], &[], "nodewright"),
        (&[], &[("NAMESPACE", "theirs")], "theirs"),
        (&[], &[("NODEWRIGHT_NAMESPACE", "ours"), ("NAMESPACE", "theirs")], "ours"),
        (&["--namespace=typed"], &[("NODEWRIGHT_NAMESPACE", "ours")], "typed"),
        (&["--namespace", "typed"], &[("NAMESPACE", "theirs")], "typed"),
        (&[], &[("NODEWRIGHT_NAMESPACE", ""), ("NAMESPACE", "theirs")], "theirs"),
        (&["--namespace=typed"], &[("NAMESPACE", "Not A Name")], "typed"),
    ];
    for (typed, variables, expected) in table {
        let environment: Environment =
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        let settings = settled(&[typed, &["--identity=me"]].concat(), &environment);
        assert_eq!(settings.edge.namespace, expected, "{typed:?} {variables:?}");
    }
}

#[test]
fn every_upstream_name_reaches_its_setting() {
    let environment = Environment::from([
        ("AGENT_IMAGE", "registry/agent:2"),
        ("AGENT_LOG_ROOT", "/logs"),
        ("COPY_DIR_ROOT", "/copies"),
        ("IMAGE_PULL_SECRET", "pull"),
        ("JOB_STAGE_TIMEOUT", "90m"),
        ("METRICS_PORT", ":9443"),
        ("NAMESPACE", "skyhook"),
        ("NODEWRIGHT_CLUSTER", "prod"),
        ("NODEWRIGHT_SOURCE", "cluster"),
        ("NODE_NAME", "node-7"),
        ("POD_NAME", "nodewright-abc"),
        ("PROBE_PORT", ":9081"),
        ("RUNTIME_REQUIRED_TAINT", "a/b=c:NoExecute"),
    ]);
    let settings = settings(&[], &environment).expect("the environment says it all");
    let edge = settings.edge;
    assert_eq!(edge.agent_image, "registry/agent:2");
    assert_eq!((edge.agent_log_root.as_str(), edge.copy_dir_root.as_str()), ("/logs", "/copies"));
    assert_eq!(edge.image_pull_secret.as_deref(), Some("pull"));
    assert_eq!(edge.default_stage_timeout, Duration::from_secs(90 * 60));
    assert_eq!(edge.namespace, "skyhook");
    assert_eq!(edge.runtime_required_taint.key, "a/b");
    assert_eq!(settings.identity, "nodewright-abc");
    assert_eq!(settings.own_node.as_deref(), Some("node-7"));
    assert_eq!(settings.probes.to_string(), ":9081");
    assert_eq!(settings.metrics.to_string(), ":9443");
    assert_eq!((settings.git, settings.status), (None, None));
}

#[test]
fn our_own_variables_reach_flags_of_every_kind() {
    let environment = Environment::from([
        ("NODEWRIGHT_ADOPT", "yes"),
        ("NODEWRIGHT_KUBECONFIG", "/etc/kubeconfig"),
        ("NODEWRIGHT_LOG", "debug"),
        ("NODEWRIGHT_LOG_FORMAT", "json"),
        ("NODEWRIGHT_MAX_DISTURBED", "33"),
        ("NODEWRIGHT_POLL", "1m30s"),
        ("NODEWRIGHT_REPAIR_AFTER", "45m"),
    ]);
    let args = run_args(&LEAST, &environment).expect("all of them are fine");
    assert_eq!(args.process.log, LogFormat::Json);
    assert_eq!(args.kubernetes.kubeconfig, Some(PathBuf::from("/etc/kubeconfig")));
    let settings = settled(&[], &environment);
    assert_eq!(settings.floor.max_disturbed_percent, 33);
    assert_eq!(settings.floor.repair_after, Duration::from_mins(45));
    let git = settings.git.expect("git");
    assert_eq!((git.source.poll.as_secs(), git.adoption), (90, Adoption::Allowed));
    let git = settled(&["--adopt=false"], &environment).git.expect("git");
    assert_eq!(git.adoption, Adoption::Refused);
    let git = settled(&["--adopt"], &Environment::default()).git.expect("git");
    assert_eq!(git.adoption, Adoption::Allowed);
}

#[test]
fn a_variable_that_makes_no_sense_is_named() {
    let environment = Environment::from([("JOB_STAGE_TIMEOUT", "an hour")]);
    let rejected = run_args(&LEAST, &environment).expect_err("no duration");
    let report = rejected.report();
    assert!(report.contains("--stage-timeout"), "{report}");
    let hint = "\nhint: the value comes from JOB_STAGE_TIMEOUT in the environment\n";
    assert!(report.ends_with(hint), "{report}");

    let typed = [&LEAST[..], &["--stage-timeout=soon"]].concat();
    let rejected = run_args(&typed, &environment).expect_err("no duration");
    assert!(!rejected.report().contains("hint: "), "it was typed: {}", rejected.report());
}

#[test]
fn git_needs_a_repository_and_says_how_to_do_without() {
    let line = ["--cluster=prod", "--agent-image=agent:1"];
    let error = settings(&line, &Environment::default()).expect_err("there is no repository");
    assert_eq!(error.kind(), ErrorKind::Usage);
    assert_eq!(
        error.report(),
        "error: --source git needs a repository to follow\n\
         hint: name it with --repo, or NODEWRIGHT_REPO\n\
         hint: to work on the objects that are in the cluster: --source cluster\n"
    );
    let line = [&LEAST[..], &["--revision=refs/pull/1/head"]].concat();
    let error = settings(&line, &Environment::default()).expect_err("no branch");
    assert_eq!(error.kind(), ErrorKind::Usage);
}

#[test]
fn credentials_go_only_to_the_server_they_were_given_for() {
    let status = |more: &[&str]| {
        let more = [&["--credentials=/read"], more].concat();
        let status = settled(&more, &Environment::default()).status.expect("a status branch");
        (status.address.to_string(), status.credentials)
    };
    let fleet = || "file:///srv/fleet.git".to_owned();
    let log = || "file:///srv/log.git".to_owned();
    assert_eq!(status(&[]), (fleet(), Some("/read".into())));
    assert_eq!(status(&["--status-credentials=/write"]), (fleet(), Some("/write".into())));
    assert_eq!(status(&["--status-repo=/srv/log.git"]), (log(), None));
    assert_eq!(status(&["--status-repo=/srv/fleet.git"]), (fleet(), Some("/read".into())));
    let both = ["--status-repo=/srv/log.git", "--status-credentials=/write"];
    assert_eq!(status(&both), (log(), Some("/write".into())));
}

#[test]
fn the_cache_follows_the_flag_then_the_machine() {
    let cache = |more: &[&str], variables: Environment| settled(more, &variables).cache;
    let home = [("HOME", "/home/me"), ("XDG_CACHE_HOME", "/fast")];
    assert_eq!(cache(&["--cache=/here"], home.into()), Path::new("/here"));
    assert_eq!(cache(&[], home.into()), Path::new("/fast/nodewright/prod"));
    // A container often has no home, or the root.
    let root = [("HOME", "/")];
    assert_eq!(cache(&[], root.into()), Path::new("/var/cache/nodewright/prod"));
    assert_eq!(cache(&[], Environment::default()), Path::new("/var/cache/nodewright/prod"));
}

#[test]
fn without_a_name_the_host_lends_its_own() {
    let settings = settled(&[], &Environment::default());
    assert!(!settings.identity.is_empty());
    assert_eq!(settings.identity, settings.identity.trim());
}
