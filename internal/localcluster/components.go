package localcluster

import (
	"strconv"
	"strings"
)

// This file holds the arguments of every component. The file names match the names that
// identities.write and identities.writeKubeconfigs use.

// maxBytes is the highest quota that etcd recommends: 8 GiB.
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
		"--unsafe-no-fsync",                 // The data do not outlive the cluster.
		"--quota-backend-bytes=" + maxBytes, // 50,000 objects with children exceed the default, 2 GiB.
		"--log-level=warn",
	}
}

func apiServerArguments(d *directory, p ports, options Options) []string {
	arguments := []string{
		"--secure-port=" + strconv.Itoa(p.api),
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
	if options.Nodes == RealNode {
		arguments = append(arguments,
			"--bind-address=0.0.0.0", // Of the node's network, which nothing outside of it reaches.
			"--advertise-address="+nodeAddress,
			"--kubelet-preferred-address-types=InternalIP",
			"--kubelet-certificate-authority="+d.file("ca.crt"),
			"--kubelet-client-certificate="+d.file("kubelet-client.crt"),
			"--kubelet-client-key="+d.file("kubelet-client.key"),
		)
	} else {
		arguments = append(arguments,
			"--bind-address="+loopback,
			"--advertise-address="+loopback,
			// The Service "kubernetes" gets no endpoints, because endpoints must not be on loopback.
			"--endpoint-reconciler-type=none",
		)
	}
	if options.AuditLog != "" {
		arguments = append(arguments, "--audit-policy-file="+d.file(auditPolicy), "--audit-log-path="+options.AuditLog,
			"--audit-log-maxsize=0") // The default begins a new file after 100 MB.
	}
	if len(options.FeatureGates) > 0 {
		arguments = append(arguments, "--feature-gates="+strings.Join(options.FeatureGates, "=true,")+"=true")
	}
	if len(options.AdmissionPlugins) > 0 {
		arguments = append(arguments, "--enable-admission-plugins="+strings.Join(options.AdmissionPlugins, ","))
	}
	return arguments
}

// The clients of the API server serve nothing themselves, so they need no port. Their rate limits
// are far above the defaults, with which 200 StatefulSets wait for minutes.

func controllerManagerArguments(d *directory, controllers []string) []string {
	arguments := []string{
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
	if len(controllers) > 0 {
		arguments = append(arguments, "--controllers="+strings.Join(controllers, ","))
	}
	return arguments
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

// kwokArguments returns the arguments of kwok, which has no rate limit of its own.
func kwokArguments(d *directory, stages []string) []string {
	arguments := []string{
		"--kubeconfig=" + d.file("kwok.kubeconfig"),
		"--manage-nodes-with-annotation-selector=" + kwokAnnotation + "=" + kwokFake,
		"--cidr=" + podRange,
		"--node-ip=" + loopback,
		"--node-lease-duration-seconds=40", // As a kubelet's. The node counts as healthy while the lease is renewed.
		"--v=WARN",                         // The default level logs every Pod.
	}
	for _, file := range stages {
		arguments = append(arguments, "--config="+file)
	}
	return arguments
}
