package beside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/operator"
	"github.com/bellerophon-io/bellerophon/bench/connection"
	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/bench/scenario"
	"github.com/bellerophon-io/bellerophon/sources"
	"github.com/bellerophon-io/bellerophon/streams"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Side is what was seen of one contender. Times are in seconds, from the answer to a write of the load to the status that says Ready for it.
type Side struct {
	Name       string  `json:"name"`
	Objects    int     `json:"objects"`
	Ready      int     `json:"ready"`
	Changes    int     `json:"changes"` // that became Ready
	CreatedP50 float64 `json:"createToReadySecondsMedian"`
	ChangedP50 float64 `json:"changeToReadySecondsMedian"`
	Slowest    float64 `json:"slowestSeconds"`
	CPU        float64 `json:"cpuSeconds"` // since its start
	Memory     float64 `json:"residentMiB"`
}

// side is a contender with its objects. Its namespace has its name.
type side struct {
	name    string
	program *contender.Program
	output  string
	process *contender.Process
	usage   func() (scenario.Usage, error) // of the process

	mu               sync.Mutex
	wanted           map[string]want // what the load asked last, by object
	ready            map[string]bool
	created, changed []float64
	recent           []done // the last ones
	finished         int    // how many there were
}

// done is a change that became Ready.
type done struct {
	Object  string  `json:"object"`
	Seconds float64 `json:"seconds"`
	Created bool    `json:"created"` // and not changed
}

// maxRecent is how many changes are kept for the page.
const maxRecent = 1024

type want struct {
	generation int64
	at         time.Time
	isNew      bool
}

func newSide(program *contender.Program, output string) *side {
	made := &side{name: program.Name, program: program, output: output, wanted: map[string]want{}, ready: map[string]bool{}}
	made.usage = func() (scenario.Usage, error) { return scenario.UsageOf(made.process.PID()) }
	return made
}

// start starts the contender, and waits until it serves metrics.
func (s *side) start(ctx context.Context, kubeconfig string) (err error) {
	if s.process, err = s.program.Start(ctx, contender.Settings{Kubeconfig: kubeconfig, Output: s.output, Namespace: s.name}); err != nil {
		return err
	}
	if err := s.process.Ready(ctx); err != nil {
		_, stopped := s.process.Stop()
		return errors.Join(err, stopped)
	}
	return nil
}

// ended returns an error if the contender has ended by itself.
func (s *side) ended() error {
	select {
	case <-s.process.Done():
		return fmt.Errorf("%s has ended: %w", s.name, s.process.Err())
	default:
		return nil
	}
}

// set creates an object, or changes its horse.
func (s *side) set(ctx context.Context, to *connection.Connection, name, horse string, create bool) error {
	var answer v1.BellerophonSimple
	var err error
	if create {
		replicas := int32(1)
		made := &v1.BellerophonSimple{
			TypeMeta:   metav1.TypeMeta{APIVersion: v1.GroupVersion.String(), Kind: v1.Kind},
			ObjectMeta: metav1.ObjectMeta{Namespace: s.name, Name: name},
			Spec:       v1.BellerophonSimpleSpec{WingedHorseName: horse, Replicas: &replicas},
		}
		err = to.Heroes().Post().Namespace(s.name).Resource(v1.Plural).Body(made).Do(ctx).Into(&answer)
	} else {
		var patch []byte
		if patch, err = json.Marshal(map[string]any{"spec": map[string]any{"winged_horse_name": horse}}); err == nil {
			err = to.Heroes().Patch(types.MergePatchType).Namespace(s.name).Resource(v1.Plural).Name(name).Body(patch).Do(ctx).Into(&answer)
		}
	}
	if err != nil {
		return fmt.Errorf("writing %s/%s: %w", s.name, name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, asked := s.wanted[name]; !asked || known.generation != answer.Generation {
		s.wanted[name] = want{answer.Generation, time.Now(), create}
	}
	return nil
}

// watch follows the objects of the namespace.
func (s *side) watch(ctx context.Context, to *connection.Connection) error {
	known, err := operator.Scheme()
	if err != nil {
		return err
	}
	kind, err := sources.KindOf(known, &v1.BellerophonSimple{}, sources.Plural(v1.Plural))
	if err != nil {
		return err
	}
	events := sources.Watch(to.Heroes(), kind, sources.WatchOptions{Namespaces: []string{s.name}})
	return streams.ForEach(ctx, events, func(batch []streams.Event) {
		for i := range batch {
			if hero, is := batch[i].Object.(*v1.BellerophonSimple); is {
				s.see(hero)
			}
		}
	}, func(error) {}) // The watch goes on after a failure.
}

// see notes the state of an object.
func (s *side) see(hero *v1.BellerophonSimple) {
	isReady := hero.Status.ObservedGeneration == hero.Generation && meta.IsStatusConditionTrue(hero.Status.Conditions, v1.ConditionReady)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ready[hero.Name] = isReady
	asked, is := s.wanted[hero.Name]
	if !isReady || !is || hero.Generation < asked.generation || asked.at.IsZero() {
		return
	}
	took := time.Since(asked.at).Seconds()
	if asked.isNew {
		s.created = append(s.created, took)
	} else {
		s.changed = append(s.changed, took)
	}
	s.wanted[hero.Name] = want{generation: asked.generation}
	s.finished++
	if s.recent = append(s.recent, done{hero.Name, took, asked.isNew}); len(s.recent) > maxRecent {
		s.recent = slices.Delete(s.recent, 0, len(s.recent)-maxRecent)
	}
}

// since returns the kept changes after a number of them, and the number of all.
func (s *side) since(known int) (later []done, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.recent[max(0, len(s.recent)-(s.finished-known)):]), s.finished
}

// now returns what was seen so far.
func (s *side) now() Side {
	usage, err := s.usage()
	s.mu.Lock()
	defer s.mu.Unlock()
	made := Side{Name: s.name, Objects: len(s.wanted), Changes: len(s.changed), CreatedP50: median(s.created), ChangedP50: median(s.changed)}
	if err == nil { // It may have ended.
		made.CPU, made.Memory = usage.CPU.Seconds(), float64(usage.Resident)/(1<<20)
	}
	for _, isReady := range s.ready {
		if isReady {
			made.Ready++
		}
	}
	for _, took := range slices.Concat(s.created, s.changed) {
		made.Slowest = max(made.Slowest, took)
	}
	return made
}

// median returns the median of values, or 0 without any.
func median(of []float64) float64 {
	if len(of) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}
