package hero

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/hero/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/client"
	"github.com/bellerophon-io/bellerophon/bellerophon/server/history"
	"github.com/bellerophon-io/bellerophon/internal/goals"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var (
	runs       = flag.Int("runs", 1, "how often a hero grows and shrinks under load, is rolled, and loses a member")
	bootstraps = flag.Int("bootstraps", 2, "how many heroes start while their pods restart")
	journal    = flag.String("journal", "", "a file with what earlier slices measured: a run goes on where the last one ended")
	daySeed    = flag.Uint64("seed", 1, "the seed of the kills")
)

// measured is what all slices measured.
type measured struct {
	Runs, Linearizable       int // growing and shrinking
	Requests, Unknown, Kills int

	Rollouts, OneDown, Transfers int
	Delays                       []time.Duration // of requests during rollouts, until their success

	Bootstraps, OneCluster int

	Replaced     int
	Replacements []time.Duration // of members whose volume was lost
}

// inSlices calls run for each number that no earlier slice has reached, with a world of its own. run counts it at once.
func inSlices(t *testing.T, done func(*measured) int, total int, run func(*world, *measured, *rand.Rand)) *measured {
	t.Helper()
	all := &measured{}
	if err := goals.Load(*journal, all); err != nil {
		t.Fatal(err)
	}
	for number := done(all); number < total; number++ {
		passed := t.Run(fmt.Sprint("number ", number), func(t *testing.T) {
			run(newWorld(t), all, rand.New(rand.NewPCG(*daySeed, uint64(number))))
		})
		if err := goals.Save(*journal, all); err != nil {
			t.Fatal(err)
		}
		if !passed {
			break
		}
	}
	return all
}

func report(t *testing.T, name, value, target string, met bool) {
	t.Helper()
	fmt.Print(goals.Line(name, value, target, met))
	if !met {
		t.Errorf("%s is %s, want %s", name, value, target)
	}
}

// caller returns a function that sends a request to a random member.
func (w *world) caller(random *rand.Rand) history.Call {
	return func(ctx context.Context, method, key, value string, header ...string) (answer history.Answer, err error) {
		var addresses []string
		for _, address := range w.kubelet.running() {
			addresses = append(addresses, address)
		}
		if len(addresses) == 0 {
			return answer, &net.OpError{Op: "dial", Err: errors.New("no member runs")}
		}
		request, err := http.NewRequestWithContext(ctx, method, "http://"+addresses[random.IntN(len(addresses))]+"/v1/keys/"+key, strings.NewReader(value))
		if err != nil {
			return answer, err
		}
		for i := 0; i < len(header); i += 2 {
			request.Header.Set(header[i], header[i+1])
		}
		response, err := plain.Do(request)
		if err != nil {
			return answer, err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		return history.Answer{Code: response.StatusCode, Body: string(body), ETag: response.Header.Get("ETag")}, err
	}
}

// disturb kills a random member or starts the operator again, a few times at random moments.
func (w *world) disturb(random *rand.Rand) (kills int) {
	w.t.Helper()
	for range 3 {
		wait(w.ctx, time.Duration(random.IntN(int(time.Second))))
		var pods []string
		for pod := range w.kubelet.running() {
			pods = append(pods, pod)
		}
		slices.Sort(pods)
		if len(pods) == 0 || random.IntN(3) == 0 {
			w.stop()
			w.startOperator()
			continue
		}
		w.kubelet.kill(pods[random.IntN(len(pods))])
		kills++
	}
	return kills
}

func TestDayTwoNoAcknowledgedWriteIsLostWhileAHeroGrowsAndShrinksUnderKills(t *testing.T) {
	all := inSlices(t, func(all *measured) int { return all.Runs }, *runs, func(w *world, all *measured, random *rand.Rand) {
		all.Runs++
		w.create("bellerophon", map[string]any{"replicas": int64(1)})
		w.ready()
		recorded := history.New()
		group := lifecycle.New(w.ctx)
		for number := range 4 {
			of := rand.New(rand.NewPCG(random.Uint64(), uint64(number)))
			group.Go("client", func(ctx context.Context) error { return recorded.Client(ctx, number, of, w.caller(of)) })
		}
		for _, replicas := range []int{3, 5, 3, 1} {
			w.change(fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
			all.Kills += w.disturb(random)
			w.ready()
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			w.t.Fatal(err)
		}
		if err := recorded.Check(); err != nil {
			w.t.Error(err)
		} else {
			all.Linearizable++
		}
		known, unknown := recorded.Counts()
		if known < 200 {
			w.t.Errorf("%d requests have a known outcome; that is too few to show anything", known)
		}
		all.Requests, all.Unknown = all.Requests+known, all.Unknown+unknown
	})
	t.Logf("%d kills of members, %d requests with a known outcome, %d without", all.Kills, all.Requests, all.Unknown)
	report(t, "histories that are linearizable, of 1 to 3 to 5 to 3 to 1 members under kills", fmt.Sprintf("%d of %d", all.Linearizable, all.Runs), "all", all.Linearizable == all.Runs)
}

// term returns the term of the election that the leader has won.
func (w *world) term() uint64 {
	w.t.Helper()
	over := client.New(nil, time.Second)
	defer over.Close()
	term := uint64(0)
	for _, address := range w.kubelet.running() {
		status, err := over.Status(w.ctx, address)
		if err != nil {
			w.t.Fatal(err)
		}
		term = max(term, status.Term)
	}
	return term
}

// use sends requests for one key until ctx ends, and measures how long each takes until it has succeeded.
func (w *world) use(ctx context.Context, random *rand.Rand, measured func(time.Duration)) error {
	call := w.caller(random)
	for ctx.Err() == nil {
		began, method := time.Now(), http.MethodGet
		if random.IntN(2) == 0 {
			method = http.MethodPut
		}
		for ctx.Err() == nil {
			if answer, err := call(ctx, method, "used", "value"); err == nil && answer.Code == http.StatusOK {
				measured(time.Since(began))
				break
			}
			wait(ctx, 10*time.Millisecond)
		}
		wait(ctx, 5*time.Millisecond)
	}
	return nil
}

func TestDayTwoARolloutTakesOneMemberAtATimeAndKeepsClientsAtWork(t *testing.T) {
	all := inSlices(t, func(all *measured) int { return all.Rollouts }, *runs, func(w *world, all *measured, random *rand.Rand) {
		all.Rollouts++
		w.create("bellerophon", map[string]any{"replicas": int64(3)})
		w.ready()
		w.put("used", "value")
		var mu sync.Mutex
		group := lifecycle.New(w.ctx)
		for range 4 {
			of := rand.New(rand.NewPCG(random.Uint64(), 0))
			group.Go("client", func(ctx context.Context) error {
				return w.use(ctx, of, func(took time.Duration) {
					mu.Lock()
					defer mu.Unlock()
					all.Delays = append(all.Delays, took)
				})
			})
		}
		oneDown := true
		for _, change := range []string{`{"spec":{"config":{"log-level":"debug"}}}`, `{"spec":{"image":"example/server:v2"}}`} {
			before := w.term()
			w.kubelet.mark()
			w.change(change)
			w.ready()
			oneDown = oneDown && w.kubelet.fewest() >= 2
			// One is needed: the leader's pod is replaced, too.
			all.Transfers = max(all.Transfers, int(w.term()-before)-1)
		}
		if oneDown {
			all.OneDown++
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			w.t.Fatal(err)
		}
	})
	slices.Sort(all.Delays)
	p99 := all.Delays[len(all.Delays)*99/100]
	t.Logf("%d requests; the slowest took %v", len(all.Delays), all.Delays[len(all.Delays)-1].Round(time.Millisecond))
	report(t, "rollouts with at most one member down", fmt.Sprintf("%d of %d", all.OneDown, all.Rollouts), "all", all.OneDown == all.Rollouts)
	report(t, "time until a request has succeeded during rollouts, p99", p99.Round(time.Millisecond).String(), "<= 2s", p99 <= 2*time.Second)
	report(t, "transfers and elections in a rollout beyond the needed one", fmt.Sprint(all.Transfers), "<= 1", all.Transfers <= 1)
}

func TestDayTwoABootstrapMakesOneClusterWhilePodsRestart(t *testing.T) {
	all := inSlices(t, func(all *measured) int { return all.Bootstraps }, *bootstraps, func(w *world, all *measured, random *rand.Rand) {
		all.Bootstraps++
		w.create("bellerophon", map[string]any{"replicas": int64(3)})
		for range 4 {
			wait(w.ctx, time.Duration(random.IntN(int(500*time.Millisecond))))
			pod := fmt.Sprint("bellerophon-", random.IntN(3))
			switch random.IntN(3) {
			case 0:
				w.kubelet.kill(pod)
			case 1: // It may not exist yet.
				_ = w.core.CoreV1().Pods(w.namespace).Delete(w.ctx, pod, metav1.DeleteOptions{})
			case 2:
				w.stop()
				w.startOperator()
			}
		}
		hero := w.ready()
		over := client.New(nil, time.Second)
		defer over.Close()
		one := hero.Status.Cluster == string(hero.UID)
		for _, address := range w.kubelet.running() {
			status, err := over.Status(w.ctx, address)
			if err != nil {
				w.t.Fatal(err)
			}
			one = one && status.Cluster == hero.Status.Cluster && len(status.Members) == 3
		}
		if one {
			all.OneCluster++
		}
	})
	report(t, "first starts under restarts that make one cluster", fmt.Sprintf("%d of %d", all.OneCluster, all.Bootstraps), "all", all.OneCluster == all.Bootstraps)
}

func TestDayTwoADeadMemberIsReplacedWithoutAPerson(t *testing.T) {
	all := inSlices(t, func(all *measured) int { return all.Replaced }, *runs, func(w *world, all *measured, random *rand.Rand) {
		w.create("bellerophon", map[string]any{"replicas": int64(3)})
		all.Replaced++
		before := w.ready()
		w.put("horse", "pegasus")
		number := random.IntN(3)
		lost := before.Status.Members[number]
		began := time.Now()
		if err := w.core.CoreV1().PersistentVolumeClaims(w.namespace).Delete(w.ctx, volumeData+"-"+lost.Name, metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
		if err := w.core.CoreV1().Pods(w.namespace).Delete(w.ctx, lost.Name, metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
		w.eventually("another member is in its place", func() error {
			hero := w.hero("bellerophon")
			if len(hero.Status.Members) == 3 && hero.Status.Members[number].ID != lost.ID && hero.Status.ReadyReplicas == 3 && hero.Status.Phase == v1.PhaseRunning {
				return nil
			}
			return fmt.Errorf("%+v", hero.Status)
		})
		all.Replacements = append(all.Replacements, time.Since(began))
		w.wantHorse()
	})
	if len(all.Replacements) < all.Replaced {
		t.Fatalf("%d of %d dead members were replaced", len(all.Replacements), all.Replaced)
	}
	longest := slices.Max(all.Replacements)
	report(t, "longest time until a dead member is replaced", longest.Round(10*time.Millisecond).String(), "<= 1m0s", longest <= time.Minute)
}
