package beside

import (
	"flag"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bench/connection"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/report"
	"github.com/bellerophon-io/bellerophon/internal/localcluster"
)

var recordingCost = flag.Int("recording-cost", 0, "number of pairs of measurements, each of 40 s, of the CPU with and without a recording; 12 for the goal")

// Both operators run at the same time, so that other work of the machine affects both. They get the same changes at the same moments.
func TestARecordingCostsAtMostATwentiethOfTheCPU(t *testing.T) {
	if *recordingCost == 0 {
		t.Skip("it takes minutes: see -recording-cost")
	}
	const objects, every, window = 100, 50 * time.Millisecond, 30 * time.Second
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	found, err := contender.Named(ours)
	must(err)
	program, err := found[0].Build(ctx, t.Output())
	must(err)
	cluster, err := localcluster.Start(ctx, localcluster.Options{})
	must(err)
	defer func() { must(cluster.Stop()) }()
	_, err = install.Operator(ctx, cluster.AdminConfig(), install.Options{})
	must(err)
	connected, err := connection.New(cluster.AdminConfig())
	must(err)
	folder := t.TempDir()
	sides := map[string]*side{}
	for _, name := range []string{"plain", "recorded"} {
		_, err := install.MakeNamespace(ctx, cluster.AdminConfig(), name)
		must(err)
		sides[name] = newSide(program, filepath.Join(folder, name+".log"))
		sides[name].name = name
	}
	round := 0
	change := func(create bool) {
		horses := []string{"pegasus", "arion", "buraq", "tulpar"}
		for _, side := range sides {
			must(side.set(ctx, connected, fmt.Sprintf("shero-%d", round%objects), horses[round/objects%len(horses)], create))
		}
		round++
	}
	for range objects {
		change(true)
	}
	var ratios []float64
	for turn := range *recordingCost {
		order := []string{"plain", "recorded"}
		if turn%2 == 1 {
			slices.Reverse(order)
		}
		before := map[string]time.Duration{}
		for _, name := range order {
			settings := contender.Settings{Kubeconfig: cluster.Kubeconfig(), Output: sides[name].output, Namespace: name}
			if name == "recorded" {
				settings.Recording = filepath.Join(folder, "recording")
			}
			sides[name].process, err = program.Start(ctx, settings)
			must(err)
			must(sides[name].process.Ready(ctx))
		}
		<-time.After(8 * time.Second) // Until both have done what was left.
		for name, side := range sides {
			used, err := side.usage()
			must(err)
			before[name] = used.CPU
		}
		ticker := time.NewTicker(every)
		for began := time.Now(); time.Since(began) < window; <-ticker.C {
			change(false)
		}
		ticker.Stop()
		spent := map[string]time.Duration{}
		for name, side := range sides {
			used, err := side.usage()
			must(err)
			spent[name] = used.CPU - before[name]
		}
		for _, side := range sides {
			_, err := side.process.Stop()
			must(err)
		}
		ratios = append(ratios, float64(spent["recorded"])/float64(spent["plain"]))
		t.Logf("%v without a recording, %v with one: %.3f", spent["plain"], spent["recorded"], ratios[len(ratios)-1])
	}
	median, low, high := report.Interval(ratios)
	t.Logf("at %v changes a second, an operator that records needs %.3f times the CPU (%.3f to %.3f, 95 %%, %d pairs)", int(time.Second/every), median, low, high, len(ratios))
	if median > 1.05 {
		t.Errorf("it needs %.1f %% more, allowed are 5", 100*(median-1))
	}
}
