package controller_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/shards"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// replicaVariable has the configuration of a replica that runs in a process of its own.
const replicaVariable = "BELLEROPHON_TEST_REPLICA"

// replicaConfig is what such a replica needs.
type replicaConfig struct {
	Host        string
	TLS         rest.TLSClientConfig
	Namespace   string
	Workers     int
	Lease       time.Duration
	ByNamespace bool
}

// outside is how long a reconcile waits for something outside.
const outside = 100 * time.Millisecond

// runReplica is the main function of the process of a replica. It prints a line at the beginning and at the
// end of each reconcile of a hot object, and reports its memory once a second.
func runReplica(encoded string) error {
	var of replicaConfig
	if err := json.Unmarshal([]byte(encoded), &of); err != nil {
		return err
	}
	var writing sync.Mutex
	say := func(format string, details ...any) {
		writing.Lock()
		defer writing.Unlock()
		fmt.Printf(format+"\n", details...)
	}
	options := controller.Options{
		Workers: of.Workers, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
		Shards: &shards.Options{Group: "replicas", Namespace: of.Namespace, LeaseDuration: of.Lease, ByNamespace: of.ByNamespace},
	}
	if !of.ByNamespace {
		options.Namespaces = []string{of.Namespace}
	}
	manager, err := controller.NewManager(&rest.Config{Host: of.Host, TLSClientConfig: of.TLS}, scheme.Scheme, options)
	if err != nil {
		return err
	}
	err = manager.Add("configs", func(ctx context.Context, request operators.Request) (time.Duration, error) {
		if !strings.HasPrefix(request.Name, "hot") {
			return 0, nil
		}
		say("begin %s %d", request, time.Now().UnixNano())
		select {
		case <-time.After(outside):
		case <-ctx.Done():
		}
		say("end %s %d", request, time.Now().UnixNano())
		return time.Millisecond, nil
	}, controller.For(&corev1.ConfigMap{}, controller.LabelSelector("shared=yes")))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	group := lifecycle.New(ctx)
	base := liveHeap()
	group.Go("memory", func(ctx context.Context) error {
		if err := manager.Cache().Wait(ctx, cache.Current); err != nil {
			return nil
		}
		for ctx.Err() == nil {
			say("memory %d %d", liveHeap()-base, len(listed[*corev1.ConfigMap](manager.Client())))
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
		return nil
	})
	group.Go("manager", manager.Run)
	if err := group.Wait(); err != nil {
		return err
	}
	stop()
	say("left goroutines %d", leftBehind())
	return nil
}

// leftBehind returns the number of goroutines that run although they should have ended, and writes them to standard
// error. The client may be used after the manager has ended, so its idle connection to the API server stays.
func leftBehind() int {
	err := goleak.Find(
		goleak.IgnoreAnyFunction("github.com/bellerophon-io/bellerophon/controller.(*connection).send"),
		goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"))
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return max(1, strings.Count(err.Error(), " in state "))
}

// liveHeap returns the bytes of the heap that are in use.
func liveHeap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// processes are replicas in processes of their own, whose reconciles are compared.
type processes struct {
	t      *testing.T
	config replicaConfig
	group  *lifecycle.Group

	mu      sync.Mutex
	all     []*process
	inside  map[string]*process
	last    map[string]time.Time // when an object was last reconciled
	ends    int                  // reconciles
	twice   int                  // of an object that another process reconciled
	ended   int                  // replicas that ended in order
	left    int                  // goroutines that they left
	longest time.Duration        // between two reconciles of one object
}

// process is a replica.
type process struct {
	command *exec.Cmd
	exited  chan struct{}
	killed  bool
	memory  int64
	objects int
	left    int // goroutines after its end
}

// start starts a replica.
func (p *processes) start() *process {
	p.t.Helper()
	encoded, err := json.Marshal(p.config)
	if err != nil {
		p.t.Fatal(err)
	}
	made := &process{command: exec.Command(os.Args[0]), exited: make(chan struct{})}
	made.command.Env = append(os.Environ(), replicaVariable+"="+string(encoded))
	made.command.Stderr = &strings.Builder{}
	out, err := made.command.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	if err := made.command.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.all = append(p.all, made)
	p.mu.Unlock()
	p.group.Go("output of a replica", func(context.Context) error {
		defer close(made.exited)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			p.take(made, strings.Fields(lines.Text()))
		}
		_ = made.command.Wait() // It was killed, or says why on standard error.
		p.forget(made)
		return nil
	})
	return made
}

// take takes in a line of a replica.
func (p *processes) take(of *process, words []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(words) != 3 || of.killed {
		return // A line that a kill has cut, or that was in the pipe at the kill.
	}
	number, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return
	}
	switch object := words[1]; words[0] {
	case "begin":
		if other := p.inside[object]; other != nil && other != of {
			p.twice++
		}
		p.inside[object] = of
		if last := p.last[object]; !last.IsZero() {
			p.longest = max(p.longest, time.Unix(0, number).Sub(last))
		}
	case "end":
		if p.inside[object] == of {
			delete(p.inside, object)
		}
		p.last[object] = time.Unix(0, number)
		p.ends++
	case "left":
		of.left = int(number)
		p.ended, p.left = p.ended+1, p.left+of.left
	case "memory":
		of.memory, _ = strconv.ParseInt(object, 10, 64)
		of.objects = int(number)
	}
}

// forget drops the reconciles of a process that has ended.
func (p *processes) forget(of *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for object, by := range p.inside {
		if by == of {
			delete(p.inside, object)
		}
	}
}

// kill kills a replica, as kill -9 does.
func (p *processes) kill(of *process) {
	p.mu.Lock()
	of.killed = true
	p.mu.Unlock()
	_ = of.command.Process.Kill()
	<-of.exited
}

// stop ends all replicas in order, and reports the output of replicas that failed. It may be called again.
func (p *processes) stop() {
	for _, each := range p.all {
		_ = each.command.Process.Signal(syscall.SIGTERM)
	}
	for _, each := range p.all {
		<-each.exited
		if state := each.command.ProcessState; !each.killed && !state.Success() {
			p.t.Errorf("a replica ended with %v: %v", state, each.command.Stderr)
		} else if each.left > 0 {
			p.t.Errorf("a replica left goroutines: %v", each.command.Stderr)
		}
	}
	if err := p.group.Wait(); err != nil {
		p.t.Error(err)
	}
}

// rate returns the reconciles a second within a time.
func (p *processes) rate(within time.Duration) float64 {
	count := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.ends
	}
	before := count()
	<-time.After(within)
	return float64(count()-before) / within.Seconds()
}

// await waits until the living replicas hold all objects together, each about its share.
func (p *processes) await(objects int) {
	p.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; <-time.After(100 * time.Millisecond) {
		held, most := 0, 0
		p.mu.Lock()
		living := 0
		for _, each := range p.all {
			if !each.killed {
				living++
				held += each.objects
				most = max(most, each.objects)
			}
		}
		p.mu.Unlock()
		switch {
		case held == objects && most <= objects*13/(10*living):
			return
		case time.Now().After(deadline):
			p.t.Fatalf("%d replicas hold %d objects together, and one %d, want %d", living, held, most, objects)
		}
	}
}
