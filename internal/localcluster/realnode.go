package localcluster

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

const (
	// nodeAddress is the address of a real node in its own network, which has the API server too.
	nodeAddress = "10.240.0.1"
	// dnsReadyAddress is where CoreDNS reports whether it serves the names of Services.
	dnsReadyAddress = nodeAddress + ":8181"
	// pauseImage holds the namespaces of each Pod.
	pauseImage = "docker.io/bellerophon-io/pause:v1"
	// localClass is the storage class of a real node's volumes, and its provisioner.
	localClass       = "local"
	localProvisioner = "bellerophon.io/local-volumes"
)

//go:embed node/init.sh
var initScript []byte

// bootNode starts the first process of a real node. The API server and its database run in the
// node's network, where they reach kubelet and Pods. Clients reach the API server by a forward.
func (s *starter) bootNode(children *family, ports ports) error {
	if err := s.writeNodeFiles(); err != nil {
		return err
	}
	if err := makeCgroups(cgroupOf(s.directory.path)); err != nil {
		return err
	}
	if err := children.boot(s.directory.file("node")); err != nil {
		return err
	}
	server := address(ports.api)
	forward, err := newForward(server, func(ctx context.Context) (net.Conn, error) {
		return children.dialOnNode(ctx, server)
	})
	if err != nil {
		return fmt.Errorf("forward to the API server: %w", err)
	}
	children.forward = forward
	return children.startOnNode(s.host.containerd, "--config="+s.directory.file("node", "containerd.toml"))
}

// writeNodeFiles writes the configuration of the node's programs, which lasts until the cluster is
// stopped.
func (s *starter) writeNodeFiles() error {
	for _, name := range []string{"lib", "log", "cni", "volumes", "plugins"} {
		if err := os.MkdirAll(s.directory.file("node", name), 0o755); err != nil {
			return cacheError(s.directory.path, err)
		}
	}
	for name, content := range map[string][]byte{
		"init.sh":         initScript,
		"containerd.toml": containerdConfig(s.directory, s.host),
		"cni/10.conflist": cniConfig(),
		"kubelet.yaml":    kubeletConfig(s.directory),
		"kube-proxy.yaml": proxyConfig(s.directory),
		"Corefile":        corefile(s.directory),
		"resolv.conf":     []byte("nameserver " + nodeAddress + "\n"),
	} {
		if err := s.directory.write("node/"+name, content); err != nil {
			return err
		}
	}
	return WriteProgramImage(s.directory.file("node", "pause.tar"), pauseImage, s.programs.path("pause"))
}

// startNode starts what runs the Pods, once the API server is ready.
func (s *starter) startNode(ctx context.Context, children *family) error {
	if err := s.loadImage(ctx, children, s.directory.file("node", "pause.tar")); err != nil {
		return err
	}
	err := errors.Join(
		children.startOnNode(s.programs.path("kubelet"), kubeletArguments(s.directory)...),
		children.startOnNode(s.programs.path("kube-proxy"), "--config="+s.directory.file("node", "kube-proxy.yaml")),
		children.startOnNode(s.programs.path("coredns"), "-conf="+s.directory.file("node", "Corefile")),
		children.startOnNode(s.programs.path("local-volumes"),
			"-kubeconfig="+s.directory.file("local-volumes.kubeconfig"),
			"-provisioner="+localProvisioner,
			"-directory="+s.directory.file("node", "volumes")),
	)
	if err != nil {
		return err
	}
	// Until CoreDNS has listed the Services, it answers each question with a failure.
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return children.dialOnNode(ctx, address)
		},
	}}
	return waitReady(ctx, client, "CoreDNS", "http://"+dnsReadyAddress+"/ready", children)
}

// populateReal creates the objects of a cluster with a real node, whose Node kubelet creates.
func populateReal(ctx context.Context, client kubernetes.Interface) error {
	// The API server calls kubelet for logs, exec and port-forward.
	if err := bind(ctx, client, kubeletClient, "system:kubelet-api-admin"); err != nil {
		return err
	}
	err := allow(ctx, client, dnsUser,
		rule("", []string{"services", "namespaces"}, "list", "watch"),
		rule("discovery.k8s.io", []string{"endpointslices"}, "list", "watch"),
	)
	if err != nil {
		return err
	}
	err = allow(ctx, client, volumesUser,
		rule("", []string{"persistentvolumes"}, "get", "list", "watch", "create", "patch", "update", "delete"),
		rule("", []string{"persistentvolumeclaims"}, "get", "list", "watch", "update"),
		rule("", []string{"events"}, "create", "patch", "update"),
		rule(storagev1.GroupName, []string{"storageclasses"}, "get", "list", "watch"),
	)
	if err != nil {
		return err
	}
	policy, mode := corev1.PersistentVolumeReclaimDelete, storagev1.VolumeBindingWaitForFirstConsumer
	return createClass(ctx, client, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: localClass}, Provisioner: localProvisioner, ReclaimPolicy: &policy, VolumeBindingMode: &mode,
	})
}
