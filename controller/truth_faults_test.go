package controller_test

import (
	"net/http"
	"path/filepath"
	"strconv"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/faultproxy"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const noFault = "none"

// longFreeze is the longest time for which the network or the server is frozen.
const longFreeze = 15 * time.Second

// trouble is the fault of a round. It strikes between two bursts of writes.
type trouble struct {
	name   string
	strike func(w *truth) bool // reports whether a fault is left to heal after the round
}

// between returns a random duration, at least low and below high.
func (w *truth) between(low, high time.Duration) time.Duration {
	return low + time.Duration(w.random.Int64N(int64(high-low)))
}

// resource returns a random resource of the workload.
func (w *truth) resource() string {
	return []string{"configmaps", "secrets", "services"}[w.random.IntN(3)]
}

// inject returns a strike that has the proxy inject faults. It cuts the watches, so that requests follow.
func inject(faults ...faultproxy.Fault) func(w *truth) bool {
	return func(w *truth) bool {
		w.must(w.proxy.Inject(faults...))
		w.proxy.Cut(faultproxy.Match{Verb: "watch"})
		return true
	}
}

var (
	watches = faultproxy.Match{Verb: "watch"}
	lists   = faultproxy.Match{Verb: "list"}
	expired = faultproxy.Fault{Action: faultproxy.Refuse, Code: http.StatusGone, Match: watches, Times: 3}
)

// quickTroubles end, or are noticed, within seconds.
var quickTroubles = []trouble{
	{"cut of watches", func(w *truth) bool {
		w.proxy.Cut(faultproxy.Match{Verb: "watch", Resource: w.resource()})
		return false
	}},
	{"half-open watches", func(w *truth) bool {
		w.proxy.Stall(faultproxy.Match{Verb: "watch", Resource: w.resource()})
		return false
	}},
	{"half-open watch of a namespace", func(w *truth) bool {
		w.proxy.Stall(faultproxy.Match{Verb: "watch", Namespace: w.namespaces[w.random.IntN(3)]})
		return false
	}},
	{"reset of connections", func(w *truth) bool { w.proxy.Drop(); return false }},
	{"frozen network", func(w *truth) bool {
		w.proxy.Freeze()
		idleFor(w.t.Context(), w.between(100*time.Millisecond, longFreeze))
		w.proxy.Thaw()
		return false
	}},
	{"frozen API server", func(w *truth) bool {
		w.must(w.cluster.Pause("kube-apiserver"))
		idleFor(w.t.Context(), w.between(100*time.Millisecond, longFreeze))
		w.must(w.cluster.Continue("kube-apiserver"))
		return false
	}},
	{"GOAWAY", inject(faultproxy.Fault{Action: faultproxy.GoAway, Times: 3})},
	{"refused watches", inject(faultproxy.Fault{Action: faultproxy.Refuse, Code: 500, Match: watches, Times: 4})},
	{"refused with a time", inject(faultproxy.Fault{Action: faultproxy.Refuse, Code: 503, RetryAfter: time.Second, Times: 4})},
	{"throttled", inject(faultproxy.Fault{Action: faultproxy.Refuse, Code: 429, RetryAfter: time.Second, Times: 4})},
	{"expired watches", inject(expired)},
	{"cut within a watch", inject(faultproxy.Fault{Action: faultproxy.Cut, Bytes: 300, Match: watches, Times: 4})},
	{"half-open from the start", inject(faultproxy.Fault{Action: faultproxy.Stall, Bytes: 100, Match: watches, Times: 2})},
	{"lists of nonsense", inject(expired, faultproxy.Fault{Action: faultproxy.Answer, Body: "{}", Match: lists, Times: 2})},
	{"lists cut", inject(expired, faultproxy.Fault{Action: faultproxy.Cut, Bytes: 200, Match: lists, Times: 2})},
	{"creations without an answer", func(w *truth) bool {
		w.must(w.proxy.Inject(faultproxy.Fault{Action: faultproxy.LoseAnswer, Match: faultproxy.Match{Verb: "create"}, Times: 2}))
		w.write(5)
		return true
	}},
	{"patches that hang", func(w *truth) bool {
		w.must(w.proxy.Inject(faultproxy.Fault{Action: faultproxy.Hang, Match: faultproxy.Match{Verb: "patch"}}))
		w.write(5)
		return true
	}},
	{"slow requests", inject(faultproxy.Fault{Action: faultproxy.Slow, For: time.Second, Times: 5})},
}

// slowTroubles are noticed only after a minute, as requests may take that long.
var slowTroubles = []trouble{
	{"watches that hang", inject(faultproxy.Fault{Action: faultproxy.Hang, Match: watches})},
	{"lists that hang", inject(expired, faultproxy.Fault{Action: faultproxy.Hang, Match: lists})},
}

// These are the rounds between restores of etcd and between slow troubles, and the first restore.
const (
	restoreEvery = 50
	slowEvery    = 40
	firstRestore = 9
)

// draw chooses the fault of a round. Most odd rounds have none.
func (w *truth) draw(round int) trouble {
	chosen := trouble{noFault, func(*truth) bool { return false }}
	switch {
	case round%restoreEvery == firstRestore-4:
		return trouble{noFault, takeSnapshot}
	case round%restoreEvery == firstRestore:
		chosen = trouble{"restore of etcd", restore}
	case round%slowEvery == slowEvery-1:
		chosen = slowTroubles[w.random.IntN(len(slowTroubles))]
	case round%2 == 0:
		chosen = quickTroubles[w.random.IntN(len(quickTroubles))]
	}
	if chosen.name != noFault {
		w.struck[chosen.name]++
	}
	return chosen
}

func takeSnapshot(w *truth) bool {
	w.snapshot = filepath.Join(w.t.TempDir(), "snapshot")
	w.must(w.cluster.Snapshot(w.snapshot))
	return false
}

// lostVersions is the least number of versions that a restore takes back. If the versions up to the
// one of a watch are used again before a client asks, no client can notice that they went back. The
// components that start after the restore write a few dozen versions.
const lostVersions = 500

// restore restores the last snapshot of etcd. From then on all objects count as written at that time.
func restore(w *truth) bool {
	for i := range lostVersions {
		lost := configMap("default", "lost-"+strconv.Itoa(i), "")
		_, err := w.past.CoreV1().ConfigMaps(lost.Namespace).Create(w.t.Context(), lost, metav1.CreateOptions{})
		w.must(err)
	}
	w.must(w.cluster.Restore(w.t.Context(), w.snapshot))
	w.must(w.cluster.Pause("kube-controller-manager"))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = time.Now()
	return false
}
