package replaytest_test

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/controller/recording"
	"github.com/bellerophon-io/bellerophon/controller/replaytest"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// bar is the goal on a quiet machine. Other tests run beside this one by default.
var bar = flag.Duration("hour-bar", 8*time.Second, "how long the replay of an hour may take; the goal is 2s on a quiet machine")

// recordHour records an hour in virtual time, with ten events a second of 500 objects: seven foreign writes, and the
// echoes of the controller's writes.
func recordHour(t *testing.T) *recording.Recording {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		server, err := sourcestest.New(sourcestest.Options{Scheme: scheme.Scheme})
		if err != nil {
			t.Fatal(err)
		}
		manager, err := stableAs(variant{horse: "!", once: true})(server.Config(), controller.Options{Logger: slog.New(slog.DiscardHandler), Recording: &recording.Options{Dir: dir, Bytes: 1 << 30, Age: 3 * time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		group := lifecycle.New(context.WithoutCancel(t.Context()))
		group.Go("manager", manager.Run)
		random := rand.New(rand.NewPCG(3, 4))
		for range 26_000 {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprint("team-", random.IntN(50)), Name: fmt.Sprint("hero-", random.IntN(10))}}
			if server.Get(object) != nil {
				object.Data = map[string]string{"horse": "arion"}
				err = server.Create(object)
			} else {
				object.Data = map[string]string{"horse": []string{"arion", "balius", "xanthus"}[random.IntN(3)]}
				err = server.Update(object)
			}
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(138 * time.Millisecond)
		}
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
	return open(t, dir)
}

func TestAnHourOfTrafficIsReplayedInSeconds(t *testing.T) {
	if raceDetector {
		t.Skip("it measures time, and the race detector changes that")
	}
	recorded := recordHour(t)
	events := 0
	for _, record := range recorded.Records {
		for _, event := range record.Events {
			if event.HasObject {
				events++
			}
		}
	}
	if events < 36_000 {
		t.Fatalf("the recording has only %d events", events)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // As bellerophon replay does, also with the processors.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fastest := time.Hour
	for range 3 {
		began := time.Now()
		replayed := replaytest.Replay(t, recorded, stableAs(variant{horse: "!", once: true}))
		fastest = min(fastest, time.Since(began))
		if len(replayed.Differences) > 0 || replayed.Attempts < 26_000 {
			t.Fatalf("%d attempts, %d differences, such as %+v", replayed.Attempts, len(replayed.Differences), replayed.Differences[:min(1, len(replayed.Differences))])
		}
		t.Logf("%d events, %d attempts and %d records in %v", events, replayed.Attempts, len(recorded.Records), time.Since(began))
	}
	if fastest > *bar {
		t.Errorf("the fastest of three took %v; allowed is %v", fastest, *bar)
	}
}
