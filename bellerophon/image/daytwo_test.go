package image_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	herov1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/image"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/history"
	"github.com/bellerophon-io/bellerophon/internal/goals"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

var (
	dayRuns = flag.Int("real-runs", 0, "how often a hero of the real node grows and shrinks under kills, is rolled, and loses a member")
	daySeed = flag.Uint64("real-seed", 1, "the seed of the kills")
)

const (
	operatorPods = "app.kubernetes.io/name=bellerophon-operator"
	memberPods   = "app.kubernetes.io/name=bellerophon"
)

// dayTwo is a hero on a real node, with clients that reach it through its Service.
type dayTwo struct {
	*realHero
	transport http.RoundTripper
	address   string // of the API server

	mu    sync.Mutex
	ready map[types.UID]bool // the members' pods that the Service has
	least int                // the smallest number of ready pods since mark
}

// call sends a request through the Service. The API server answers by itself if it reaches no member.
func (d *dayTwo) call(ctx context.Context, method, key, value string, header ...string) (answer history.Answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, d.address+d.path(key), bytes.NewReader([]byte(value)))
	if err != nil {
		return answer, err
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := d.transport.RoundTrip(request)
	if err != nil {
		return answer, err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer, err
	}
	if strings.Contains(string(body), `"kind":"Status"`) {
		for _, unsent := range []string{"no endpoints available", "connection refused", "no route to host"} {
			if strings.Contains(string(body), unsent) {
				return answer, &net.OpError{Op: "dial", Err: fmt.Errorf("%s", body)}
			}
		}
		return answer, fmt.Errorf("the API server says %s", body)
	}
	return history.Answer{Code: response.StatusCode, Body: string(body), ETag: response.Header.Get("ETag")}, nil
}

// follow counts the ready members until ctx ends.
func (d *dayTwo) follow(ctx context.Context) error {
	watcher, err := d.core.CoreV1().Pods(d.namespace).Watch(ctx, metav1.ListOptions{LabelSelector: memberPods})
	if err != nil {
		return err
	}
	defer watcher.Stop()
	for event := range watcher.ResultChan() {
		pod, is := event.Object.(*corev1.Pod)
		if ctx.Err() != nil {
			return nil
		}
		if !is {
			return fmt.Errorf("the watch of pods emits %v", event.Object)
		}
		ready := pod.DeletionTimestamp == nil && slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
			return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
		})
		d.mu.Lock()
		if delete(d.ready, pod.UID); ready {
			d.ready[pod.UID] = true
		}
		d.least = min(d.least, len(d.ready))
		d.mu.Unlock()
	}
	return nil
}

// mark begins to count the ready members.
func (d *dayTwo) mark() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.least = len(d.ready)
}

func (d *dayTwo) fewest() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.least
}

// kill kills the process of a random pod with kill -9. The kubelet starts it again.
func (d *dayTwo) kill(random *rand.Rand, selector string) (killed bool) {
	d.Helper()
	pods, err := d.core.CoreV1().Pods(d.namespace).List(d.Context(), metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		d.Fatal(err)
	}
	if len(pods.Items) == 0 {
		return false
	}
	uid := string(pods.Items[random.IntN(len(pods.Items))].UID)
	files, err := filepath.Glob("/proc/[0-9]*/cgroup")
	if err != nil {
		d.Fatal(err)
	}
	for _, file := range files {
		folder := filepath.Dir(file)
		groups, err := os.ReadFile(file)
		if err != nil || !strings.Contains(strings.ReplaceAll(string(groups), "_", "-"), uid) {
			continue
		}
		line, err := os.ReadFile(filepath.Join(folder, "cmdline"))
		if err != nil || !strings.HasPrefix(string(line), "/bellerophon-") { // The other one is the pause container's.
			continue
		}
		var number int
		if _, err := fmt.Sscan(filepath.Base(folder), &number); err != nil {
			d.Fatal(err)
		}
		if syscall.Kill(number, syscall.SIGKILL) == nil {
			killed = true
		}
	}
	return killed
}

// use sends a request each period until ctx ends, and measures how long each takes until it has succeeded.
func (d *dayTwo) use(ctx context.Context, random *rand.Rand, period time.Duration, measured func(time.Duration)) error {
	pause := time.NewTicker(period)
	defer pause.Stop()
	for began := time.Now(); ctx.Err() == nil; {
		method := http.MethodGet
		if random.IntN(2) == 0 {
			method = http.MethodPut
		}
		if answer, err := d.call(ctx, method, "used", "value"); err == nil && answer.Code == http.StatusOK {
			measured(time.Since(began))
			began = time.Now()
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
	return nil
}

// clients lets four clients work while a function runs.
func (d *dayTwo) clients(random *rand.Rand, client func(ctx context.Context, number int, random *rand.Rand) error, run func()) {
	d.Helper()
	group := lifecycle.New(d.Context())
	for number := range 4 {
		of := rand.New(rand.NewPCG(random.Uint64(), uint64(number)))
		group.Go("client", func(ctx context.Context) error { return client(ctx, number, of) })
	}
	run()
	group.Stop()
	if err := group.Wait(); err != nil {
		d.Fatal(err)
	}
}

// replicas changes the number of members, kills processes meanwhile, and waits.
func (d *dayTwo) replicas(random *rand.Rand, members int32) (kills int) {
	d.Helper()
	d.patch(fmt.Sprintf(`{"spec":{"replicas":%d}}`, members))
	timer := time.NewTimer(time.Duration(random.IntN(int(2 * time.Second))))
	defer timer.Stop()
	<-timer.C
	for _, selector := range []string{memberPods, operatorPods} {
		if random.IntN(3) > 0 && d.kill(random, selector) {
			kills++
		}
	}
	d.until(fmt.Sprintf("%d members are ready", members), isRunning(members))
	return kills
}

func (d *dayTwo) report(name, value, target string, met bool) {
	d.Helper()
	fmt.Print(goals.Line("real node: "+name, value, target, met))
	if !met {
		d.Errorf("%s is %s, want %s", name, value, target)
	}
}

// TestDayTwoOnARealNode has the members and the operator in containers, and clients at the Service.
func TestDayTwoOnARealNode(t *testing.T) {
	if *dayRuns == 0 {
		t.Skip("it takes more than three minutes; make day-two runs it")
	}
	cluster := clustertest.WithRealNode(t)
	load(t, cluster, image.Operator, operator(t))
	built := serverOf(t)
	load(t, cluster, image.Server, built)
	next := image.Server
	next.Image = "bellerophon-io/bellerophon-server:v2"
	load(t, cluster, next, built)
	transport, err := rest.TransportFor(cluster.AdminConfig())
	if err != nil {
		t.Fatal(err)
	}
	d := &dayTwo{realHero: newRealHero(t, cluster), transport: transport, address: cluster.AdminConfig().Host, ready: map[types.UID]bool{}}
	helm(t, cluster.Kubeconfig(), "install", "bellerophon", filepath.Join("..", "..", "charts", "bellerophon-operator"), "--namespace="+d.namespace,
		"--set=image.pullPolicy=Never", "--set=heroes.enabled=true", "--wait", "--timeout=2m")
	removeDefinition(d.T, cluster)
	group := lifecycle.New(t.Context())
	group.Go("pods", d.follow)

	random := rand.New(rand.NewPCG(*daySeed, 0))
	linearizable, requests, unknown, kills, oneDown := 0, 0, 0, 0, 0
	var delays []time.Duration
	longest := time.Duration(0)
	for run := range *dayRuns {
		d.name = fmt.Sprint("example-", run)
		d.apply(fmt.Sprintf(`{"apiVersion":"stable.bellerophon.io/v1","kind":"Bellerophon","metadata":{"name":%q},"spec":{"replicas":1,"storage":{"retention":"Delete"}}}`, d.name))
		d.until("one member is ready", isRunning(1))

		recorded := history.New()
		d.clients(random, func(ctx context.Context, number int, of *rand.Rand) error {
			return recorded.Client(ctx, number, of, d.call)
		}, func() {
			for _, members := range []int32{3, 5, 3, 1} {
				kills += d.replicas(random, members)
			}
		})
		if err := recorded.Check(); err != nil {
			t.Error(err)
		} else {
			linearizable++
		}
		known, open := recorded.Counts()
		requests, unknown = requests+known, unknown+open

		d.patch(`{"spec":{"replicas":3}}`)
		before := d.until("three members are ready", isRunning(3))
		d.put("used", "value")
		var mu sync.Mutex
		d.clients(random, func(ctx context.Context, _ int, of *rand.Rand) error {
			return d.use(ctx, of, 10*time.Millisecond, func(took time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				delays = append(delays, took)
			})
		}, func() {
			d.mark()
			for _, change := range []string{`{"spec":{"config":{"log-level":"debug"}}}`, `{"spec":{"image":"bellerophon-io/bellerophon-server:v2"}}`} {
				d.patch(change)
				last := before.Status.CurrentRevision
				before = d.until("all members are of the new revision", func(hero *herov1.Bellerophon) bool {
					return isRunning(3)(hero) && hero.Status.CurrentRevision != last
				})
			}
			if d.fewest() >= 2 {
				oneDown++
			}
		})

		number := random.IntN(3)
		lost := before.Status.Members[number]
		began := time.Now()
		d.kubectl("delete", "pvc", "data-"+lost.Name, "--wait=false")
		d.kubectl("delete", "pod", lost.Name, "--wait=false")
		d.until("another member is in the place of the lost one", func(hero *herov1.Bellerophon) bool {
			return isRunning(3)(hero) && len(hero.Status.Members) == 3 && hero.Status.Members[number].ID != lost.ID
		})
		longest = max(longest, time.Since(began))
		d.want("used", "value")
		d.kubectl("delete", "hero", d.name, "--timeout=1m")
	}
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	t.Logf("%d requests with a known outcome, %d without, %d kills", requests, unknown, kills)
	slices.Sort(delays)
	p99 := delays[len(delays)*99/100]
	d.report("histories that are linearizable, of 1 to 3 to 5 to 3 to 1 members under kills of members and operators",
		fmt.Sprintf("%d of %d", linearizable, *dayRuns), "all", linearizable == *dayRuns && requests > 200)
	d.report("rollouts with at most one member out of the Service", fmt.Sprintf("%d of %d", oneDown, *dayRuns), "all", oneDown == *dayRuns)
	d.report("time until a request through the Service has succeeded during rollouts, p99", p99.Round(time.Millisecond).String(), "<= 2s", p99 <= 2*time.Second)
	d.report("longest time until a member without its volume is replaced", longest.Round(10*time.Millisecond).String(), "<= 1m0s", longest <= time.Minute)
	helm(t, cluster.Kubeconfig(), "uninstall", "bellerophon", "--namespace="+d.namespace, "--wait", "--timeout=2m")
}
