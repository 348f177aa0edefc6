// Package localcluster runs a real Kubernetes control plane on the loopback interface of this
// machine. It consists of etcd, kube-apiserver, kube-controller-manager and kube-scheduler, and
// one node simulated by kwok, so that Pods are scheduled and become Ready. `bellerophon up`,
// `bellerophon cluster` and the tests use it (see package clustertest).
//
// The package guarantees the following:
//
//   - Only Go is needed. If KUBEBUILDER_ASSETS is set, its binaries are used. Missing binaries
//     are built once from tools/controlplane and tools/kwok of the checkout, and kept in the
//     user's cache directory. If several processes need them at the same time, one process builds
//     and the others wait. An interrupted build leaves nothing that breaks a later build.
//   - Clusters run side by side. Each cluster has free ports of 127.0.0.1, and its own directory
//     for data, certificates, logs and kubeconfig.
//   - All traffic uses verified TLS; between etcd and the API server both sides verify. Requests
//     are authenticated by client certificate or service account token, and authorized by RBAC.
//   - Nothing outlives its cluster. Stop ends every child process and removes the directory. If
//     this process is killed, the kernel kills the children with it (on Linux), and the next
//     Start removes the files left on disk.
//   - A test can make the cluster fail. It can pause a component and let it continue, take a
//     snapshot of etcd's data, and restore the snapshot later. A restored cluster has the same
//     address and lower resource versions.
//   - Data live only as long as the cluster: etcd does not sync them to disk.
//
// # Nodes
//
// The simulated node runs no containers. A Pod becomes Ready at once, unless the registry host of
// one of its images ends with ".invalid". Such a name never resolves (RFC 2606), so the Pod stays
// Pending with the reason ImagePullBackOff, as on a real node. PersistentVolumeClaims are bound
// at once to simulated volumes.
//
// A real node ([Options.Nodes]) runs kubelet, kube-proxy, containerd and CoreDNS, and serves claims with
// directories. It needs Linux and root. All of it, and the control plane, has a network of its own.
// So clusters side by side need no different addresses, and nothing of the host's network changes. A forward on 127.0.0.1 leads to the API server. The node has mounts, processes and settings of the
// kernel of its own as well, and ends with its first process. Its Pods reach each other and the
// API server, and nothing outside. The API server reaches Pods, but no server of the host. Images
// come from files: see [Cluster.LoadImage].
package localcluster
