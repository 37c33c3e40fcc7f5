//! The embedded cluster: an API server in memory behind a real client, and a kubelet that plays pods.
