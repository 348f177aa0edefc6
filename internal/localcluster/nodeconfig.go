package localcluster

import "fmt"

// This file holds the configuration of a real node's programs. Their paths below /run, /var/lib and
// /var/log are the node's own: see node/init.sh.

const (
	containerdSocket = "/run/containerd/containerd.sock"
	clusterDomain    = "cluster.local"
)

// containerdConfig returns a configuration that versions 1.6 to 2 read.
func containerdConfig(d *directory, h host) []byte {
	return fmt.Appendf(nil, `version = 2
root = "/var/lib/containerd"
state = "/run/containerd"

[grpc]
  address = %q

[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  disable_apparmor = true
  # Within a container, this process may not lower the score.
  restrict_oom_score_adj = true
  stream_server_address = "127.0.0.1"

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = %q

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
`, containerdSocket, pauseImage, h.plugins, d.file("node", "cni"))
}

// cniConfig gives each Pod an address and a link of its own. All its traffic is routed, so that it
// passes the rules of kube-proxy without a bridge.
func cniConfig() []byte {
	return encodeJSON(map[string]any{
		"cniVersion": "0.4.0",
		"name":       "bellerophon",
		"plugins": []any{
			map[string]any{"type": "ptp", "ipam": map[string]any{
				"type":    "host-local",
				"dataDir": "/run/cni",
				"ranges":  []any{[]any{map[string]any{"subnet": podRange}}},
				"routes":  []any{map[string]any{"dst": "0.0.0.0/0"}},
			}},
			map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}},
		},
	})
}

func kubeletConfig(d *directory) []byte {
	return encodeJSON(map[string]any{ // JSON is YAML.
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": d.file("ca.crt")},
		},
		"authorization":            map[string]any{"mode": "Webhook"},
		"tlsCertFile":              d.file("kubelet.crt"),
		"tlsPrivateKeyFile":        d.file("kubelet.key"),
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               "/" + cgroupOf(d.path),
		"failCgroupV1":             false,
		"failSwapOn":               false,
		"clusterDomain":            clusterDomain,
		"clusterDNS":               []string{nodeAddress},
		"resolvConf":               d.file("node", "resolv.conf"),
		"volumePluginDir":          d.file("node", "plugins"),
		"healthzPort":              0,
		"oomScoreAdj":              0,
		// The disk is shared with the user's other files. The node neither evicts Pods for them nor removes images.
		"imageGCHighThresholdPercent": 100,
		"evictionHard":                map[string]string{"nodefs.available": "0%", "nodefs.inodesFree": "0%", "imagefs.available": "0%"},
	})
}

func kubeletArguments(d *directory) []string {
	return []string{
		"--config=" + d.file("node", "kubelet.yaml"),
		"--kubeconfig=" + d.file("kubelet.kubeconfig"),
		"--hostname-override=" + nodeName,
		"--node-ip=" + nodeAddress,
	}
}

// proxyConfig leaves the limits of connection tracking alone, which are the whole machine's.
func proxyConfig(d *directory) []byte {
	return encodeJSON(map[string]any{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"clientConnection":   map[string]any{"kubeconfig": d.file("kube-proxy.kubeconfig")},
		"hostnameOverride":   nodeName,
		"mode":               "iptables",
		"clusterCIDR":        podRange,
		"healthzBindAddress": "127.0.0.1:10256",
		"oomScoreAdj":        0,
		"conntrack": map[string]any{
			"maxPerCore":            0,
			"min":                   0,
			"tcpEstablishedTimeout": "0s",
			"tcpCloseWaitTimeout":   "0s",
		},
	})
}

// corefile serves the names of Services. Other names do not exist: the node has no way out.
func corefile(d *directory) []byte {
	return fmt.Appendf(nil, `.:53 {
	bind %s
	errors
	ready %s
	kubernetes %s in-addr.arpa ip6.arpa {
		kubeconfig %s
	}
}
`, nodeAddress, dnsReadyAddress, clusterDomain, d.file("coredns.kubeconfig"))
}
