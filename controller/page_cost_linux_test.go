package controller

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/operators"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

var pageCost = flag.Int("page-cost", 0, "number of pairs of measurements, each of 6 s, of the CPU with and without a browser at the page; 10 for the goal")

// cpuTime returns the CPU time of this process.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// The process also has the API server, the one who changes objects, and the reader of the stream. So the difference counts, and it
// includes the reader.
func TestABrowserAtThePageCostsAtMostATwentiethOfACore(t *testing.T) {
	if *pageCost == 0 {
		t.Skip("it takes a minute: see -page-cost")
	}
	const objects, rate, window = 5000, 500, 3 * time.Second
	server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	object := func(i, version int) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: fmt.Sprintf("horse-%d", i%objects)}, Data: map[string]string{"version": fmt.Sprint(version)}}
	}
	for i := range objects {
		if err := server.Create(object(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	listens := make(chan net.Addr, 1)
	manager, err := NewManager(server.Config(), scheme.Scheme, Options{
		Logger: slog.New(slog.DiscardHandler), MetricsAddress: "127.0.0.1:0", OnListen: func(_ string, address net.Addr) { listens <- address },
	})
	if err != nil {
		t.Fatal(err)
	}
	read := func(ctx context.Context, request operators.Request) (time.Duration, error) {
		_, err := Get[*corev1.ConfigMap](ctx, manager.Client(), request.NamespacedName)
		return 0, err
	}
	if err := manager.Add("configs", read, For(&corev1.ConfigMap{})); err != nil {
		t.Fatal(err)
	}
	runToTheEnd(t, manager)
	if err := manager.Cache().Wait(t.Context(), cache.Settled); err != nil {
		t.Fatal(err)
	}
	address := "http://" + (<-listens).String() + "/page/events"
	group := lifecycle.New(t.Context())
	group.Go("changes", func(ctx context.Context) error {
		ticks := time.NewTicker(20 * time.Millisecond)
		defer ticks.Stop()
		for i := 1; ctx.Err() == nil; {
			<-ticks.C
			for range rate / 50 {
				if err := server.Update(object(i, i)); err != nil {
					return err
				}
				i++
			}
		}
		return nil
	})
	began := time.Now()
	measure := func() float64 {
		<-time.After(200 * time.Millisecond)
		before := cpuTime(t)
		<-time.After(window)
		return float64(cpuTime(t)-before) / float64(window)
	}
	var without, with, more []float64
	bytes := int64(0)
	for range *pageCost {
		without = append(without, measure())
		browser := lifecycle.New(t.Context())
		browser.Go("browser", func(ctx context.Context) error {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
			if err != nil {
				return err
			}
			answer, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
			if err != nil {
				return err
			}
			defer func() { _ = answer.Body.Close() }()
			count, _ := io.Copy(io.Discard, answer.Body) // It ends with the context.
			bytes += count
			return nil
		})
		with = append(with, measure())
		browser.Stop()
		if err := browser.Wait(); err != nil {
			t.Fatal(err)
		}
		more = append(more, with[len(with)-1]-without[len(without)-1])
	}
	if attempts, want := manager.introspection(0).Controllers[0].Attempts-objects, time.Since(began).Seconds()*rate; float64(attempts) < 0.9*want {
		t.Errorf("there are %d attempts, want %.0f: the measurement does not count", attempts, want)
	}
	group.Stop()
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, each := range [][]float64{without, with, more} {
		slices.Sort(each)
	}
	median := more[len(more)/2]
	t.Logf("%d objects and %d events a second: %.1f %% of a core without a browser, %.1f %% with it, the median of the differences is %.1f %%, %d kB a second",
		objects, rate, 100*without[len(without)/2], 100*with[len(with)/2], 100*median, bytes/int64(len(with))/window.Milliseconds())
	if median > 0.05 {
		t.Errorf("a browser costs %.1f %% of a core, allowed are 5", 100*median)
	}
}
