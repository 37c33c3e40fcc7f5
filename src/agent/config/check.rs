//! The rules of `config.json`, one by one; all broken ones are collected.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use serde_json::{Map, Value};

use super::{Config, Idempotence, Place, Problem, Step, Versions};
use crate::agent::error::AgentError;
use crate::agent::mode::Mode;

/// Walks one document and collects what is wrong; what cannot be read gets a harmless value.
#[derive(Default)]
pub(super) struct Checker {
    problems: Vec<Problem>,
}

impl Checker {
    pub(super) fn into_problems(self) -> Vec<Problem> {
        self.problems
    }

    pub(super) fn document(&mut self, document: &Value) -> Config {
        let Some(top) = document.as_object() else {
            self.wrong_kind("$", "an object", document);
            return Config::default();
        };
        let schema = self.string(top, "$", "schema_version");
        if !schema.is_empty() && schema != "v1" {
            let rule = format!("schema {schema:?} is not known");
            self.problem("$.schema_version", rule, "write \"v1\", the only schema there is");
        }
        let package_name = self.string(top, "$", "package_name");
        if !package_name.is_empty() && !is_file_name(&package_name) {
            let rule = format!("{package_name:?} cannot be the name of a file");
            let way_out = "it names flags and logs on the host: use letters, digits, - and _";
            self.problem("$.package_name", rule, way_out);
        }
        let package_version = self.string(top, "$", "package_version");
        if !package_version.is_empty()
            && let Err(error) = semver::Version::parse(&package_version)
        {
            let rule = format!("{package_version:?} is not a semantic version: {error}");
            let way_out = "write three numbers without a leading v, like \"1.2.0\"";
            self.problem("$.package_version", rule, way_out);
        }
        let expected_config_files = self.strings(top, "$", "expected_config_files");
        for (index, file) in expected_config_files.iter().enumerate() {
            self.local_path(&format!("$.expected_config_files[{index}]"), file, "configmaps");
        }
        let modes = self.modes(top);
        let warnings = Vec::new();
        Config { package_name, package_version, expected_config_files, modes, warnings }
    }

    /// Checks that every step's script is there, and notes scripts without a check of their name.
    pub(super) fn files(
        &mut self,
        config: &mut Config,
        is_file: impl Fn(&str) -> Result<bool, AgentError>,
    ) -> Result<(), AgentError> {
        for (mode, steps) in &config.modes {
            for (index, step) in steps.iter().enumerate() {
                if !is_local(&step.path) {
                    continue;
                }
                if !is_file(&step.path)? {
                    let rule = format!("skyhook_dir has no file {:?}", step.path);
                    let way_out = "correct the path, or add the script to the image";
                    self.problem(&format!("$.modes.{mode}[{index}].path"), rule, way_out);
                }
                let check = check_path(&step.path);
                if mode.check().is_some() && !is_file(&check)? {
                    let note = format!("{mode}: {} has no check script {check}", step.path);
                    config.warnings.push(note);
                }
            }
        }
        Ok(())
    }

    fn modes(&mut self, top: &Map<String, Value>) -> BTreeMap<Mode, Vec<Step>> {
        let mut modes = BTreeMap::new();
        let Some(value) = self.field(top, "$", "modes") else { return modes };
        let Some(object) = value.as_object() else {
            self.wrong_kind("$.modes", "an object of step lists", value);
            return modes;
        };
        for (key, value) in object {
            let path = format!("$.modes.{key}");
            let Some(mode) = Mode::parse(key) else {
                let known: Vec<&str> = Mode::ALL.iter().map(|mode| mode.as_str()).collect();
                let rule = format!("{key:?} is not a mode");
                self.problem(&path, rule, &format!("the modes are {}", known.join(", ")));
                continue;
            };
            let Some(list) = value.as_array() else {
                self.wrong_kind(&path, "a list of steps", value);
                continue;
            };
            let steps: Vec<Step> = list
                .iter()
                .enumerate()
                .filter_map(|(index, step)| self.step(mode, &format!("{path}[{index}]"), step))
                .collect();
            if !steps.is_empty() {
                modes.insert(mode, steps);
            }
        }
        self.companions(&modes);
        modes
    }

    fn companions(&mut self, modes: &BTreeMap<Mode, Vec<Step>>) {
        if modes.is_empty() {
            let way_out = "give at least one mode a step, and its check mode another";
            self.problem("$.modes", "the package has no step at all".to_owned(), way_out);
        } else if modes.keys().all(|mode| mode.is_check()) {
            let way_out =
                "add the mode that they check; one that does nothing is a script `exit 0`";
            self.problem("$.modes", "there are only check modes".to_owned(), way_out);
        }
        for mode in modes.keys() {
            if let Some(check) = mode.check().filter(|check| !modes.contains_key(check)) {
                let rule = format!("has steps, but {check} has none");
                let way_out = format!("add a step to $.modes.{check} that proves {mode} worked");
                self.problem(&format!("$.modes.{mode}"), rule, &way_out);
            }
        }
    }

    fn step(&mut self, mode: Mode, path: &str, value: &Value) -> Option<Step> {
        let Some(object) = value.as_object() else {
            self.wrong_kind(path, "a step object", value);
            return None;
        };
        let name = self.string(object, path, "name");
        if !name.is_empty() && !name.chars().all(is_name_character) {
            let rule = format!("{name:?} has a character outside a-z A-Z 0-9 _ - .");
            self.problem(&format!("{path}.name"), rule, "rename the step");
        }
        let script = self.string(object, path, "path");
        if !script.is_empty() {
            self.local_path(&format!("{path}.path"), &script, "skyhook_dir");
        }
        let arguments = self.strings(object, path, "arguments");
        let upgrade = self.boolean(object, path, "upgrade_step");
        if upgrade {
            self.upgrade_step(mode, path, &arguments);
        }
        Some(Step {
            name,
            path: script,
            arguments,
            returncodes: self.returncodes(object, path),
            place: if self.boolean(object, path, "on_host") {
                Place::Host
            } else {
                Place::Container
            },
            idempotence: if self.boolean(object, path, "idempotence") {
                Idempotence::Disabled
            } else {
                Idempotence::Auto
            },
            versions: if upgrade { Versions::Arguments } else { Versions::Environment },
            env: self.env(object, path),
        })
    }

    fn upgrade_step(&mut self, mode: Mode, path: &str, arguments: &[String]) {
        if !mode.is_upgrade() {
            let rule = format!("true in mode {mode}");
            let way_out = "only steps of upgrade and upgrade-check get versions; write false";
            self.problem(&format!("{path}.upgrade_step"), rule, way_out);
        }
        if !arguments.is_empty() {
            let rule = "an upgrade step has arguments of its own".to_owned();
            let way_out = "it gets the previous and the current version instead; write []";
            self.problem(&format!("{path}.arguments"), rule, way_out);
        }
    }

    fn returncodes(&mut self, object: &Map<String, Value>, path: &str) -> Vec<i32> {
        let Some(value) = self.field(object, path, "returncodes") else { return Vec::new() };
        let path = format!("{path}.returncodes");
        let codes: Option<Vec<i32>> = value.as_array().and_then(|list| {
            let codes = list.iter().map(|code| i32::try_from(code.as_i64()?).ok());
            codes.collect()
        });
        match codes {
            Some(codes) if !codes.is_empty() => return codes,
            Some(_) => {
                let way_out = "list the exit codes that mean success, normally [0]";
                self.problem(&path, "must not be empty".to_owned(), way_out);
            }
            None => self.wrong_kind(&path, "a list of integers", value),
        }
        Vec::new()
    }

    fn env(&mut self, object: &Map<String, Value>, path: &str) -> BTreeMap<String, String> {
        let mut env = BTreeMap::new();
        let Some(value) = object.get("env") else { return env };
        let Some(entries) = value.as_object() else {
            self.wrong_kind(&format!("{path}.env"), "an object of strings", value);
            return env;
        };
        for (name, value) in entries {
            let path = format!("{path}.env.{name}");
            if name.is_empty() || name.contains(['=', '\0']) {
                let rule = format!("{name:?} cannot name a variable");
                self.problem(&path, rule, "use letters, digits and _");
                continue;
            }
            match value.as_str() {
                Some(text) if !text.contains('\0') => {
                    env.insert(name.clone(), text.to_owned());
                }
                Some(_) | None => self.wrong_kind(&path, "a string without NUL", value),
            }
        }
        env
    }

    fn string(&mut self, object: &Map<String, Value>, path: &str, key: &str) -> String {
        let Some(value) = self.field(object, path, key) else { return String::new() };
        match value.as_str() {
            Some(text) if !text.is_empty() => return text.to_owned(),
            Some(_) => {
                self.problem(
                    &format!("{path}.{key}"),
                    "must not be empty".to_owned(),
                    "fill it in",
                );
            }
            None => self.wrong_kind(&format!("{path}.{key}"), "a string", value),
        }
        String::new()
    }

    fn strings(&mut self, object: &Map<String, Value>, path: &str, key: &str) -> Vec<String> {
        let Some(value) = self.field(object, path, key) else { return Vec::new() };
        let strings: Option<Vec<String>> = value.as_array().and_then(|list| {
            let texts = list.iter().map(|text| text.as_str().filter(|text| !text.contains('\0')));
            texts.map(|text| text.map(str::to_owned)).collect()
        });
        strings.unwrap_or_else(|| {
            self.wrong_kind(&format!("{path}.{key}"), "a list of strings", value);
            Vec::new()
        })
    }

    fn boolean(&mut self, object: &Map<String, Value>, path: &str, key: &str) -> bool {
        let Some(value) = self.field(object, path, key) else { return false };
        value.as_bool().unwrap_or_else(|| {
            self.wrong_kind(&format!("{path}.{key}"), "true or false", value);
            false
        })
    }

    fn field<'v>(
        &mut self,
        object: &'v Map<String, Value>,
        path: &str,
        key: &str,
    ) -> Option<&'v Value> {
        let value = object.get(key);
        if value.is_none() {
            let way_out = "add it, it has no default";
            self.problem(&format!("{path}.{key}"), "is required".to_owned(), way_out);
        }
        value
    }

    fn local_path(&mut self, path: &str, value: &str, folder: &str) {
        if !is_local(value) {
            let rule = format!("{value:?} leads out of {folder}");
            let way_out = format!("write a path relative to {folder}, without ..");
            self.problem(path, rule, &way_out);
        }
    }

    fn wrong_kind(&mut self, path: &str, expected: &str, value: &Value) {
        let rule = format!("must be {expected}, is {}", kind(value));
        self.problem(path, rule, "correct its type");
    }

    fn problem(&mut self, path: &str, rule: String, way_out: &str) {
        let (path, way_out) = (path.to_owned(), way_out.to_owned());
        self.problems.push(Problem { path, rule, way_out });
    }
}

/// Returns `<stem>_check.<extension>`, the name by which authors pair a script with its check.
fn check_path(script: &str) -> String {
    let path = Path::new(script);
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}_check.{}", extension.to_string_lossy()),
        None => format!("{stem}_check"),
    };
    path.with_file_name(name).to_string_lossy().into_owned()
}

fn is_local(path: &str) -> bool {
    !path.is_empty()
        && !path.contains('\0')
        && Path::new(path).file_name().is_some()
        && Path::new(path).components().all(|component| match component {
            Component::Normal(_) | Component::CurDir => true,
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => false,
        })
}

/// Tells whether a text can name one file of a folder.
pub(in crate::agent) fn is_file_name(name: &str) -> bool {
    is_local(name) && !name.contains('/') && name != "."
}

fn is_name_character(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.')
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}
