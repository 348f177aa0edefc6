package conformance

import (
	"context"
	"flag"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bellerophon-io/bellerophon/bench/contender"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
)

var seeded = flag.String("seeded", "finalizer|labels of others|written twice", "pattern of the names of the bugs that the suite must find; . is all of them, in seven minutes")

// broken is a contender with an additional bug.
type broken struct {
	Process
	group *lifecycle.Group
}

func (b *broken) Stop() (time.Duration, error) {
	b.group.Stop()
	_ = b.group.Wait() // The bugs ignore failures.
	return b.Process.Stop()
}

func (b bug) start(ctx context.Context, kubeconfig string, process Process) (Process, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	group := lifecycle.New(context.WithoutCancel(ctx))
	// The first watch begins before a check creates objects.
	watcher, err := client.Resource(b.resource).Watch(group.Context(), metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	group.Go("bug", func(ctx context.Context) error {
		for { // Starts again from the beginning when the suite cuts the watch.
			for event := range watcher.ResultChan() {
				if object, ok := event.Object.(*unstructured.Unstructured); ok {
					b.beside(ctx, client, event, object)
				}
			}
			watcher.Stop()
			if ctx.Err() != nil {
				return nil
			}
			if watcher, err = client.Resource(b.resource).Watch(ctx, metav1.ListOptions{}); err != nil {
				return err
			}
		}
	})
	return &broken{process, group}, nil
}

func TestTheSuiteFindsWhatIsWrongWithAContender(t *testing.T) {
	chosen, err := contender.Named("bellerophon")
	if err != nil {
		t.Fatal(err)
	}
	program, err := chosen[0].Build(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	chosenBugs, err := regexp.Compile(*seeded)
	if err != nil {
		t.Fatalf("-seeded: %v", err)
	}
	found := 0
	for name, bug := range bugs() {
		if !chosenBugs.MatchString(name) {
			continue
		}
		found++
		t.Run(name, func(t *testing.T) {
			output, starts := filepath.Join(t.TempDir(), "output.log"), 0
			subject := Subject{Name: name, Start: func(ctx context.Context, kubeconfig string) (Process, error) {
				start := func() (Process, error) {
					return program.Start(context.WithoutCancel(ctx), contender.Settings{Kubeconfig: kubeconfig, Output: output})
				}
				if bug.instead != nil {
					starts++
					return bug.instead(t, starts-1, start)
				}
				process, err := start()
				if err != nil || bug.beside == nil {
					return process, err
				}
				return bug.start(ctx, kubeconfig, process)
			}}
			report, err := Run(t.Context(), clustertest.Shared(t).AdminConfig(), subject, Options{
				Only: slices.Concat(bug.found, bug.passes), Patience: 10 * time.Second, Quiet: 1500 * time.Millisecond, alter: bug.alter,
			})
			if err != nil {
				t.Fatal(err)
			}
			if failed := report.Failed(); !slices.Equal(failed, bug.found) {
				t.Errorf("the checks %v failed, want %v", failed, bug.found)
			}
			if err := report.Err(); err != nil {
				t.Log(strings.ReplaceAll(err.Error(), "\n", "\n\t"))
			}
		})
	}
	if found == 0 {
		t.Errorf("-seeded is %q, which is the name of no bug", *seeded)
	}
}
