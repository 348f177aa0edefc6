package client_test

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bellerophon-io/bellerophon/bellerophon/dev/contract"
	"github.com/bellerophon-io/bellerophon/bellerophon/dev/worktree"
	"github.com/bellerophon-io/bellerophon/sources/sourcestest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestTheSpecsAreWrittenOnce(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.wantSpecs("devfile 1")
		if w.writes() != 1 {
			t.Errorf("the client has written %d times, want 1: %v", w.writes(), w.server.Counts().Requests)
		}
		if view, _ := w.last(); view.Problem != nil || view.IsInSync() {
			t.Errorf("the view is %+v, want no problem, and no files in sync", view)
		}
	})
}

func TestNothingIsSentReadOrShownWhileNothingChanges(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		before := w.server.Counts().Requests
		_, reads := w.last()
		views := len(w.views)
		for range 10 {
			w.changes.Send() // Of a file that is as it was.
			w.settle()
		}
		for request, count := range w.server.Counts().Requests {
			if verb, _, _ := strings.Cut(request, " "); verb != "watch" && count != before[request] {
				t.Errorf("the client has sent %d × %s, want none", count-before[request], request)
			}
		}
		if _, after := w.last(); after != reads || len(w.views) != views {
			t.Errorf("the client has read the devfile %d times more, and shown %d views more; want none", after-reads, len(w.views)-views)
		}
	})
}

func TestSpecsThatSomebodyDeletesOrEditsAreRepaired(t *testing.T) {
	for name, change := range map[string]func(w *world, config *corev1.ConfigMap) error{
		"deleted": func(w *world, config *corev1.ConfigMap) error { return w.server.Delete(config) },
		"another value": func(w *world, config *corev1.ConfigMap) error {
			config.Data["devfile.yaml"] = "mine"
			return w.server.Update(config)
		},
		"no files": func(w *world, config *corev1.ConfigMap) error {
			delete(config.Data, "files.json")
			return w.server.Update(config)
		},
		"nonsense": func(w *world, config *corev1.ConfigMap) error {
			config.Data["files.json"] = "{"
			return w.server.Update(config)
		},
		"no data": func(w *world, config *corev1.ConfigMap) error { config.Data = nil; return w.server.Update(config) },
		"no part": func(w *world, config *corev1.ConfigMap) error {
			delete(config.Labels, contract.PartLabel)
			return w.server.Update(config)
		},
		"no labels": func(w *world, config *corev1.ConfigMap) error { config.Labels = nil; return w.server.Update(config) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(t *testing.T, w *world) {
				before := w.writes()
				config, _ := w.specs()
				must(t, change(w, config))
				w.settle()
				w.wantSpecs("devfile 1")
				if made := w.writes() - before; made != 1 {
					t.Errorf("the repair took %d writes, want 1", made)
				}
			})
		})
	}
}

func TestADevfileWithMistakesIsShownAndLeavesTheSpecs(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		mistake := errors.New("devfile.yaml:3: a mistake")
		w.save("broken", mistake)
		if view, _ := w.last(); !errors.Is(view.Problem, mistake) {
			t.Errorf("the problem is %v, want the mistake", view.Problem)
		}
		w.wantSpecs("devfile 1")

		// The files of the project are synced nevertheless.
		w.edit(func() { w.snapshot.Tree["main.go"] = version("2") })
		w.wantSpecs("devfile 1")

		w.save("devfile 2", nil)
		w.wantSpecs("devfile 2")
		if view, _ := w.last(); view.Problem != nil {
			t.Errorf("the problem of the mended devfile is %v, want none", view.Problem)
		}
	})
}

func TestADevfileWithMistakesFromTheStartWritesNothing(t *testing.T) {
	mistake := errors.New("devfile.yaml:3: a mistake")
	inWorld(t, func(_ *testing.T, w *world) { w.mistake = mistake }, func(t *testing.T, w *world) {
		if w.writes() != 0 {
			t.Errorf("the client has written %d times, want none", w.writes())
		}
		if view, _ := w.last(); !errors.Is(view.Problem, mistake) {
			t.Errorf("the problem is %v, want the mistake", view.Problem)
		}
		w.save("devfile 2", nil)
		w.wantSpecs("devfile 2")
	})
}

func TestADevfileIsReadAgainOnlyWhenAFileThatItMayBeMadeOfChanges(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		_, before := w.last()
		w.edit(func() { w.snapshot.Tree["main.go"] = version("2") })
		w.edit(func() { w.snapshot.Tree["lib/a.go"] = version("1") })
		w.edit(func() { delete(w.snapshot.Tree, "main.go") })
		w.wantSpecs("devfile 1")
		if _, reads := w.last(); reads != before {
			t.Errorf("changes of other files have read the devfile %d times, want none", reads-before)
		}
		for _, name := range []string{"devfile.yaml", "stacks/parent.yml", "deploy/objects.json"} {
			_, before := w.last()
			w.edit(func() {
				w.devfile = "with " + name
				w.snapshot.Tree[name] = version("of " + name)
			})
			if _, reads := w.last(); reads == before {
				t.Errorf("a change of %s has not read the devfile", name)
			}
			w.wantSpecs("with " + name)
		}
	})
}

// An editor truncates the devfile and writes the same content again. The files are as they were.
func TestADevfileThatIsReadWhileItIsSavedIsReadOnceMore(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.mu.Lock()
		w.snapshot.Tree = worktree.Tree{"devfile.yaml": version("2")}
		w.devfile, w.mistake = "", errors.New("no devfile")
		w.mu.Unlock()
		w.changes.Send()
		synctest.Wait()
		if view, _ := w.last(); view.Problem == nil {
			t.Fatal("the client has not read the devfile while it was saved")
		}
		w.mu.Lock()
		w.devfile, w.mistake = "devfile 2", nil
		w.mu.Unlock()
		w.settle()
		w.wantSpecs("devfile 2")
		if view, _ := w.last(); view.Problem != nil {
			t.Errorf("the problem is %v, want none", view.Problem)
		}
	})
}

func TestNothingIsWrittenBeforeTheFilesAreListed(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) { w.snapshot.Listed = false }, func(t *testing.T, w *world) {
		if w.writes() != 0 || len(w.views) != 0 || w.reads != 0 {
			t.Errorf("the client has written %d times, shown %d views and read %d devfiles; want none", w.writes(), len(w.views), w.reads)
		}
		w.edit(func() { w.snapshot.Listed = true })
		w.wantSpecs("devfile 1")
	})
}

func TestTheStatusIsShownWhenItChanges(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		status := contract.Status{State: contract.FilesSynced, Sync: contract.Sync{Root: w.snapshot.Tree.Root(), Files: 2}}
		config, err := status.ConfigMap(namespace, application)
		must(t, err)
		must(t, w.server.Create(config))
		w.settle()
		if view, _ := w.last(); view.Status.State != contract.FilesSynced || !view.IsInSync() {
			t.Errorf("the view is %+v, want the Status, in sync", view)
		}
		views := len(w.views)
		config.Annotations = map[string]string{"of": "somebody"}
		must(t, w.server.Update(config))
		w.settle()
		if len(w.views) != views {
			t.Errorf("an annotation has shown %d views, want none", len(w.views)-views)
		}

		w.edit(func() { w.snapshot.Tree["main.go"] = version("2") })
		if view, _ := w.last(); view.IsInSync() {
			t.Error("the files have changed, and the view is in sync")
		}

		config.Data["status.json"] = "{"
		must(t, w.server.Update(config))
		w.settle()
		if view, _ := w.last(); view.Problem == nil || !strings.Contains(view.Problem.Error(), "read the Status in hero-status") {
			t.Errorf("the problem is %v, want the Status that cannot be read", view.Problem)
		}
		must(t, w.server.Delete(config))
		w.settle()
		if view, _ := w.last(); view.Problem != nil || view.Status.State != "" {
			t.Errorf("the view is %+v, want no Status and no problem", view)
		}
		if w.writes() != 2 {
			t.Errorf("the client has written %d times, want 2: the Specs, and the edit", w.writes())
		}
	})
}

func TestAWriteThatFailsIsShownAndRepeated(t *testing.T) {
	inWorld(t, nil, func(t *testing.T, w *world) {
		must(t, w.server.Inject(sourcestest.Fault{Action: sourcestest.Refuse, Verb: "patch", Code: 503, Times: sourcestest.Always}))
		w.edit(func() { w.snapshot.Tree["main.go"] = version("2") })
		if view, _ := w.last(); view.Problem == nil || !strings.HasPrefix(view.Problem.Error(), "write the Specs of hero: ") {
			t.Errorf("the problem is %v, want the write", view.Problem)
		}
		w.server.Heal()
		<-time.After(10 * time.Minute)
		w.settle()
		w.wantSpecs("devfile 1")
		if view, _ := w.last(); view.Problem != nil {
			t.Errorf("the problem is %v, want none after the outage", view.Problem)
		}
	})
}

func TestAConfigMapOfSomebodyElseStays(t *testing.T) {
	theirs := map[string]string{"their": "settings"}
	create := func(t *testing.T, w *world) {
		must(t, w.server.Create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: application}, Data: theirs}))
	}
	inWorld(t, create, func(t *testing.T, w *world) {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: application}}
		must(t, w.server.Get(config))
		if !maps.Equal(config.Data, theirs) || len(config.Labels) != 0 {
			t.Errorf("the ConfigMap of somebody else is %v with the labels %v now", config.Data, config.Labels)
		}
		if view, _ := w.last(); view.Problem == nil || !strings.Contains(view.Problem.Error(), "give another name with --name") {
			t.Errorf("the problem is %v, want the name that is taken", view.Problem)
		}
	})
}

func TestOneApplicationLeavesAnother(t *testing.T) {
	create := func(t *testing.T, w *world) {
		config, err := contract.Specs{Devfile: "other"}.ConfigMap(namespace, "other")
		must(t, err)
		must(t, w.server.Create(config))
	}
	inWorld(t, create, func(t *testing.T, w *world) {
		w.save("devfile 2", nil)
		other := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other"}}
		must(t, w.server.Get(other))
		if specs, err := contract.SpecsOf(other); err != nil || specs.Devfile != "other" {
			t.Errorf("the other application has the Specs %+v, %v", specs, err)
		}
	})
}

func TestAClientThatStartsAgainWritesNothing(t *testing.T) {
	var config *corev1.ConfigMap
	inWorld(t, nil, func(_ *testing.T, w *world) { config, _ = w.specs() })
	create := func(t *testing.T, w *world) {
		must(t, w.server.Create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: application, Labels: config.Labels}, Data: config.Data,
		}))
	}
	inWorld(t, create, func(t *testing.T, w *world) {
		w.wantSpecs("devfile 1")
		if w.writes() != 0 {
			t.Errorf("the client has written %d times, want none", w.writes())
		}
	})
}

// The client ends at once, although the API server does not answer.
func TestAClientEndsDuringAWrite(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		must(t, w.server.Inject(sourcestest.Fault{Action: sourcestest.Hang, Verb: "patch", Times: sourcestest.Always}))
	}, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		w.group.Stop()
		must(t, w.group.Wait())
		if ctx.Err() != nil {
			t.Error("the client has not ended within 10 minutes")
		}
	})
}
