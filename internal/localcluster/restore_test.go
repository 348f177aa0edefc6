package localcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestAPausedAPIServerAnswersWhenItContinues(t *testing.T) {
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	client := clientOf(t, c)
	get := func(patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := client.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		return err
	}
	if err := errors.Join(get(time.Minute), c.Pause("kube-apiserver")); err != nil {
		t.Fatal(err)
	}
	if running := runningThreads(t, c.children.find("kube-apiserver").command.Process.Pid); len(running) > 0 {
		t.Errorf("threads that run when Pause has returned: %v", running)
	}
	if err := get(300 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while it is paused: %v", err)
	}
	if err := errors.Join(c.Continue("kube-apiserver"), c.Continue("kube-apiserver"), get(time.Minute)); err != nil {
		t.Errorf("when it continues: %v", err)
	}
	if err := c.Pause("kubelet"); err == nil || !strings.Contains(err.Error(), "pause kubelet: the cluster has no such component") {
		t.Errorf("pausing a component that is not there: %v", err)
	}
	if err := errors.Join(c.Pause("kube-scheduler"), c.Pause("etcd")); err != nil {
		t.Fatal(err)
	}
	began, pids := time.Now(), pidsOf(c)
	if err := c.Stop(); err != nil {
		t.Errorf("Stop() = %v", err)
	}
	if took := time.Since(began); took > 2*stopGrace {
		t.Errorf("Stop took %v with components that were paused", took)
	}
	for _, pid := range pids {
		if !isGone(pid) {
			t.Errorf("process %d outlives Stop", pid)
		}
	}
}

// runningThreads returns the states of the threads of a process that are not stopped. It finds
// none on systems without /proc.
func runningThreads(t *testing.T, pid int) (running []string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, state, _ := strings.Cut(string(stat), ") ") // After the name of the program.
		if !strings.HasPrefix(state, "T") {
			running = append(running, file+": "+state[:1])
		}
	}
	return running
}

// stateOf returns the names of the namespaces that a test created, and the resource version of
// the list.
func stateOf(t *testing.T, client kubernetes.Interface) (names string, version uint64) {
	t.Helper()
	list, err := client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{LabelSelector: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list.Items {
		names += one.Name + " "
	}
	version, err = strconv.ParseUint(list.ResourceVersion, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return names, version
}

func TestARestoredClusterHasTheStateOfItsSnapshotAndLowerVersions(t *testing.T) {
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Errorf("Stop() = %v", err)
		}
	}()
	client := clientOf(t, c)
	create := func(name string) {
		t.Helper()
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "yes"}}}
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	create("before")
	taken := filepath.Join(t.TempDir(), "snapshot")
	if err := c.Snapshot(taken); err != nil {
		t.Fatal(err)
	}
	create("after")      // The cluster keeps running.
	for i := range 100 { // More writes than the components make when they start.
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "x" + strconv.Itoa(i)}}
		if _, err := client.CoreV1().ConfigMaps("after").Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	_, before := stateOf(t, client)
	address, pid := c.AdminConfig().Host, c.PID("kube-apiserver")

	began := time.Now()
	if err := c.Restore(t.Context(), taken); err != nil {
		t.Fatal(err)
	}
	t.Logf("restored after %v", time.Since(began))
	client = clientOf(t, c)
	if names, version := stateOf(t, client); names != "before " || version >= before {
		t.Errorf("it has %q at version %d, want the one namespace at a version below %d", names, version, before)
	}
	err = client.CoreV1().RESTClient().Get().Resource("namespaces").Param("resourceVersion", strconv.FormatUint(before, 10)).
		MaxRetries(0).Do(t.Context()).Error()
	if !apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) {
		t.Errorf("a list at a version from before the restore: %v", err)
	}
	if again := c.PID("kube-apiserver"); c.AdminConfig().Host != address || again == pid || again == 0 || len(pidsOf(c)) != 5 {
		t.Errorf("the API server is process %d (was %d) at %s (was %s), and %d processes run", again, pid, c.AdminConfig().Host, address, len(pidsOf(c)))
	}
	create("later") // The API server and the controllers work: a namespace gets its service account.
	watcher, err := client.CoreV1().ServiceAccounts("later").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=default"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Stop()
	select {
	case <-watcher.ResultChan():
	case <-time.After(time.Minute):
		t.Error("the controllers do not work")
	}
	if err := c.Err(); err != nil {
		t.Errorf("Err() = %v", err)
	}
}

// A watch from a version above the restored server's version is accepted and stays silent. It
// gets no events, and no bookmark shows that the server's version is lower.
func TestAWatchOfARestoredClusterDoesNotShowThatVersionsAreLower(t *testing.T) {
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Errorf("Stop() = %v", err)
		}
	}()
	client := clientOf(t, c)
	_, now := stateOf(t, client)
	timeout := int64(5) // A bookmark is due 2 s before the watch ends.
	open := func(version uint64) (types []string) {
		opened, err := client.CoreV1().Namespaces().Watch(t.Context(), metav1.ListOptions{
			ResourceVersion: strconv.FormatUint(version, 10), AllowWatchBookmarks: true, TimeoutSeconds: &timeout,
		})
		if err != nil {
			t.Fatal(err)
		}
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"}}
		if _, err := client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for event := range opened.ResultChan() {
			types = append(types, string(event.Type))
		}
		return types
	}
	if got := open(now); len(got) < 2 || got[0] != "ADDED" || got[len(got)-1] != "BOOKMARK" {
		t.Errorf("a watch from the current version received %q", got)
	}
	if got := open(now + 1_000_000); len(got) != 0 {
		t.Errorf("a watch from a future version received %q", got)
	}
}

func TestARestoreOfNothingLeavesTheClusterAlone(t *testing.T) {
	c, err := Start(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Restore(t.Context(), filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("a snapshot that is not there was restored")
	}
	if err := c.Err(); err != nil || len(pidsOf(c)) != 5 {
		t.Errorf("it left %d processes, and %v", len(pidsOf(c)), err)
	}
	if err := c.Stop(); err != nil {
		t.Errorf("Stop() = %v", err)
	}
	if err := c.Restore(t.Context(), t.TempDir()); err == nil {
		t.Error("a cluster that was stopped was restored")
	}
}

func TestARestartedAPIServerHasItsDataAndIsAnotherProcess(t *testing.T) {
	c, err := Start(t.Context(), Options{APIOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Stop(); err != nil {
			t.Errorf("Stop() = %v", err)
		}
	}()
	client := clientOf(t, c)
	made := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "before", Labels: map[string]string{"test": ""}}}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	before := c.PID("kube-apiserver")
	if err := c.Restart(t.Context(), "kube-apiserver"); err != nil {
		t.Fatal(err)
	}
	if after := c.PID("kube-apiserver"); after == before || !isGone(before) || isGone(after) {
		t.Errorf("the API server was process %d and is process %d", before, after)
	}
	if names, _ := stateOf(t, client); names != "before " {
		t.Errorf("after the restart there are the namespaces %q", names)
	}
	if err := c.Err(); err != nil {
		t.Errorf("the cluster failed: %v", err)
	}
	if members := c.children.all(); members[0].name != "etcd" || members[1].name != "kube-apiserver" || len(members) != 2 {
		t.Errorf("the components stop in another order: %v", members)
	}
	if err := c.Restart(t.Context(), "kubelet"); err == nil || !strings.Contains(err.Error(), "restart kubelet: the cluster has no such component") {
		t.Errorf("restarting a component that is not there: %v", err)
	}
}
