//! `config.json`: every rule, each broken once, with path and way out.

use nodewright::agent::{self, AgentError, HostRoot};
use serde_json::{Value, json};

/// A smallest valid package.
fn package() -> Value {
    let step = |name: &str, path: &str| {
        json!({
            "name": name, "path": path, "arguments": [], "returncodes": [0],
            "on_host": true, "idempotence": false, "upgrade_step": false
        })
    };
    json!({
        "schema_version": "v1", "package_name": "p", "package_version": "1.0.0",
        "expected_config_files": [], "root_dir": "ignored",
        "modes": {
            "apply": [step("one", "one.sh")],
            "apply-check": [step("one-check", "one_check.sh")],
            "interrupt": [step("never", "one.sh")]
        }
    })
}

fn load(document: &str) -> Result<agent::Config, AgentError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let package = folder.path().join("copy");
    std::fs::create_dir_all(package.join("skyhook_dir")).expect("the package");
    for script in ["one.sh", "one_check.sh", "alone.sh"] {
        std::fs::write(package.join("skyhook_dir").join(script), "").expect("a script");
    }
    std::fs::write(package.join("config.json"), document).expect("config.json");
    agent::load_config(&HostRoot::new(folder.path()), "/copy".as_ref())
}

/// Returns the problems after `change`, as text.
fn problems(change: impl FnOnce(&mut Value)) -> Vec<String> {
    let mut document = package();
    change(&mut document);
    match load(&document.to_string()) {
        Ok(_) => Vec::new(),
        Err(AgentError::Config(error)) => {
            assert_eq!(error.file.to_string_lossy(), "/copy/config.json");
            error.problems.iter().map(ToString::to_string).collect()
        }
        Err(other) => panic!("{}", other.chain()),
    }
}

#[test]
fn a_valid_package_loads_and_keeps_what_it_says() {
    let config = load(&package().to_string()).expect("valid");
    assert_eq!(config.package_name, "p");
    assert_eq!(config.modes.len(), 3);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
}

#[test]
fn a_script_without_a_check_of_its_name_is_a_warning() {
    let mut document = package();
    document["modes"]["apply"][0]["path"] = json!("alone.sh");
    let config = load(&document.to_string()).expect("valid");
    assert_eq!(config.warnings, ["apply: alone.sh has no check script alone_check.sh"]);
}

#[test]
fn every_broken_rule_of_the_document_names_its_place_and_the_way_out() {
    let table: &[(Change, &str)] = &[
        (|d| *d = json!([]), "$: must be an object, is a list; correct its type"),
        (
            |d| d["schema_version"] = json!("v2"),
            "$.schema_version: schema \"v2\" is not known; write \"v1\"",
        ),
        (|d| d["schema_version"] = json!(1), "$.schema_version: must be a string, is a number"),
        (
            |d| d["package_name"] = json!("../p"),
            "$.package_name: \"../p\" cannot be the name of a file",
        ),
        (|d| d["package_name"] = json!(""), "$.package_name: must not be empty"),
        (
            |d| d["package_version"] = json!("v1.0.0"),
            "$.package_version: \"v1.0.0\" is not a semantic version",
        ),
        (
            |d| d["package_version"] = json!("1.0"),
            "$.package_version: \"1.0\" is not a semantic version",
        ),
        (|d| remove(d, "expected_config_files"), "$.expected_config_files: is required; add it"),
        (
            |d| d["expected_config_files"] = json!(["/etc/x"]),
            "$.expected_config_files[0]: \"/etc/x\" leads out of configmaps",
        ),
        (|d| d["modes"] = json!([]), "$.modes: must be an object of step lists, is a list"),
        (|d| d["modes"] = json!({"apply": []}), "$.modes: the package has no step at all"),
        (
            |d| remove(&mut d["modes"], "apply-check"),
            "$.modes.apply: has steps, but apply-check has none",
        ),
        (
            |d| {
                remove(&mut d["modes"], "apply");
                remove(&mut d["modes"], "interrupt");
            },
            "$.modes: there are only check modes",
        ),
        (
            |d| d["modes"]["install"] = json!([]),
            "$.modes.install: \"install\" is not a mode; the modes are apply, apply-check,",
        ),
        (
            |d| d["modes"]["apply"] = json!({}),
            "$.modes.apply: must be a list of steps, is an object",
        ),
        (
            |d| d["modes"]["apply"][0] = json!("one.sh"),
            "$.modes.apply[0]: must be a step object, is a string",
        ),
    ];
    assert_each(table);
}

#[test]
fn every_broken_rule_of_a_step_names_its_place_and_the_way_out() {
    let table: &[(Change, &str)] = &[
        (
            |d| step(d, "name", json!("a b")),
            "$.modes.apply[0].name: \"a b\" has a character outside",
        ),
        (
            |d| step(d, "path", json!("../one.sh")),
            "$.modes.apply[0].path: \"../one.sh\" leads out of skyhook_dir; write a path relative",
        ),
        (
            |d| step(d, "path", json!("/bin/sh")),
            "$.modes.apply[0].path: \"/bin/sh\" leads out of skyhook_dir",
        ),
        (
            |d| step(d, "path", json!("a/../../x")),
            "$.modes.apply[0].path: \"a/../../x\" leads out of skyhook_dir",
        ),
        (
            |d| step(d, "path", json!("gone.sh")),
            "$.modes.apply[0].path: skyhook_dir has no file \"gone.sh\"",
        ),
        (|d| step(d, "path", json!(".")), "$.modes.apply[0].path: \".\" leads out of skyhook_dir"),
        (
            |d| step(d, "arguments", json!([1])),
            "$.modes.apply[0].arguments: must be a list of strings, is a list",
        ),
        (|d| step(d, "returncodes", json!([])), "$.modes.apply[0].returncodes: must not be empty"),
        (
            |d| step(d, "returncodes", json!(["0"])),
            "$.modes.apply[0].returncodes: must be a list of integers",
        ),
        (
            |d| step(d, "on_host", json!("yes")),
            "$.modes.apply[0].on_host: must be true or false, is a string",
        ),
        (
            |d| remove(&mut d["modes"]["apply"][0], "idempotence"),
            "$.modes.apply[0].idempotence: is required",
        ),
        (
            |d| step(d, "upgrade_step", json!(true)),
            "$.modes.apply[0].upgrade_step: true in mode apply",
        ),
        (
            |d| upgrade_with_arguments(d),
            "$.modes.upgrade[0].arguments: an upgrade step has arguments of its own",
        ),
        (
            |d| step(d, "env", json!({"A": 1})),
            "$.modes.apply[0].env.A: must be a string without NUL, is a number",
        ),
        (
            |d| step(d, "env", json!({"A=B": ""})),
            "$.modes.apply[0].env.A=B: \"A=B\" cannot name a variable",
        ),
    ];
    assert_each(table);
}

#[test]
fn all_broken_rules_are_told_together() {
    let problems = problems(|document| {
        document["package_version"] = json!("x");
        step(document, "path", json!("gone.sh"));
        step(document, "returncodes", json!([]));
    });
    assert_eq!(problems.len(), 3, "{problems:?}");
}

#[test]
fn what_is_no_json_is_told_with_its_line() {
    let error = load("{\n  \"a\": 1,\n}").expect_err("a trailing comma");
    let text = error.chain();
    assert!(text.contains("not JSON: trailing comma at line 3 column 1"), "{text}");
}

#[test]
fn links_stay_inside_the_host() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let root = HostRoot::new(folder.path());
    for (link, target) in
        [("absolute", "/etc/real"), ("up", "../../../../etc"), ("loop", "loop"), ("chain", "up")]
    {
        std::os::unix::fs::symlink(target, folder.path().join(link)).expect("a link");
    }
    for (path, expected) in [
        ("/absolute/file", "etc/real/file"),
        ("/up/passwd", "etc/passwd"),
        ("/chain/passwd", "etc/passwd"),
        ("/../../etc/passwd", "etc/passwd"),
        ("/new/folder", "new/folder"),
    ] {
        let resolved = root.resolve(path.as_ref()).expect("it resolves");
        assert_eq!(resolved, folder.path().join(expected), "{path}");
    }
    let error = root.resolve("/loop".as_ref()).expect_err("a loop").chain();
    assert!(error.contains("more than 40 symbolic links"), "{error}");
}

type Change = fn(&mut Value);

#[track_caller]
fn assert_each(table: &[(Change, &str)]) {
    for (change, expected) in table {
        let problems = problems(change);
        let found = problems.iter().any(|problem| problem.starts_with(expected));
        assert!(found, "no {expected:?} in {problems:#?}");
        assert!(problems.iter().all(|problem| problem.contains("; ")), "no way out: {problems:?}");
    }
}

fn step(document: &mut Value, key: &str, value: Value) {
    document["modes"]["apply"][0][key] = value;
}

fn remove(value: &mut Value, key: &str) {
    value.as_object_mut().expect("an object").remove(key);
}

fn upgrade_with_arguments(document: &mut Value) {
    let mut upgrade = document["modes"]["apply"][0].clone();
    upgrade["upgrade_step"] = json!(true);
    upgrade["arguments"] = json!(["own"]);
    document["modes"]["upgrade"] = json!([upgrade]);
    document["modes"]["upgrade-check"] = document["modes"]["apply-check"].clone();
}
