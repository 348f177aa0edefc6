package harness

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/bellerophon-io/bellerophon/bench/proxy"
	"github.com/bellerophon-io/bellerophon/bench/rundir"
)

func TestTheUsageOfTheProcessesOfARoundIsServedUntilItEnds(t *testing.T) {
	u, err := newUsage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	served := func() string {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+u.address+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v: %s", answer.Status, err, text)
		}
		return string(text)
	}
	u.begin(rundir.Round{Contender: "kube-rs", Scenario: "burst", Variant: "n=5", Setting: "default"})
	u.follow("contender", os.Getpid())
	u.follow("apiserver", os.Getppid())
	u.follow("etcd", 1<<30) // There is no such process.
	u.count(func() proxy.Counts { return proxy.Counts{Writes: 4, Events: 11} })
	text := served()
	const labels = `{contender="kube-rs",process="contender",round="burst_n=5_kube-rs_default_0",scenario="burst",setting="default",variant="n=5"} `
	const ofRound = `{contender="kube-rs",round="burst_n=5_kube-rs_default_0",scenario="burst",setting="default",variant="n=5"} `
	for _, name := range []string{"bench_cpu_seconds_total", "bench_rss_bytes"} {
		if !strings.Contains(text, "\n"+name+labels) || strings.Count(text, "\n"+name+"{") != 2 || strings.Contains(text, `"etcd"`) {
			t.Errorf("it does not serve %s of the two existing processes, but\n%s", name, text)
		}
	}
	for _, line := range []string{"bench_writes_total" + ofRound + "4", "bench_events_total" + ofRound + "11"} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("it does not serve %s, but\n%s", line, text)
		}
	}
	u.end()
	if text := served(); text != "" {
		t.Errorf("after the round it serves\n%s", text)
	}
	if err := u.close(); err != nil {
		t.Error(err)
	}
}
