//go:build unix

package election_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/internal/goals"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
)

var (
	rounds  = flag.Int("failovers", 4, "kills, freezes and stops of the leader on the real API server")
	longest = flag.Duration("freeze", 5*time.Second, "the longest SIGSTOP of a leader, 1s and above")
	journal = flag.String("journal", "", "file with what earlier slices measured, so that a run goes on where the last one ended")
	slice   = flag.Duration("slice", 0, "time after which no further round starts; 0 is never")
)

// failovers are what all slices of a run measured.
type failovers struct {
	Kills, Freezes, Stops int
	Crashed, Stopped      time.Duration // the longest failovers after kills and freezes, and after clean ends
	Writes, Deposed       int           // all writes, and the writes of replicas that the Lease did not name
}

func (f failovers) rounds() int { return f.Kills + f.Freezes + f.Stops }

const (
	processes    = 3
	processLease = 3 * time.Second
)

// version is a version of an object, in the history of the API server.
type version struct {
	revision uint64
	by       string // the writer of a ConfigMap, or empty
	holder   string // of the Lease: the identity of an epoch
	isLease  bool
	came     time.Time // when the watch delivered it
}

// revisionOf returns the revision of an object's version. A version of an API server is a revision of its storage.
func revisionOf(version string) (uint64, error) { return strconv.ParseUint(version, 10, 64) }

// stage is the processes of an operator on a real API server. It has the history of what they write, by watches and by
// the audit log.
type stage struct {
	t         *testing.T
	cluster   *localcluster.Cluster
	log       *auditLog
	client    kubernetes.Interface
	namespace string
	settings  string
	running   map[int]*exec.Cmd
	inputs    map[int]io.Closer
	watching  *lifecycle.Group
	mu        sync.Mutex
	history   []version
	changed   chan struct{} // closed at each change of history
}

func newStage(t *testing.T) *stage {
	cluster, log := newAuditedCluster(t)
	client, err := kubernetes.NewForConfig(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{
		t: t, cluster: cluster, log: log, client: client, namespace: metav1.NamespaceDefault, running: map[int]*exec.Cmd{}, inputs: map[int]io.Closer{},
		watching: lifecycle.New(t.Context()), changed: make(chan struct{}),
	}
	settings, err := json.Marshal(replicaSettings{
		Kubeconfig: cluster.Kubeconfig(), Namespace: s.namespace, Every: 20 * time.Millisecond,
		Election: controller.LeaderElection{
			Lease: s.namespace + "/operator", LeaseDuration: processLease, RenewDeadline: 2 * time.Second, RetryPeriod: 250 * time.Millisecond,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.settings = string(settings)
	for i := range 4 {
		made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("object-", i), Labels: map[string]string{"written": "yes"}}}
		if _, err := client.CoreV1().ConfigMaps(s.namespace).Create(t.Context(), made, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := client.CoreV1().ConfigMaps(s.namespace).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// An API server ends watches that are too slow for it, as on a busy machine. Each goes on where it ended.
	for _, open := range []cache.WatchFuncWithContext{
		func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			options.LabelSelector = "written=yes"
			return client.CoreV1().ConfigMaps(s.namespace).Watch(ctx, options)
		},
		func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.CoordinationV1().Leases(s.namespace).Watch(ctx, options)
		},
	} {
		s.watching.Go("watch", func(ctx context.Context) error {
			resumed, err := toolswatch.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{WatchFuncWithContext: open})
			if err != nil {
				return err
			}
			for event := range resumed.ResultChan() {
				s.note(event)
			}
			if ctx.Err() == nil {
				return fmt.Errorf("the watch has ended, and the history has a gap")
			}
			return nil
		})
	}
	t.Cleanup(s.end)
	return s
}

// note adds an event to the history.
func (s *stage) note(event watch.Event) {
	made := version{came: time.Now()}
	switch object := event.Object.(type) {
	case *corev1.ConfigMap:
		made.by = object.Annotations["by"]
		made.revision, _ = revisionOf(object.ResourceVersion)
	case *coordinationv1.Lease:
		made.isLease = true
		if object.Spec.HolderIdentity != nil {
			made.holder = *object.Spec.HolderIdentity
		}
		made.revision, _ = revisionOf(object.ResourceVersion)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = append(s.history, made)
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits for a version for which match returns true, and returns it. It looks at the history from a
// position on.
func (s *stage) await(what string, from int, match func(version) bool) version {
	s.t.Helper()
	limit := time.NewTimer(30 * time.Second)
	defer limit.Stop()
	for {
		s.mu.Lock()
		seen, changed := s.history[from:], s.changed
		s.mu.Unlock()
		if at := slices.IndexFunc(seen, match); at >= 0 {
			return seen[at]
		}
		from += len(seen)
		select {
		case <-changed:
		case <-limit.C:
			s.t.Fatalf("%s: it has not happened within 30 s", what)
		}
	}
}

func (s *stage) position() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.history)
}

// start starts a replica.
func (s *stage) start() {
	s.t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), replicaVariable+"="+s.settings)
	command.Stderr = os.Stderr
	if !testing.Verbose() {
		command.Stderr = nil
	}
	input, err := command.StdinPipe()
	if err == nil {
		err = command.Start()
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.running[command.Process.Pid], s.inputs[command.Process.Pid] = command, input
}

// kill ends a replica with kill -9.
func (s *stage) kill(pid int) {
	s.t.Helper()
	_ = s.running[pid].Process.Kill()
	_ = s.running[pid].Wait() // The error is the signal.
	_ = s.inputs[pid].Close()
	delete(s.running, pid)
	delete(s.inputs, pid)
}

// end ends all replicas.
func (s *stage) end() {
	for pid := range s.running {
		s.kill(pid)
	}
	s.watching.Stop()
	if err := s.watching.Wait(); err != nil {
		s.t.Error(err)
	}
}

// leader returns the process that leads, once it writes.
func (s *stage) leader() int {
	s.t.Helper()
	for {
		from := s.position()
		wrote := s.await("a replica writes", from, func(v version) bool { return v.by != "" })
		for pid := range s.running {
			if identityOf(pid) == wrote.by {
				return pid
			}
		}
	}
}

// violations returns the writes of replicas that the Lease did not name at their revision, by the audit log. missing
// is the number of versions that the watches have and the log lacks so far. Such versions are judged by their content.
func (s *stage) violations() (found []string, writes, missing int) {
	s.t.Helper()
	if err := s.log.read(); err != nil {
		s.t.Fatal(err)
	}
	commits, senders := slices.Clone(s.log.commits), map[uint64]string{}
	for _, each := range commits {
		senders[each.revision] = each.by
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, each := range s.history {
		sender, logged := senders[each.revision]
		switch {
		case !each.isLease && each.by == "": // The test has made it.
		case !logged:
			missing++
			commits = append(commits, commit{each.revision, each.by, "by its content", each.isLease, each.holder})
		case !each.isLease && sender != each.by:
			s.t.Errorf("revision %d was sent by %s, and its content is of %s", each.revision, sender, each.by)
		}
	}
	found, writes = deposed(commits)
	return found, writes, missing
}

// added returns what was measured with the writes of this slice.
func (s *stage) added(to failovers) failovers {
	found, writes, _ := s.violations()
	to.Deposed, to.Writes = to.Deposed+len(found), to.Writes+writes
	return to
}

// TestTheProcessThatLeadsIsKilledFrozenAndStopped kills the leader with kill -9, freezes it with SIGSTOP, and stops
// it with SIGTERM. All replicas write to the same objects without a condition.
func TestTheProcessThatLeadsIsKilledFrozenAndStopped(t *testing.T) {
	if *longest < time.Second {
		t.Fatalf("-freeze is %v; allowed is 1s and above", *longest)
	}
	var all failovers
	if err := goals.Load(*journal, &all); err != nil {
		t.Fatal(err)
	}
	s := newStage(t)
	for range processes {
		s.start()
	}
	for began := time.Now(); all.rounds() < *rounds && (*slice == 0 || time.Since(began) < *slice); {
		leader := s.leader()
		<-time.After(time.Duration(rand.Int64N(int64(time.Second))))
		from, begun := s.position(), time.Now()
		failover := func() time.Duration {
			next := s.await("another replica writes", from, func(v version) bool { return v.by != "" && v.by != identityOf(leader) })
			return next.came.Sub(begun)
		}
		switch all.rounds() % 3 {
		case 0:
			all.Kills++
			s.kill(leader)
			all.Crashed = max(all.Crashed, failover())
			s.start()
		case 1:
			all.Freezes++
			frozen := time.Duration(float64(time.Second) * math.Pow(longest.Seconds(), rand.Float64()))
			if *longest < 2*processLease {
				frozen = *longest // Each one is a failover.
			}
			s.signal(leader, syscall.SIGSTOP)
			if frozen > processLease+time.Second {
				all.Crashed = max(all.Crashed, failover())
			}
			<-time.After(time.Until(begun.Add(frozen)))
			s.signal(leader, syscall.SIGCONT)
			s.leader()
			<-time.After(500 * time.Millisecond) // What the old leader may still send arrives within this time.
			s.signal(leader, syscall.Signal(0))  // It is alive, and stands by.
		case 2:
			all.Stops++
			s.signal(leader, syscall.SIGTERM)
			all.Stopped = max(all.Stopped, failover())
			if err := s.running[leader].Wait(); err != nil {
				t.Errorf("the leader ended with %v", err)
			}
			s.kill(leader)
			s.start()
		}
		if err := goals.Save(*journal, s.added(all)); err != nil {
			t.Fatal(err)
		}
	}
	s.end()
	if err := s.cluster.Stop(); err != nil { // The audit log is complete.
		t.Error(err)
	}
	found, _, missing := s.violations()
	for _, violation := range found {
		t.Error(violation)
	}
	if missing > s.log.unknown {
		t.Errorf("the audit log lacks %d versions, and has %d writes without a known outcome", missing, s.log.unknown)
	}
	t.Logf("the audit log has %d writes without a known outcome, and lacks %d versions", s.log.unknown, missing)
	all = s.added(all)
	if most := processLease + time.Second; all.Crashed > most {
		t.Errorf("a failover took %v, want %v at most", all.Crashed, most)
	}
	if left := *rounds - all.rounds(); left > 0 {
		t.Logf("%d rounds are left for the next slice", left)
	}
	fmt.Print(
		goals.Line(fmt.Sprintf("failover to first write, worst of %d kills and %d freezes", all.Kills, all.Freezes),
			fmt.Sprintf("%.2f s", all.Crashed.Seconds()), fmt.Sprintf("lease of %v + 1 s", processLease), all.Crashed <= processLease+time.Second),
		goals.Line(fmt.Sprintf("failover to first write, worst of %d clean ends", all.Stops),
			fmt.Sprintf("%.2f s", all.Stopped.Seconds()), "1 s", all.Stopped <= time.Second),
		goals.Line("writes of a deposed leader over its successor's, by the audit log", fmt.Sprintf("%d of %d", all.Deposed, all.Writes), "0", all.Deposed == 0 && all.Writes > 0))
}

func (s *stage) signal(pid int, signal syscall.Signal) {
	s.t.Helper()
	if err := s.running[pid].Process.Signal(signal); err != nil {
		s.t.Fatalf("sending %v to the leader: %v", signal, err)
	}
}
