package localcluster

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
)

// Nodes selects what runs the Pods of a cluster.
type Nodes string

const (
	// SimulatedNode is one node of kwok, which runs no containers. It is the default.
	SimulatedNode Nodes = "simulated"
	// RealNode is one node with kubelet and containerd. It needs Linux, root, and containerd, runc,
	// CNI plugins and iptables on this machine.
	RealNode Nodes = "real"
)

// Options configures [Start]. The zero value selects the defaults.
type Options struct {
	// APIPort is the port of 127.0.0.1 that the API server listens on: 0 (the default) for any
	// free port, or 1 to 65535.
	APIPort int

	// Nodes selects what runs the Pods. Empty means SimulatedNode.
	Nodes Nodes

	// Data is a directory that [Cluster.StopAndKeep] or [Cluster.Snapshot] wrote. The cluster
	// starts with a copy of it instead of empty data. The directory is not changed.
	Data string

	// APIOnly runs etcd and the API server, and nothing else: no Pod runs, nothing is collected as
	// garbage, and namespaces get no service account.
	APIOnly bool

	// Kubernetes is the minor version of the control plane, such as "1.35". The default is the
	// environment variable BELLEROPHON_KUBERNETES, and then the version in tools/controlplane/go.mod. Each other
	// version has a module file beside it, such as kubernetes-1.35.mod, and is built once.
	Kubernetes string

	// AuditLog is a file to which the API server writes the requests of AuditUsers, or empty (the
	// default) for none. Each line is an audit event as JSON. The file outlives the cluster, and is
	// complete once Stop has returned.
	AuditLog string

	// AuditUsers are the names of the users in AuditLog, such as
	// "system:serviceaccount:default:operator".
	AuditUsers []string

	// AuditContent adds the objects of requests and answers, without their managed fields, to
	// AuditLog. The default has no content of objects.
	AuditContent bool

	// AdmissionPlugins are enabled in addition to the API server's default ones.
	AdmissionPlugins []string

	// Controllers are the controllers of kube-controller-manager that run, such as
	// "statefulset-controller". The default is its own default, which is nearly all.
	Controllers []string

	// FeatureGates are enabled in the API server, such as "ShardedListAndWatch".
	FeatureGates []string

	// CacheDir holds the built binaries and a directory for each running cluster. The default is
	// "bellerophon" in os.UserCacheDir.
	CacheDir string

	// Progress is called with the current step of Start, from one goroutine at a time. A first
	// start builds the control plane, which takes minutes, so show the progress to the user.
	Progress func(Progress)

	// Logger receives detailed messages. The default logs nothing.
	Logger *slog.Logger
}

// Progress is one step of [Start].
type Progress struct {
	Phase  string // the current step, for example "compiling kwok"
	Detail string // the current item of the step, for example a package; may be empty
	Done   int    // the number of items done, of Total
	Total  int    // 0 if unknown
}

// complete validates the options and fills in defaults.
func (o Options) complete() (Options, error) {
	if o.APIPort < 0 || o.APIPort > 65535 {
		return o, fmt.Errorf("localcluster: APIPort is %d; it must be 0 (any free port) or 1 to 65535", o.APIPort)
	}
	switch {
	case o.Nodes == "":
		o.Nodes = SimulatedNode
	case o.Nodes != SimulatedNode && o.Nodes != RealNode:
		return o, fmt.Errorf("localcluster: Nodes is %q; it must be %s or %s", o.Nodes, SimulatedNode, RealNode)
	case o.Nodes == RealNode && o.Data != "":
		return o, fmt.Errorf("localcluster: Nodes is %s and Data is %q; data have the Pods of another node", RealNode, o.Data)
	case o.Nodes == RealNode && o.APIOnly:
		return o, fmt.Errorf("localcluster: Nodes is %s and APIOnly is set, which runs no Pods; leave out one of them", RealNode)
	}
	if (o.AuditLog == "") != (len(o.AuditUsers) == 0) {
		return o, fmt.Errorf("localcluster: AuditLog is %q and AuditUsers is %q; set both, or none", o.AuditLog, o.AuditUsers)
	}
	if o.AuditLog != "" {
		var err error
		if o.AuditLog, err = filepath.Abs(o.AuditLog); err != nil {
			return o, fmt.Errorf("localcluster: resolve AuditLog %q: %w", o.AuditLog, err)
		}
	}
	if o.CacheDir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return o, fmt.Errorf("localcluster: find the cache directory: %w; set XDG_CACHE_HOME to a directory that you can write", err)
		}
		o.CacheDir = filepath.Join(cache, "bellerophon")
	}
	var err error
	if o.CacheDir, err = filepath.Abs(o.CacheDir); err != nil {
		return o, fmt.Errorf("localcluster: resolve CacheDir %q: %w", o.CacheDir, err)
	}
	if o.Kubernetes == "" {
		o.Kubernetes = os.Getenv("BELLEROPHON_KUBERNETES")
	}
	if o.Progress == nil {
		o.Progress = func(Progress) {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}
