// Package states walks the operator of BellerophonSimple through the states of its spec.
package states

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"regexp"
	"testing"
	"time"

	v1 "github.com/bellerophon-io/bellerophon/bellerophon/api/simple/v1"
	"github.com/bellerophon-io/bellerophon/bellerophon/install"
	"github.com/bellerophon-io/bellerophon/bellerophon/owned"
	"github.com/bellerophon-io/bellerophon/bellerophon/simple"
	"github.com/bellerophon-io/bellerophon/cache"
	"github.com/bellerophon-io/bellerophon/controller"
	"github.com/bellerophon-io/bellerophon/faults/states"
	"github.com/bellerophon-io/bellerophon/internal/lifecycle"
	"github.com/bellerophon-io/bellerophon/internal/localcluster/clustertest"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

var (
	walks   = flag.Int("walks", 45, "number of walks; 0 makes all of the plan")
	workers = flag.Int("workers", 8, "number of objects that exist at the same time")
	journal = flag.String("journal", "", "file that lists finished walks, so that a run goes on where the last one ended")
	slice   = flag.Duration("slice", 0, "time after which no further walk starts; it needs -journal")
	window  = flag.Duration("window", 5*time.Second, "time for which writes are counted after everything has settled")
	first   = flag.Bool("first", false, "start no further walk after the first problem")
	only    = flag.String("only", "", "pattern of the walks that are made, as they are in the log")
	version = flag.String("version", "", "version of the kind; empty for the stored one")
)

func TestMain(m *testing.M) { clustertest.Main(m) }

func TestTheStateSpaceOfTheSpecHoldsNoSurprise(t *testing.T) {
	config := clustertest.Shared(t).AdminConfig()
	startOperator(t, config)
	chosen, err := regexp.Compile(*only)
	if err != nil {
		t.Fatalf("-only: %v", err)
	}
	definition, err := states.Definition(t.Context(), config, "sheroes.stable.simple-bellerophon.io")
	if err != nil {
		t.Fatal(err)
	}
	report, err := states.Explore(t.Context(), states.Subject{
		Config:     config,
		Definition: definition,
		Version:    *version,
		Children: []schema.GroupVersionResource{
			{Version: "v1", Resource: "configmaps"},
			{Version: "v1", Resource: "services"},
			{Version: "v1", Resource: "pods"},
			{Group: "apps", Version: "v1", Resource: "statefulsets"},
		},
		// With one server, a change replaces it at once. With two, a rollout has a middle.
		Base: map[string]any{"spec": map[string]any{"replicas": 2}},
		Values: map[string][]any{
			"spec.replicas": {2, 1, 3, 0},
			"spec.image": {
				"bellerophon-io/bellerophon-server:v1", "registry.invalid/server:v1", // The node cannot pull the second one.
				"bellerophon-io/bellerophon-server:v2", "bellerophon-io/bellerophon-server", "bellerophon-io/bellerophon-server:latest",
			},
			"spec.winged_horse_name": {"pegasus", "arion", "Pegasus", "pegasus "},
		},
		Ignore: []string{"Pod.status"}, // The node writes it. The StatefulSet counts the ready ones.
		IsHeavy: func(field string, value any) bool {
			number, is := value.(int64)
			return is && field == "spec.replicas" && number > 10
		},
	}, states.Options{
		Walks: *walks, Workers: *workers, Journal: *journal, Slice: *slice, FailFast: *first, Window: *window, Select: chosen.MatchString,
		// The operator waits up to half a minute before it looks at pods, if all servers take long.
		Patience: 90 * time.Second, Quiet: 1200 * time.Millisecond,
		Log: func(line string) { t.Log(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d fields, %d values, %d refused, %d of %d walks of %d", report.Fields, report.Values, report.Refused, report.Walks, report.Planned, report.All)
	for _, problem := range report.Problems {
		t.Error(problem)
	}
	if report.Values < 50 || report.Refused < 20 {
		t.Errorf("%d values were tried and %d refused; the schema was not read", report.Values, report.Refused)
	}
	if err := report.WriteGoals(os.Stdout, ""); err != nil {
		t.Error(err)
	}
}

// startOperator starts the operator as its ServiceAccount, for all namespaces.
func startOperator(t *testing.T, config *rest.Config) {
	t.Helper()
	installed, err := install.Operator(t.Context(), config, install.Options{})
	if err != nil {
		t.Fatal(err)
	}
	account, err := installed.Config(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1.AddToScheme} {
		if err := add(types); err != nil {
			t.Fatal(err)
		}
	}
	manager, err := controller.NewManager(account, types, controller.Options{
		Logger: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError})),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := simple.AddTo(manager, owned.KindsOf(simple.Fields())); err != nil {
		t.Fatal(err)
	}
	group := lifecycle.New(context.Background())
	group.Go("operator", manager.Run)
	t.Cleanup(func() {
		group.Stop()
		if err := group.Wait(); err != nil {
			t.Errorf("the operator failed: %v", err)
		}
	})
	if err := manager.Cache().Wait(t.Context(), cache.Current); err != nil {
		t.Fatal(err)
	}
}
