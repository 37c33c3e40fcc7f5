//! The same scenarios on a real kube-apiserver with etcd.
