package localcluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// ErrNoRealNode is the cause when [Start] cannot run a real node on this machine. The error that
// wraps it says why.
var ErrNoRealNode = errors.New("no real node can run on this machine")

// host holds the programs of this machine that a real node runs.
type host struct {
	path       string // for PATH
	containerd string
	ctr        string // containerd's client
	plugins    string // the directory of the CNI plugins
}

var (
	// nodePrograms lists the programs of this machine that a real node needs.
	nodePrograms = []string{"containerd", "ctr", "containerd-shim-runc-v2", "runc", "iptables", "ip", "mount"}
	// nodePlugins lists the CNI plugins that it needs.
	nodePlugins = []string{"ptp", "host-local", "portmap", "loopback"}
	// pluginDirectories lists where distributions have the CNI plugins.
	pluginDirectories = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}
	// systemDirectories lists where distributions have programs of the administrator, which PATH may lack.
	systemDirectories = []string{"/usr/local/sbin", "/usr/sbin", "/sbin"}
	// hiddenDirectories lists what the node's own files hide from it.
	hiddenDirectories = []string{"/run", "/var/run", "/var/lib", "/var/log"}
)

// probe does in new namespaces what the node needs the kernel for.
const probe = `set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
ip link set lo up
ip link add probe0 type veth peer name probe1
iptables -t nat -A POSTROUTING -m comment --comment probe -j MASQUERADE
iptables -A FORWARD -m conntrack --ctstate INVALID -j DROP`

// findHost returns the programs of this machine, or an error that wraps ErrNoRealNode. It tries what
// may be refused, and leaves nothing.
func findHost(cacheDir string) (host, error) {
	h, err := newHost(cacheDir)
	if err != nil {
		return host{}, fmt.Errorf("%w: %w", ErrNoRealNode, err)
	}
	return h, nil
}

func newHost(cacheDir string) (host, error) {
	if runtime.GOOS != "linux" {
		return host{}, fmt.Errorf("it needs Linux, and this is %s", runtime.GOOS)
	}
	if os.Geteuid() != 0 {
		return host{}, fmt.Errorf("it needs root, and this is user %d", os.Geteuid())
	}
	for _, hidden := range hiddenDirectories {
		if strings.HasPrefix(cacheDir+"/", hidden+"/") {
			return host{}, fmt.Errorf("the cache directory %s is in %s, which the node hides; set XDG_CACHE_HOME to another directory", cacheDir, hidden)
		}
	}
	h := host{path: strings.Join(append(filepath.SplitList(os.Getenv("PATH")), systemDirectories...), string(os.PathListSeparator))}
	if err := h.find(); err != nil {
		return host{}, err
	}
	if err := tryCgroups(); err != nil {
		return host{}, err
	}
	if err := probeNamespaces(probe, h.path); err != nil {
		return host{}, fmt.Errorf("the kernel refuses what it needs in namespaces: %w", err)
	}
	return h, nil
}

// find finds the programs and the plugins.
func (h *host) find() error {
	var missing []string
	for _, name := range nodePrograms {
		path := h.lookUp(name)
		switch {
		case path == "":
			missing = append(missing, name)
		case name == "containerd":
			h.containerd = path
		case name == "ctr":
			h.ctr = path
		}
	}
	found := slices.IndexFunc(pluginDirectories, func(directory string) bool {
		return !slices.ContainsFunc(nodePlugins, func(name string) bool { return !isUsable(filepath.Join(directory, name)) })
	})
	if found < 0 {
		missing = append(missing, "the CNI plugins "+strings.Join(nodePlugins, ", "))
	} else {
		h.plugins = pluginDirectories[found]
	}
	if len(missing) > 0 {
		return fmt.Errorf("there is no %s; on Debian and Ubuntu: apt-get install containerd runc containernetworking-plugins iptables iproute2", strings.Join(missing, ", no "))
	}
	return nil
}

// lookUp returns the path of a program, or an empty string.
func (h *host) lookUp(name string) string {
	for _, directory := range filepath.SplitList(h.path) {
		path := filepath.Join(directory, name)
		if info, err := os.Stat(path); err == nil && !info.IsDir() && info.Mode().Perm()&0o111 != 0 && filepath.IsAbs(path) {
			return path
		}
	}
	return ""
}

// tryCgroups creates and removes a control group.
func tryCgroups() error {
	if len(cgroupRoots()) == 0 {
		return fmt.Errorf("there are no control groups in %s", cgroupMount)
	}
	name := fmt.Sprintf("bellerophon-probe-%d", os.Getpid())
	return errors.Join(makeCgroups(name), removeCgroups(name))
}
