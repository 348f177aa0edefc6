package localcluster

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// hostState returns what a real node may not change: mounts, links, and settings of the kernel.
func hostState(t *testing.T) map[string]string {
	t.Helper()
	state := map[string]string{}
	for _, file := range []string{
		"/proc/self/mountinfo", "/proc/net/dev_mcast", "/proc/net/route", "/proc/net/ip_tables_names", "/proc/net/netfilter/nf_tables",
		"/proc/sys/vm/overcommit_memory", "/proc/sys/vm/panic_on_oom", "/proc/sys/kernel/panic", "/proc/sys/kernel/panic_on_oops",
		"/proc/sys/kernel/keys/root_maxkeys", "/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/netfilter/nf_conntrack_max",
	} {
		content, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
		state[file] = string(content)
	}
	links, err := filepath.Glob("/sys/class/net/*")
	if err != nil {
		t.Fatal(err)
	}
	state["links"] = strings.Join(links, " ")
	return state
}

// realChildren is how many processes of a cluster with a real node are children of this one.
const realChildren = 10

func TestRealNodesRunSideBySideAndChangeNothingOfTheHost(t *testing.T) {
	before := hostState(t)
	var clusters [2]*Cluster
	for i := range clusters {
		var err error
		if clusters[i], err = Start(t.Context(), Options{Nodes: RealNode}); errors.Is(err, ErrNoRealNode) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range clusters {
		t.Logf("the API server was ready after %v", c.APIReadyAfter())
		if pids := pidsOf(c); len(pids) != realChildren {
			t.Errorf("the cluster has %d processes, want %d", len(pids), realChildren)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		watcher, err := clientOf(t, c).CoreV1().Nodes().Watch(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		event := <-watcher.ResultChan() // kubelet registers the node.
		watcher.Stop()
		if event.Object == nil {
			t.Error("there is no node after a minute")
		}
	}
	for name, content := range hostState(t) {
		if content != before[name] {
			t.Errorf("%s was\n%s\nand with two nodes it is\n%s", name, before[name], content)
		}
	}
	for _, c := range clusters {
		pids, directory := pidsOf(c), c.directory.path
		groups := groupsOf(t, directory)
		if len(groups) == 0 {
			t.Error("the cluster has no control groups")
		}
		if err := c.Stop(); err != nil {
			t.Errorf("Stop() = %v", err)
		}
		for _, pid := range pids {
			if !isGone(pid) {
				t.Errorf("process %d outlives Stop", pid)
			}
		}
		if left := groupsOf(t, directory); len(left) > 0 {
			t.Errorf("the control groups %q outlive Stop", left)
		}
		if _, err := os.Stat(directory); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory outlives Stop: %v", err)
		}
	}
}

// groupsOf returns the control groups of a cluster.
func groupsOf(t *testing.T, directory string) (groups []string) {
	t.Helper()
	for _, root := range cgroupRoots() {
		if group := filepath.Join(root, cgroupOf(directory)); isUsable(group) {
			groups = append(groups, group)
		}
	}
	return groups
}

func TestAKilledParentTakesItsRealNodeAlongAndTheNextStartSweeps(t *testing.T) {
	cache := sharedCache(t)
	if _, err := findHost(cache); err != nil { // It is ErrNoRealNode, with what the machine lacks.
		t.Skip(err)
	}
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), ParentVariable+"="+string(RealNode))
	parent.Stderr = os.Stderr
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	said, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("reading what the parent says: %v", err)
	}
	directory, pids, _ := strings.Cut(strings.TrimSpace(said), " ")
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // It was killed.
	for _, pid := range strings.Fields(pids) {
		waitGone(t, "a component of a killed parent", pid)
	}
	// A start in another process, such as another package's tests, may have swept meanwhile.
	if _, err := os.Stat(directory); err == nil && len(groupsOf(t, directory)) == 0 {
		t.Error("there is nothing to sweep")
	}
	c, err := Start(t.Context(), Options{APIOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(directory); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", directory, err)
	}
	if left := groupsOf(t, directory); len(left) > 0 {
		t.Errorf("the control groups %q are still there", left)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("Stop() = %v", err)
	}
}

func TestARealNodeThatCannotRunNamesTheReasonAndTheWayOut(t *testing.T) {
	if os.Geteuid() != 0 {
		_, err := findHost(t.TempDir())
		if !errors.Is(err, ErrNoRealNode) || !strings.Contains(err.Error(), "it needs root, and this is user "+strconv.Itoa(os.Geteuid())) {
			t.Errorf("without root: %v", err)
		}
		return
	}
	if _, err := findHost("/var/lib/cache"); !errors.Is(err, ErrNoRealNode) || !strings.Contains(err.Error(), "/var/lib, which the node hides") {
		t.Errorf("with a hidden cache directory: %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	systemBefore, pluginsBefore := systemDirectories, pluginDirectories
	systemDirectories, pluginDirectories = nil, nil
	defer func() { systemDirectories, pluginDirectories = systemBefore, pluginsBefore }()
	_, err := findHost(t.TempDir())
	for _, want := range []string{"there is no containerd", "no runc", "no the CNI plugins ptp", "apt-get install"} {
		if !errors.Is(err, ErrNoRealNode) || !strings.Contains(err.Error(), want) {
			t.Errorf("without the programs: %v, want %q", err, want)
		}
	}
}

func TestOptionsThatARealNodeExcludesAreRefused(t *testing.T) {
	for want, options := range map[string]Options{
		`Nodes is "fake"; it must be simulated or real`: {Nodes: "fake"},
		`Nodes is real and Data is "/data"`:             {Nodes: RealNode, Data: "/data"},
		`Nodes is real and APIOnly is set`:              {Nodes: RealNode, APIOnly: true},
	} {
		if _, err := options.complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("complete() = %v, want %q", err, want)
		}
	}
}

func TestARealNodeNeedsNoKwokAndASimulatedOneNoKubelet(t *testing.T) {
	realNeeds, simulated := neededPrograms(Options{Nodes: RealNode}), neededPrograms(Options{Nodes: SimulatedNode})
	if slices.Contains(realNeeds, kwokName) || !slices.Contains(realNeeds, "kubelet") || !slices.Contains(entriesOf(realNeeds), nodeServicesName) {
		t.Errorf("a real node needs %q", realNeeds)
	}
	if slices.Contains(simulated, "kubelet") || slices.Contains(entriesOf(simulated), nodeServicesName) {
		t.Errorf("a simulated node needs %q", simulated)
	}
}
