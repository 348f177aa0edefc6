package localcluster

import "strconv"

// The arguments of every component. File names are those that identities writes.

// maxBytes is the most that etcd recommends: 8 GiB.
const maxBytes = "8589934592"

func etcdArguments(d *directory, p ports) []string {
	return []string{
		"--name=bellerophon",
		"--data-dir=" + d.file("etcd"),
		"--listen-client-urls=" + url(p.etcd),
		"--advertise-client-urls=" + url(p.etcd),
		"--listen-peer-urls=" + url(p.etcdPeer),
		"--initial-advertise-peer-urls=" + url(p.etcdPeer),
		"--initial-cluster=bellerophon=" + url(p.etcdPeer),
		"--cert-file=" + d.file("etcd.crt"),
		"--key-file=" + d.file("etcd.key"),
		"--trusted-ca-file=" + d.file("etcd-ca.crt"),
		"--client-cert-auth",
		"--peer-cert-file=" + d.file("etcd.crt"),
		"--peer-key-file=" + d.file("etcd.key"),
		"--peer-trusted-ca-file=" + d.file("etcd-ca.crt"),
		"--peer-client-cert-auth",
		"--unsafe-no-fsync",                 // The data end with the cluster.
		"--quota-backend-bytes=" + maxBytes, // The default, 2 GiB, is less than 50,000 objects with children take.
		"--log-level=warn",
	}
}

func apiServerArguments(d *directory, p ports) []string {
	return []string{
		"--bind-address=" + loopback,
		"--secure-port=" + strconv.Itoa(p.api),
		"--advertise-address=" + loopback,
		// The Service "kubernetes" gets no endpoints: those must not be on loopback.
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceRange,
		"--tls-cert-file=" + d.file("kube-apiserver.crt"),
		"--tls-private-key-file=" + d.file("kube-apiserver.key"),
		"--client-ca-file=" + d.file("ca.crt"),
		"--anonymous-auth=false",
		"--authorization-mode=Node,RBAC",
		"--allow-privileged",
		"--etcd-servers=" + url(p.etcd),
		"--etcd-cafile=" + d.file("etcd-ca.crt"),
		"--etcd-certfile=" + d.file("etcd-client.crt"),
		"--etcd-keyfile=" + d.file("etcd-client.key"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + d.file("service-accounts.key"),
		"--service-account-signing-key-file=" + d.file("service-accounts.key"),
		"--profiling=false",
	}
}

// The clients of the API server serve nothing themselves, so they need no port. Their
// rates are raised far beyond the defaults, which make 200 StatefulSets wait for minutes.

func controllerManagerArguments(d *directory) []string {
	return []string{
		"--kubeconfig=" + d.file("kube-controller-manager.kubeconfig"),
		"--secure-port=0",
		"--leader-elect=false",
		"--use-service-account-credentials",
		"--service-account-private-key-file=" + d.file("service-accounts.key"),
		"--root-ca-file=" + d.file("ca.crt"),
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
		"--concurrent-statefulset-syncs=20",
		"--concurrent-gc-syncs=30",
		"--concurrent-namespace-syncs=20",
		"--profiling=false",
	}
}

func schedulerArguments(d *directory) []string {
	return []string{
		"--kubeconfig=" + d.file("kube-scheduler.kubeconfig"),
		"--secure-port=0",
		"--leader-elect=false",
		"--kube-api-qps=2000",
		"--kube-api-burst=4000",
		"--profiling=false",
	}
}

// kwokArguments: kwok does not limit its rate.
func kwokArguments(d *directory, stages []string) []string {
	arguments := []string{
		"--kubeconfig=" + d.file("kwok.kubeconfig"),
		"--manage-nodes-with-annotation-selector=" + kwokAnnotation + "=" + kwokFake,
		"--cidr=" + podRange,
		"--node-ip=" + loopback,
		"--node-lease-duration-seconds=40", // As a kubelet's: the node counts as healthy while it is renewed.
		"--v=WARN",                         // It logs every Pod otherwise.
	}
	for _, file := range stages {
		arguments = append(arguments, "--config="+file)
	}
	return arguments
}
