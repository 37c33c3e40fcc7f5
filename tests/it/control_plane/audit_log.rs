//! The API server's audit log, read: what a line becomes, and what a broken one does.

use super::plane::{AuditEntry, Stage, read};

/// As kube-apiserver 1.36 writes it, shortened where nothing is read.
const EVICTION: &str = concat!(
    r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata","auditID":"1","#,
    r#""stage":"ResponseComplete","requestURI":"/api/v1/namespaces/a/pods/p/eviction?","#,
    r#""verb":"create","user":{"username":"admin"},"sourceIPs":["127.0.0.1"],"#,
    r#""userAgent":"x/1","objectRef":{"resource":"pods","namespace":"a","name":"p","#,
    r#""apiVersion":"v1","subresource":"eviction"},"#,
    r#""responseStatus":{"metadata":{},"status":"Failure","code":429}}"#,
);

#[test]
fn complete_lines_are_read_and_the_last_may_be_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let half = &EVICTION[..40];
    std::fs::write(&path, format!("{EVICTION}\n{half}")).unwrap();
    let expected = AuditEntry {
        verb: "create".into(),
        resource: "pods".into(),
        subresource: "eviction".into(),
        namespace: "a".into(),
        name: "p".into(),
        user_agent: "x/1".into(),
        uri: "/api/v1/namespaces/a/pods/p/eviction?".into(),
        code: 429,
        stage: Stage::ResponseComplete,
    };
    assert!(expected.is_write());
    assert_eq!(read(&path).unwrap(), [expected]);
    std::fs::write(&path, half).unwrap();
    assert_eq!(read(&path).unwrap(), []);
}

#[test]
fn a_broken_line_is_an_error_and_not_one_request_less() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    std::fs::write(&path, "{}\n").unwrap();
    assert!(read(&path).is_err());
}
