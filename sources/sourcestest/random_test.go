package sourcestest_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
)

// write makes random writes with pauses, the same ones for each seed.
func write(t *testing.T, server *sourcestest.Server, seed uint64, times int) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range times {
		object := configMap(fmt.Sprintf("o%d", random.IntN(6)))
		exists := server.Get(object) == nil
		object.Data = map[string]string{"value": fmt.Sprint(i)}
		switch {
		case !exists:
			must(t, server.Create(object))
		case random.IntN(4) == 0:
			must(t, server.Delete(object))
		default:
			must(t, server.Update(object))
		}
		switch random.IntN(20) {
		case 0:
			server.Compact()
		case 1:
			server.Break()
		}
		if random.IntN(3) == 0 {
			pass(t, time.Duration(1+random.IntN(3000))*time.Millisecond)
		}
	}
}

// stored returns the state of the server in the form of an observation's state.
func stored(t *testing.T, server *sourcestest.Server) map[string]string {
	t.Helper()
	var list corev1.ConfigMapList
	must(t, server.List(&list))
	state := map[string]string{}
	for _, object := range list.Items {
		state[object.Name] = object.Data["value"]
	}
	return state
}

// The faults of DefaultRates lose nothing for good: the state of a watch converges to the server's
// state. Each seed is a run of its own, and all seeds together have hundreds of faults.
func TestUnderSeededFaultsTheStreamComesToTheStateOfTheServer(t *testing.T) {
	happened := map[sourcestest.Action]int{}
	for seed := uint64(1); seed <= 60; seed++ {
		synctest.Test(t, func(t *testing.T) {
			rates := sourcestest.DefaultRates()
			for action := range rates {
				rates[action] *= float64(1 + seed%3) // At the highest factor, 0.9 of the events and 0.6 of the requests have a fault.
			}
			server := newServer(t, sourcestest.Options{Seed: seed, Rates: rates, History: 20})
			seen := observe(t, server)
			write(t, server, seed, 60)
			server.Heal()
			pass(t, time.Minute)
			if want := stored(t, server); !maps.Equal(seen.state, want) {
				t.Errorf("seed %d: the stream converges to %v, the server has %v", seed, seen.state, want)
			}
			seen.stop(t)
			for action, times := range server.Counts().Faults {
				happened[action] += times
			}
		})
	}
	for action := range sourcestest.DefaultRates() {
		if happened[action] == 0 {
			t.Errorf("%v never happened", action)
		}
	}
	t.Logf("faults: %v", happened)
}

// This test shows that the test above would find a loss.
func TestUnderDropsTheStreamDoesNotComeToTheStateOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, sourcestest.Options{Rates: map[sourcestest.Action]float64{sourcestest.Drop: 0.5}})
		seen := observe(t, server)
		for i := range 10 {
			must(t, server.Create(configMap(fmt.Sprint(i), "1")))
		}
		synctest.Wait() // Everything has been sent.
		server.Heal()
		pass(t, time.Minute)
		if held := len(seen.state); held == 10 || held == 0 {
			t.Errorf("the stream has %d of 10 objects", held)
		}
		seen.stop(t)
	})
}

func TestTheSameSeedGivesTheSameFaults(t *testing.T) {
	run := func(seed uint64) (lines []string, faults map[sourcestest.Action]int) {
		synctest.Test(t, func(t *testing.T) {
			server := newServer(t, sourcestest.Options{Seed: seed, Rates: map[sourcestest.Action]float64{
				sourcestest.Duplicate: 0.2, sourcestest.Delay: 0.2, sourcestest.Reorder: 0.2, sourcestest.Drop: 0.2,
			}})
			seen := observe(t, server)
			for i := range 50 {
				must(t, server.Create(configMap(fmt.Sprint(i), "1")))
			}
			pass(t, time.Minute/2)
			lines, faults = seen.lines, server.Counts().Faults
			seen.stop(t)
		})
		return lines, faults
	}
	lines, faults := run(7)
	again, faultsAgain := run(7)
	if !reflect.DeepEqual(lines, again) || !maps.Equal(faults, faultsAgain) {
		t.Errorf("seed 7 gives %v with %v, and then %v with %v", lines, faults, again, faultsAgain)
	}
	if other, _ := run(8); reflect.DeepEqual(lines, other) {
		t.Errorf("seeds 7 and 8 both give %v", lines)
	}
}
