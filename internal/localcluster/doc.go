// Package localcluster runs a real Kubernetes control plane on this machine's loopback
// interface: etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and one
// node that kwok simulates, so that Pods get scheduled and become Ready. It serves
// `bellerophon up`, `bellerophon cluster` and the tests (see package clustertest).
//
// What it guarantees:
//
//   - Nothing but Go is needed. The binaries of KUBEBUILDER_ASSETS are used if it is set;
//     those that it lacks are built once from tools/controlplane and tools/kwok of the
//     checkout, and kept in the user's cache directory. However many processes want them
//     at the same time, one builds and the others wait. An interrupted build leaves
//     nothing that a later one trips over.
//   - Clusters run side by side. Each has free ports of 127.0.0.1, and a directory of its
//     own for data, certificates, logs and kubeconfig.
//   - All traffic is verified TLS, both ways between etcd and the API server. Requests are
//     authenticated by client certificate or service account token, and authorized by RBAC.
//   - Nothing outlives its cluster. Stop ends every child and removes the directory. If
//     this process is killed, the kernel kills the children with it (on Linux), and the
//     next Start removes what it left on disk.
//   - A test can make it fail: pause a component and let it continue, take a snapshot of
//     etcd's data, and restore it later under the same address, with lower resource versions.
//   - Data are as short-lived as the cluster: etcd does not sync them to disk.
//
// The simulated node runs no containers: a Pod becomes Ready at once, unless the registry
// host of one of its images ends with ".invalid". Such a name never resolves (RFC 2606), so
// the Pod stays Pending with the reason ImagePullBackOff, as it would on a real node.
// PersistentVolumeClaims are bound at once to simulated volumes.
package localcluster
